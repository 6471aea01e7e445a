"""The file operations of the storage layer, without those that change anything.

A data directory may belong to a running broker or to another user, or lie on a read-only mount. Files are
only opened for reading, and every operation that would write fails before it reaches the disk.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
from typing import NoReturn

from kafkapy.storage.disk.files import File, FileSystem

_F_OFD_GETLK: int | None = getattr(fcntl, "F_OFD_GETLK", None)
_FLOCK = "hhqqi"
"""The struct flock: type, whence, start, length, owner."""


class ReadOnlyFiles(FileSystem):
    """Reads files; every other operation raises OSError (EROFS)."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file for reading; `create` is ignored."""
        return File(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def is_locked(self, path: str) -> bool:
        """Return whether a broker holds the lock of `FileSystem.lock`, without taking it."""
        try:
            file = self.open(path)
        except FileNotFoundError:
            return False
        try:
            if _F_OFD_GETLK is None or sys.platform != "linux":
                # Such a lock cannot be queried. So a shared lock is tried, and released at once.
                fcntl.lockf(file.fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return False
            wanted = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            found = fcntl.fcntl(file.fd, _F_OFD_GETLK, wanted)
            return bool(struct.unpack(_FLOCK, found)[0] != fcntl.F_UNLCK)
        except BlockingIOError:
            return True
        finally:
            file.release()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise OSError(errno.EROFS, "these files are read only")

    create = write_at = write_file = truncate = allocate = set_modified_ms = _refuse
    sync_data = sync_path = sync_directory = rename = link = copy = copy_start = unshare = unlink = _refuse
    make_directory = make_directories = remove = write_atomically = lock = _refuse
