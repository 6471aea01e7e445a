"""The file operations of the storage layer without those that change anything.

A data directory may belong to a running broker, to another user, or lie on a read-only mount: files are
opened for reading alone, and whatever would write fails before it reaches the disk.
"""

from __future__ import annotations

import errno
import os
from typing import NoReturn

from kafkapy.storage.files import File, FileSystem


class ReadOnlyFiles(FileSystem):
    """Reads; each other operation raises OSError (EROFS)."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading, whatever `create` says."""
        return File(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def size_of(self, file: File) -> int:
        """The size of an open file, whatever its name is by now."""
        return os.fstat(file.fd).st_size

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise OSError(errno.EROFS, "a reader changes no file")

    create = write_at = truncate = allocate = sync_data = sync_path = sync_directory = _refuse
    rename = link = copy = unlink = make_directory = make_directories = remove = _refuse
    write_atomically = lock = _refuse
