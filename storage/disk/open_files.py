"""Limits the number of open log files, and divides the descriptors of the process.

Sockets and files are both descriptors, limited by RLIMIT_NOFILE. `share_descriptors` divides them between log
files, connections (network/connection_limits.py) and the rest, so that none takes those of another. They may
still run out (files of unsent answers, ENFILE, a broker inside another program). Then the operation fails
with ExhaustedError, and may succeed later (errors.py).

A broker may have many more segments than a process may open files. `.log` and index files are opened on first
use, and listed here. If more than `limit` are open, one that was not used for long is closed; it is opened
again on use. The choice is that of a page cache (second chance): each use of a file sets `used`, which costs
an append or a read no call and no search. The list is searched from its oldest entry; an entry that was used
since the last search moves to the end.

Closing a file releases one reference (files.py), so a read or a flush that has another continues.

Threads: files are listed only if the thread that serves the logs opens them. Only that thread closes them, so
that none is closed while another thread uses it. Other threads (recovery, copies of logs) close their files
themselves.
"""

from __future__ import annotations

import os
import resource
import threading
import weakref
from collections import OrderedDict
from typing import Final, NamedTuple, Protocol

_OWN: Final = 256
"""The descriptors that are neither for log files nor for connections.

They are for listeners, the metadata, checkpoints, the reserve, and a file of each partition in a flush.
"""

_OWN_FRACTION: Final = 4
"""They are at most a fourth of all descriptors."""

_RESERVE: Final = 16
"""The descriptors that are kept open as a reserve.

Threads that find none left close some of them: threads that sync or write checkpoints cannot close the files
of the thread that serves the logs.
"""

_FEWEST: Final = 16
"""The files that may always be listed, as one operation needs several at once."""

_UNLIMITED: Final = 1 << 21
"""The number of descriptors to divide if the process has no limit."""


class Shares(NamedTuple):
    """The numbers of descriptors for log files and for connections."""

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
    """The number of descriptors that the process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


class OpenFile(Protocol):
    """A file and its users (files.File)."""

    fd: int


class FileUser(Protocol):
    """The owner of a listed file."""

    used: bool
    """Whether the file was used since this was set to False."""

    def close_file(self) -> OpenFile | None:
        """Release the file, which opens again on use; return it, if it was open."""


class OpenFiles:
    """The open files of the logs of one broker."""

    __slots__ = ("__weakref__", "_held", "_reserve", "_reserve_size", "_thread", "_users", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """The number of files that may be open."""
        self._users: OrderedDict[FileUser, None] = OrderedDict()
        self._held: list[OpenFile] = []
        """The files that were closed here but are still being sent or synced."""
        self._thread = -1
        self._reserve: list[int] = []
        """The descriptors of the reserve."""
        self._reserve_size = 0

    def __len__(self) -> int:
        return len(self._users)

    def serve_this_thread(self) -> None:
        """List the files that this thread opens from now on."""
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
        """Remove the file that `user` has closed from the list."""
        self._users.pop(user, None)

    @property
    def per_answer(self) -> int:
        """The number of files that one answer may hold, so that no reader takes all of them."""
        return max(self.limit // 4, _FEWEST) if self.limit else _UNLIMITED

    @property
    def crowded(self) -> bool:
        """Whether unsent answers hold as many files as may be open."""
        if 0 < self.limit <= len(self._held):
            self._forget_closed()
            return self.limit <= len(self._held)
        return False

    def make_room(self) -> bool:
        """Close files, as no descriptor is left; return False if that frees none.

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
        """Keep a reserve of descriptors until `close`."""
        if not self._reserve_size:
            self._reserve_size = min(_RESERVE, _limit() // _RESERVE)
            weakref.finalize(self, _close_all, self._reserve)
        self.refill()

    def refill(self) -> None:
        """Fill the reserve again, as far as possible.

        Any thread may call this.
        """
        while len(self._reserve) < self._reserve_size:
            try:
                self._reserve.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                return

    def close(self) -> None:
        """Close the reserve."""
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
"""It lists no files. It is for tools, which open few."""
