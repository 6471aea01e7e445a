"""The sync of a directory that many flushes need: one sync serves many.

It serves all that asked before it began. Each first flush of a new partition has to put the name of its
directory on disk, and many partitions are new together. A failed sync is final: later ones fail too, since
the kernel may call the next one a success.
"""

from __future__ import annotations

import errno
import threading

from kafkapy.storage.disk.files import FileSystem, is_exhausted


class SharedSync:
    """Syncs one directory for all who ask, in any thread."""

    __slots__ = ("_begun", "_ended", "_failed", "_files", "_lock", "_path")

    def __init__(self, files: FileSystem, path: str) -> None:
        self._files = files
        self._path = path
        self._lock = threading.Lock()
        self._begun = 0
        """The number of the last sync that was begun."""
        self._ended = 0
        """The number of the last sync that succeeded."""
        self._failed = False

    def ask(self) -> int:
        """The number of the first sync that covers what the directory holds now."""
        return self._begun + 1

    def sync(self, number: int) -> None:
        """Return when that sync, or a later one, has ended; begin it if need be.

        Raises:
            OSError: the disk failed, now or before; or no file can be opened, which may pass.
        """
        with self._lock:
            if self._ended >= number:
                return
            if self._failed:
                raise OSError(errno.EIO, "an earlier sync of the directory failed", self._path)
            self._begun += 1
            try:
                self._files.sync_directory(self._path)
            except OSError as error:
                self._failed = not is_exhausted(error)
                raise
            self._ended = self._begun
