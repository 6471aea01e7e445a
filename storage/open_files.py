"""A bound on the open files of the logs: what was not used for long is closed, and opens again on use.

A broker may hold many more segments than a process may open files. `.log` and index files open on first use;
each one open is listed here, and when there are more than `limit`, the longest unused is closed. That is
found as a page cache finds it (second chance): whoever uses its file sets `used`, which costs an append or a
read no call and no search; the list is gone through from its oldest entry, and one that was used since the
last look goes to the end of the list instead.

Closing is releasing one reference (files.py): a read or a flush that holds another goes on.

Threads: files are listed only when the thread that serves the logs opens them, and only that thread closes
them, so that none is closed under another thread's hands. What other threads open (recovery, copies of logs)
they close themselves.
"""

from __future__ import annotations

import resource
import threading
from collections import OrderedDict
from typing import Final, Protocol

_OWN: Final = 256
"""Descriptors for what is neither a log's file nor a connection: listeners, the metadata, checkpoints."""

_FEWEST: Final = 64
"""Of the logs' files, however few descriptors the process has: one operation needs several at once."""


def default_limit() -> int:
    """Half of what the process may open (RLIMIT_NOFILE); the rest is for connections and the bytes on their
    way."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1 << 20
    return max((soft - _OWN) // 2, _FEWEST)


class FileUser(Protocol):
    """Whose file is listed."""

    used: bool
    """It was used since this was last False."""

    def close_file(self) -> None:
        """Release the file; it opens again on use."""


class OpenFiles:
    """The open files of the logs of one broker."""

    __slots__ = ("_thread", "_users", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """How many files may be open."""
        self._users: OrderedDict[FileUser, None] = OrderedDict()
        self._thread = -1

    def __len__(self) -> int:
        return len(self._users)

    def serve_this_thread(self) -> None:
        """From now on list what this thread opens."""
        self._thread = threading.get_ident()

    def opened(self, user: FileUser) -> None:
        """`user` has opened its file. Others are closed if there are too many."""
        if threading.get_ident() == self._thread:
            user.used = True
            self._users[user] = None
            while len(self._users) > self.limit:
                self._close_one()

    def closed(self, user: FileUser) -> None:
        """`user` has closed its file."""
        self._users.pop(user, None)

    def make_room(self) -> bool:
        """Close a quarter of the files: the system has no descriptor left. False where that frees none."""
        if threading.get_ident() != self._thread or not self._users:
            return False
        for _ in range(len(self._users) // 4 + 1):
            self._close_one()
        return True

    def _close_one(self) -> None:
        users = self._users
        while True:
            user, _ = users.popitem(last=False)
            if not user.used:
                break
            user.used = False
            users[user] = None
        user.close_file()


UNBOUNDED = OpenFiles(0)
"""Lists nothing: for files of a tool, which opens few."""
