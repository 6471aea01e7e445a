"""How many files of logs may be open, and what the other descriptors are for.

Sockets and files are descriptors alike, and RLIMIT_NOFILE bounds them all. `share_descriptors` divides them
between the logs' files, connections (network/connection_limits.py) and the rest, so that none takes what
another needs. They may run out all the same (the files of answers that nobody reads, ENFILE, a broker in
somebody's process). Then the operation at hand fails with ExhaustedError, and may succeed later (files.py).

A broker may hold many more segments than a process may open files. `.log` and index files open on first use.
Each open one is listed here. When there are more than `limit`, the one that was not used for longest is
closed; it opens again on use. It is found as a page cache finds it (second chance): whoever uses its file
sets `used`, which costs an append or a read no call and no search. The list is gone through from its oldest
entry, and one that was used since the last look goes to the end of the list instead.

Closing is releasing one reference (files.py): a read or a flush that holds another goes on.

Threads: files are listed only when the thread that serves the logs opens them. Only that thread closes them,
so that none is closed while another thread uses it. What other threads open (recovery, copies of logs) they
close themselves.
"""

from __future__ import annotations

import os
import resource
import threading
import weakref
from collections import OrderedDict
from typing import Final, NamedTuple, Protocol

_OWN: Final = 256
"""Descriptors for what is neither a log's file nor a connection.

These are listeners, the metadata, checkpoints, the reserve, and a file of each partition in a flush.
"""

_OWN_FRACTION: Final = 4
"""They are at most this part of all."""

_RESERVE: Final = 16
"""Descriptors that are kept open as a reserve.

They are given up by threads that find none left: what syncs and what writes checkpoints cannot close the
files of the thread that serves.
"""

_FEWEST: Final = 16
"""Files that stay listed however many others are held: one operation needs several at once."""

_UNLIMITED: Final = 1 << 21
"""What is divided if the process may open as many as it likes."""


class Shares(NamedTuple):
    """How many descriptors are for what."""

    log_files: int
    connections: int


def share_descriptors(log_files: int | None = None) -> Shares:
    """Divide the descriptors that the process may open (RLIMIT_NOFILE).

    The logs get half of what is left after the broker's own, or `log_files` if that is less than three
    quarters of it; connections get the rest.
    """
    limit = _limit()
    rest = limit - min(_OWN, limit // _OWN_FRACTION)
    for_logs = rest // 2 if log_files is None else min(log_files, rest * 3 // 4)
    return Shares(for_logs, rest - for_logs)


def _limit() -> int:
    """How many descriptors the process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


class OpenFile(Protocol):
    """A file and its users (files.File)."""

    fd: int


class FileUser(Protocol):
    """The owner of a listed file."""

    used: bool
    """It was used since this was last False."""

    def close_file(self) -> OpenFile | None:
        """Release the file, which opens again on use; return it, if it was open."""


class OpenFiles:
    """The open files of the logs of one broker."""

    __slots__ = ("__weakref__", "_held", "_reserve", "_reserve_size", "_thread", "_users", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """How many files may be open."""
        self._users: OrderedDict[FileUser, None] = OrderedDict()
        self._held: list[OpenFile] = []
        """Files that were closed here and that are still being sent or synced."""
        self._thread = -1
        self._reserve: list[int] = []
        """The descriptors of the reserve."""
        self._reserve_size = 0

    def __len__(self) -> int:
        return len(self._users)

    def serve_this_thread(self) -> None:
        """List what this thread opens, from now on."""
        self._thread = threading.get_ident()

    def opened(self, user: FileUser) -> None:
        """List the file that `user` has opened; close others if there are too many."""
        if threading.get_ident() == self._thread:
            user.used = True
            self._users[user] = None
            if len(self._users) + len(self._held) > self.limit:
                self._forget_closed()
                fewest = min(self.limit, _FEWEST)
                while len(self._users) > max(self.limit - len(self._held), fewest):
                    self._close_one()

    def closed(self, user: FileUser) -> None:
        """Take the file that `user` has closed off the list."""
        self._users.pop(user, None)

    @property
    def per_answer(self) -> int:
        """How many files one answer may hold: no reader must need them all."""
        return max(self.limit // 4, _FEWEST) if self.limit else _UNLIMITED

    @property
    def crowded(self) -> bool:
        """Whether answers that nobody reads hold as many files as may be open."""
        if 0 < self.limit <= len(self._held):
            self._forget_closed()
            return self.limit <= len(self._held)
        return False

    def make_room(self) -> bool:
        """Close something, as there is no descriptor left; False if that frees none.

        The thread that serves the logs closes a quarter of their files. If there are none, and in other
        threads, the reserve is closed.
        """
        if threading.get_ident() != self._thread or not self._users:
            return self._give_up_one()
        for _ in range(len(self._users) // 4 + 1):
            self._close_one()
        return True

    # --- the reserve ----------------------------------------------------------------------------------------

    def keep_reserve(self) -> None:
        """Keep descriptors for threads that find none left, until `close`."""
        if not self._reserve_size:
            self._reserve_size = min(_RESERVE, _limit() // _RESERVE)
            weakref.finalize(self, _close_all, self._reserve)
        self.refill()

    def refill(self) -> None:
        """Fill the reserve again, as far as that is possible, in any thread."""
        while len(self._reserve) < self._reserve_size:
            try:
                self._reserve.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                return

    def close(self) -> None:
        """Give up the reserve."""
        self._reserve_size = 0
        _close_all(self._reserve)

    def _give_up_one(self) -> bool:
        try:
            fd = self._reserve.pop()
        except IndexError:
            return False
        os.close(fd)
        return True

    # --- closing --------------------------------------------------------------------------------------------

    def _forget_closed(self) -> None:
        self._held = [file for file in self._held if file.fd >= 0]

    def _close_one(self) -> None:
        users = self._users
        while True:
            user, _ = users.popitem(last=False)
            if not user.used:
                break
            user.used = False
            users[user] = None
        file = user.close_file()
        if file is not None and file.fd >= 0:
            self._held.append(file)


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


UNBOUNDED = OpenFiles(0)
"""Lists nothing: for the files of a tool, which opens few."""
