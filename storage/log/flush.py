"""Putting a log on disk: what is not known to be there yet, and one flush of it.

`UnsyncedFiles` collects, on the event loop, the files that a flush has to sync besides the active segment:
closed segments with their indexes (recovery does not read segments below the recovery point), producer
snapshots, and directories with new files. A record is flushed only when the name of its file is on disk too.

A `FlushTicket` is one flush: prepared on the event loop, run in a worker thread, completed or aborted on the
loop. It keeps its files open. It takes the list, which is dropped only when the flush has succeeded:

- A failed sync takes the log directory offline and is never tried again. The recovery point does not move, so
  a restart reads everything that may not be on disk.
- Any other failure (no descriptor, no memory, no thread) says nothing about the disk. The list is put back
  for the next flush.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from kafkapy.storage.disk.errors import (
    DiskFullError,
    StorageError,
    SyncFailedError,
    is_disk_full,
    is_exhausted,
)
from kafkapy.storage.disk.files import File, release_all
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.disk.sync_queue import NO_FILE
from kafkapy.storage.log.producer_snapshots import PendingSnapshot
from kafkapy.storage.log.segment import Segment


@dataclass(slots=True, eq=False)
class FlushTicket:
    """One flush: everything of a log below `end_offset` that is not known to be on disk."""

    log_directory: LogDirectory
    end_offset: int
    generation: int
    """The log's count of truncations. If it rises meanwhile, the flush does not move the flushed offset."""
    files: list[File]
    taken: UnsyncedFiles | None = None
    """The list that this flush took from the log, if it was not empty."""
    paths: tuple[str, ...] = ()
    """Closed files to sync. A missing one was replaced by a newer one."""
    directories: tuple[str, ...] = ()
    snapshots: tuple[PendingSnapshot, ...] = ()
    """Producer snapshots to write."""
    names_sync: int = 0
    """The number of the sync of the log directory that covers the partition's name (shared_sync.py)."""
    abandoned: bool = False
    """The partition was deleted. Missing files are no error: its directory may have another name."""

    def cover(self, taken: UnsyncedFiles) -> None:
        """Sync these files too.

        Later changes of the list do not change this flush.
        """
        self.taken, self.paths, self.directories = taken, taken.paths, tuple(taken.directories)
        self.snapshots = taken.snapshots
        self.names_sync = self.log_directory.names.ask()

    def only_file(self) -> int:
        """The open file whose sync is all that there is to do; NO_FILE if there is more."""
        if self.taken is None and len(self.files) == 1:
            directory = self.log_directory
            if directory.syncs_plainly and not directory.syncs_at_once:
                return self.files[0].fd
        return NO_FILE

    def sync_failed(self, code: int) -> StorageError:
        """The error of this flush after a sync has failed with this errno."""
        error = SyncFailedError(code, os.strerror(code))
        return StorageError(self.log_directory.path, f"syncing to disk failed: {error}")

    def run(self) -> None:
        """Sync everything, in any thread.

        Raises:
            StorageError: the disk failed, and the sync must not be tried again. After a
                TransientStorageError, or any other exception, another flush may succeed.
        """
        if self.log_directory.syncs_at_once:
            for snapshot in self.snapshots:
                snapshot.write(self.log_directory.files, durable=False)
            return
        try:
            self._sync()
        except (OSError, MemoryError) as error:
            if isinstance(error, FileNotFoundError) and self.abandoned:
                return
            if is_exhausted(error):
                raise self.log_directory.exhausted("syncing to disk", error) from error
            if is_disk_full(error):
                raise DiskFullError(self.log_directory.path, f"syncing to disk: {error}") from error
            raise StorageError(self.log_directory.path, f"syncing to disk failed: {error}") from error

    def _sync(self) -> None:
        files = self.log_directory.files
        for file in self.files:
            files.sync_data(file)
        for path in self.paths:
            with contextlib.suppress(FileNotFoundError):
                files.sync_path(path)
        for snapshot in self.snapshots:
            snapshot.write(files, durable=True)
        for directory in self.directories:
            if directory == self.log_directory.path:
                self.log_directory.names.sync(self.names_sync)
            else:
                files.sync_directory(directory)

    def release(self) -> None:
        """Release the files, so that they may be closed."""
        release_all(self.files)
        self.files = []


class UnsyncedFiles:
    """The files that the next flush has to sync besides the active segment.

    Usually there are none, so they are tuples: an empty tuple takes no memory, thousands of empty lists do.
    """

    __slots__ = ("_taken", "directories", "paths", "segments", "snapshots")

    def __init__(self) -> None:
        self.segments: tuple[Segment, ...] = ()
        """Closed segments, with their indexes."""
        self.directories: dict[str, None] = {}
        """Directories with new files, as keys: an empty set takes three times the memory of a dict."""
        self.paths: tuple[str, ...] = ()
        """Small files, closed."""
        self.snapshots: tuple[PendingSnapshot, ...] = ()
        """Producer snapshots that the flush has to write."""
        self._taken: UnsyncedFiles | None = None
        """The list that the flush under way took. It is put back unless that flush succeeds."""

    def __bool__(self) -> bool:
        return bool(self.segments or self.directories or self.paths or self.snapshots)

    def forget(self, segment: Segment) -> None:
        """Forget a segment that is removed.

        It may be listed twice, if a truncation made it the active one again after it was closed.
        """
        self.segments = tuple(each for each in self.segments if each is not segment)
        if self._taken is not None:
            self._taken.forget(segment)

    def moved(self, old: str, new: str) -> None:
        """Note that a partition's directory was renamed."""
        self.directories = dict.fromkeys(new if path == old else path for path in self.directories)
        self.paths = tuple(path.replace(old + "/", new + "/", 1) for path in self.paths)
        if self._taken is not None:
            self._taken.moved(old, new)

    def open_segments(self) -> list[File]:
        """The files of the closed segments, each with a reference.

        Raises:
            OSError: one cannot be opened; no reference is left.
        """
        files: list[File] = []
        try:
            for segment in self.segments:
                files += segment.flush_handles(with_indexes=True)
                segment.close_files()
        except BaseException:
            release_all(files)
            raise
        return files

    def take(self) -> UnsyncedFiles:
        """Take everything for a flush.

        It is remembered until `give_up` or `put_back`.
        """
        self.put_back(self._taken)
        taken = self._taken = UnsyncedFiles()
        taken.segments, taken.directories, taken.paths = self.segments, self.directories, self.paths
        taken.snapshots = self.snapshots
        self.segments, self.directories, self.paths, self.snapshots = (), {}, (), ()
        return taken

    def give_up(self, taken: UnsyncedFiles) -> None:
        """Drop the list that a flush took: its files are on disk."""
        if taken is self._taken:
            self._taken = None
        for snapshot in taken.snapshots:
            snapshot.settle()

    def put_back(self, taken: UnsyncedFiles | None) -> None:
        """Put back the list that a flush took, for the next one: its files may not be on disk."""
        if taken is not None and taken is self._taken:
            self._taken = None
            self.segments = taken.segments + self.segments
            self.directories = taken.directories | self.directories
            self.paths = taken.paths + self.paths
            self.snapshots = taken.snapshots + self.snapshots
