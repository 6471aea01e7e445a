"""Putting a log on disk: what is not known to be there yet, and one flush of it.

`UnsyncedFiles` collects, on the event loop, what a flush has to cover besides the active segment: closed
segments with their indexes (recovery does not look at segments below the recovery point), producer snapshots,
and the directories with new names. A record counts as flushed only when a crash cannot take away the name of
its file either.

A `FlushTicket` is one flush: prepared on the event loop, run in a worker thread, completed on the loop. It
keeps its files open. A failed sync is final: the error takes the log directory offline, and the recovery
point stays, so that a restart reads again what the disk may not have taken.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from kafkapy.storage.files import File, StorageError, is_exhausted, release_all
from kafkapy.storage.log_directory import LogDirectory
from kafkapy.storage.segment import Segment


@dataclass(slots=True, eq=False)
class FlushTicket:
    """Everything of a log below `end_offset` that is not known to be on disk."""

    log_directory: LogDirectory
    end_offset: int
    generation: int
    """The log's count of truncations: a cut meanwhile makes the ticket worthless."""
    files: list[File]
    paths: tuple[str, ...]
    """Closed files to sync; one that is gone was replaced by something newer."""
    directories: list[str]
    leader_epochs: tuple[str, bytes] | None
    """Path and content of the leader-epoch-checkpoint, if it changed."""
    abandoned: bool = False
    """The partition was deleted: its directory may have another name now, and nobody cares."""

    def run(self, synced: set[str] | None = None) -> None:
        """Sync it all, in any thread.

        `synced` are the directories that were synced since the last of these tickets was prepared. Many have
        the log directory itself to sync when many partitions are new.

        Raises:
            ExhaustedError: try again later: what was synced may be synced again.
            StorageError: the disk failed. Do not try again.
        """
        files = self.log_directory.files
        if self.log_directory.syncs_at_once:
            if self.leader_epochs is not None:
                files.write_atomically(*self.leader_epochs, durable=False)
            return
        done = set() if synced is None else synced
        try:
            for file in self.files:
                files.sync_data(file)
            for path in self.paths:
                with contextlib.suppress(FileNotFoundError):
                    files.sync_path(path)
            if self.leader_epochs is not None:
                path, content = self.leader_epochs
                files.write_atomically(path, content)
                done.add(os.path.dirname(path))
            for directory in self.directories:
                if directory not in done:
                    files.sync_directory(directory)
                    done.add(directory)
        except (OSError, MemoryError) as error:
            if isinstance(error, FileNotFoundError) and self.abandoned:
                return
            if is_exhausted(error):
                raise self.log_directory.exhausted("syncing to disk", error) from error
            raise StorageError(self.log_directory.path, f"syncing to disk failed: {error}") from error

    def release(self) -> None:
        """Let the files close."""
        release_all(self.files)
        self.files = []


class UnsyncedFiles:
    """What the next flush has to cover besides the active segment. Mostly nothing: an empty tuple takes no
    memory, thousands of empty lists do."""

    __slots__ = ("directories", "paths", "segments")

    def __init__(self) -> None:
        self.segments: tuple[Segment, ...] = ()
        """Closed segments: batches and indexes."""
        self.directories: dict[str, None] = {}
        """Directories that got new names: a set, which would take three times the memory when it is empty."""
        self.paths: tuple[str, ...] = ()
        """Small files, closed."""

    def __bool__(self) -> bool:
        return bool(self.segments or self.directories or self.paths)

    def forget(self, segment: Segment) -> None:
        """The segment is removed. It may be here twice: closed, active again by a truncation, and closed."""
        self.segments = tuple(each for each in self.segments if each is not segment)

    def moved(self, old: str, new: str) -> None:
        """A partition's directory was renamed."""
        self.directories = dict.fromkeys(new if path == old else path for path in self.directories)
        self.paths = tuple(path.replace(old + "/", new + "/", 1) for path in self.paths)

    def take(self) -> tuple[list[File], tuple[str, ...], list[str]]:
        """Open files (each with a reference), paths and directories to sync; nothing is left here.

        Raises:
            OSError: a file cannot be opened; everything is left here.
        """
        handles: list[File] = []
        try:
            for segment in self.segments:
                handles += segment.flush_handles(with_indexes=True)
                segment.close_files()
        except BaseException:
            release_all(handles)
            raise
        taken = handles, self.paths, list(self.directories)
        self.segments, self.paths, self.directories = (), (), {}
        return taken
