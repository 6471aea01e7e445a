"""Syncs of a directory that many flushes share.

A sync serves all flushes that asked for it before it began. The first flush of a new partition puts the name
of the partition's directory on disk, and many partitions may be new at the same time. After a failed sync all
later ones fail too: the kernel may report success for the next one although data was lost. A lack of
descriptors is no such failure.
"""

from __future__ import annotations

import errno
import threading

from kafkapy.storage.disk.errors import is_exhausted
from kafkapy.storage.disk.files import FileSystem


class SharedSync:
    """The syncs of one directory, for any thread."""

    __slots__ = ("_begun", "_ended", "_failed", "_files", "_lock", "_path")

    def __init__(self, files: FileSystem, path: str) -> None:
        self._files = files
        self._path = path
        self._lock = threading.Lock()
        self._begun = 0
        """The number of the last sync that has begun."""
        self._ended = 0
        """The number of the last sync that has succeeded."""
        self._failed = False

    def ask(self) -> int:
        """The number of the first sync that covers the present names in the directory."""
        return self._begun + 1

    def sync(self, number: int) -> None:
        """Run the sync of this number, unless it or a later one has succeeded.

        Raises:
            OSError: the disk failed, now or earlier; or there is a lack of descriptors.
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
