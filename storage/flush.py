"""Putting a log on disk: what one flush covers, prepared on the event loop and synced in a worker thread.

A ticket holds the files with unsynced batches (of closed segments the indexes too, since recovery does not
look at segments below the recovery point), the leader epochs if they changed, and the directories with new
names: a record counts as flushed only when a crash cannot take away the name of its file either. Files stay
open until the ticket is completed or dropped.

A failed sync is final. The error marks the log directory offline; the recovery point stays, so that a restart
reads again what the disk may not have taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkapy.storage.files import File, StorageError, release_all
from kafkapy.storage.log_directory import LogDirectory


@dataclass(slots=True, eq=False)
class FlushTicket:
    """Everything of a log below `end_offset` that is not known to be on disk."""

    log_directory: LogDirectory
    end_offset: int
    generation: int
    """The log's count of truncations: a cut meanwhile makes the ticket worthless."""
    files: list[File]
    paths: list[str]
    """Closed files to sync."""
    directories: list[str]
    leader_epochs: tuple[str, bytes] | None
    """Path and content of the leader-epoch-checkpoint."""
    abandoned: bool = False
    """The partition was deleted: files may be missing, and nobody cares."""

    def run(self) -> None:
        """Sync it all, in any thread.

        Raises:
            StorageError: the disk failed. Do not try again.
        """
        files = self.log_directory.files
        try:
            for file in self.files:
                files.sync_data(file)
            for path in self.paths:
                files.sync_path(path)
            if self.leader_epochs is not None:
                path, content = self.leader_epochs
                files.write_atomically(path, content)
            for directory in self.directories:
                files.sync_directory(directory)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and self.abandoned:
                return
            raise StorageError(self.log_directory.path, f"syncing to disk failed: {error}") from error

    def release(self) -> None:
        """Let the files close."""
        release_all(self.files)
        self.files = []
