"""A trial of a broker's next start on a log directory, which changes nothing on disk.

It runs the code of a real start (directories/log_loading.py, recovery/recovery.py) on a file system that
keeps all changes in memory (overlay_files.py). `forget` frees the changes to a log, so the memory used is
bounded by the changes to one log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kafkapy.storage.directories.log_checkpoints import OffsetCheckpoint
from kafkapy.storage.directories.log_loading import LoadJob, LogLoading
from kafkapy.storage.disk.checkpoints import OFFSET_CHECKPOINTS
from kafkapy.storage.disk.errors import CorruptLogError
from kafkapy.storage.disk.log_directory import Clock, LogDirectory
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.offline.overlay_files import OverlayFiles
from kafkapy.storage.recovery.repairs import Repair

_PRODUCER_EXPIRATION_MS = 86_400_000
"""producer.id.expiration.ms by default."""


@dataclass(slots=True)
class StartedLog:
    """The result of the start for one log."""

    log: PartitionLog | None
    """None if the start does not open it."""
    refusal: str | None
    """Why the start does not open it; None if it does."""
    repairs: Sequence[Repair]
    names: frozenset[str]
    """The names in its directory after the start."""


@dataclass(slots=True)
class NextStart:
    """The effect of the next start on the logs of one directory."""

    path: str
    clock: Clock
    config: LogConfig = field(default_factory=LogConfig)
    """The defaults, since a broker loads logs before it knows the topics' settings."""
    files: OverlayFiles = field(default_factory=OverlayFiles)
    """The directory as the start leaves it."""
    _jobs: dict[str, LoadJob] = field(init=False)
    _loading: LogLoading = field(init=False)

    def __post_init__(self) -> None:
        """Find the logs of the directory.

        Raises:
            OSError: the disk failed.
        """
        directory = LogDirectory(self.path, files=self.files, clock=self.clock, durability="fsync")
        self._loading = LogLoading(
            self.config, self.clock, threads_per_dir=1, producer_expiration_ms=_PRODUCER_EXPIRATION_MS
        )
        self._loading.find(
            directory, {name: OffsetCheckpoint(directory, name) for name in OFFSET_CHECKPOINTS}
        )
        self._jobs = {job.path: job for job in self._loading.jobs}

    def load(self, path: str) -> StartedLog | None:
        """Load the log in a directory as the start does; None if the start leaves it alone.

        Raises:
            OSError: the disk failed.
        """
        job = self._jobs.get(path)
        if job is None:
            return None
        repairs: list[Repair] = []
        log, refusal = None, None
        try:
            log = self._loading.load_once(job, repairs.append)
        except CorruptLogError as error:
            refusal = error.message
        return StartedLog(log, refusal, repairs, frozenset(entry.name for entry in self.files.scan(path)))

    def forget(self, path: str) -> None:
        """Free the memory that the changes to a log take."""
        self.files.forget(path)
