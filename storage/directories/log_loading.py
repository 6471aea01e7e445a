"""Loads all logs when a broker starts.

Each log directory has its own threads, so that a slow disk does not delay another one. If many logs in a
directory are recovered, one sync of the file system puts their recovered parts on disk, before any is served.
One to four syncs for each log would take longer than everything else.

    <topic>-<partition>                     a log
    <topic>-<partition>.<32 hex>-future     a copy of a log in another directory (future_log.py)
    <topic>-<partition>.<32 hex>-delete     a deleted log, which is removed later

All other directories are ignored.

Source: LogManager.loadLogs, LocalLog.parseTopicPartitionName.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import chain
from queue import SimpleQueue
from typing import Final, NamedTuple

from kafkapy.protocol.topic_names import CLUSTER_METADATA_TOPIC
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.directories.log_checkpoints import OffsetCheckpoint
from kafkapy.storage.disk.checkpoints import CLEAN_SHUTDOWN, OFFSET_CHECKPOINTS, take_clean_shutdown
from kafkapy.storage.disk.directory_names import DirectoryKind, parse_directory_name
from kafkapy.storage.disk.errors import StorageError, is_exhausted
from kafkapy.storage.disk.log_directory import Clock, LogDirectory
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.recovery.recovery import LogOffsets, load_log
from kafkapy.storage.recovery.repairs import Listener, nobody

logger = logging.getLogger(__name__)

NewPool = Callable[[int, str], Executor]
"""Makes a pool with this number of threads, which have this name."""

Progress = Callable[[int, int], None]
"""Called with the number of logs loaded so far, and the number of all logs."""

_REPORT_EVERY_MS: Final = 3000


class Retries:
    """How the load of a log is tried again if descriptors or memory are lacking.

    After the last attempt the start fails: without the log, its directory must not be served.
    """

    def __init__(self, attempts: int = 120, seconds: float = 0.25) -> None:
        """There are `seconds` between two attempts."""
        self.attempts, self.seconds = attempts, seconds


RETRIES: Final = Retries()


class LoadJob(NamedTuple):
    """A log to load, and its checkpointed offsets."""

    directory: LogDirectory
    topic_partition: TopicPartition
    path: str
    offsets: LogOffsets
    clean: bool
    is_future: bool


class LogLoading:
    """The logs of some log directories, while they are loaded."""

    def __init__(
        self,
        defaults: LogConfig,
        clock: Clock,
        *,
        threads_per_dir: int,
        producer_expiration_ms: int,
        new_pool: NewPool = ThreadPoolExecutor,
        retries: Retries = RETRIES,
    ) -> None:
        self._retries = retries
        self._defaults = defaults
        self._clock = clock
        self._threads_per_dir = threads_per_dir
        self._producer_expiration_ms = producer_expiration_ms
        self._new_pool = new_pool
        self._jobs: dict[LogDirectory, deque[LoadJob]] = {}
        self._recovered: list[LogDirectory] = []
        """The directories whose names may not be on disk: they are synced before a log is served."""

    def find(self, directory: LogDirectory, checkpoints: Mapping[str, OffsetCheckpoint]) -> None:
        """Find the logs in a directory, and remove its mark of a clean stop.

        Raises:
            OSError: the disk failed.
        """
        files = directory.files
        clean = take_clean_shutdown(files, f"{directory.path}/{CLEAN_SHUTDOWN}")
        names: dict[TopicPartition, TopicPartition] = {}
        for checkpoint in checkpoints.values():
            checkpoint.share_names(names)
        points, starts, watermarks, cleaned = (checkpoints[name].written for name in OFFSET_CHECKPOINTS)
        jobs: deque[LoadJob] = deque()
        for entry in files.scan(directory.path):
            if not entry.is_dir():
                continue
            name = parse_directory_name(entry.name)
            if name is not None and name.kind is DirectoryKind.DELETED:
                directory.delete_later([entry.path], self._defaults.file_delete_delay_ms)
                continue
            if (
                name is None
                or name.kind is DirectoryKind.STRAY
                or name.topic_partition.topic == CLUSTER_METADATA_TOPIC
            ):
                logger.info("%s is not a log of this broker and is left alone.", entry.path)
                continue
            tp = names.get(name.topic_partition, name.topic_partition)
            known = (each.get(tp, 0) for each in (points, starts, watermarks, cleaned))
            offsets = LogOffsets(*known)
            jobs.append(LoadJob(directory, tp, entry.path, offsets, clean, name.kind is DirectoryKind.FUTURE))
        if jobs:
            how = "after a clean stop" if clean else "after an unclean stop: recovering"
            logger.info("Loading %s logs from %s %s", f"{len(jobs):,}", directory.path, how)
            directory.syncs_at_once = directory.durable and not clean and files.is_synced_at_once(len(jobs))
            self._jobs[directory] = jobs
            if directory.durable and not clean:
                self._recovered.append(directory)

    @property
    def jobs(self) -> Iterator[LoadJob]:
        """The logs that were found and are still to be loaded."""
        return chain.from_iterable(self._jobs.values())

    def run(self, progress: Progress | None = None) -> Iterator[tuple[LoadJob, PartitionLog | Exception]]:
        """Load the logs; yield each one when it is loaded, or the error if it cannot be served."""
        total = sum(map(len, self._jobs.values()))
        started_ms = reported_ms = self._clock.now_ms()
        outcomes: SimpleQueue[tuple[LoadJob, PartitionLog | BaseException]] = SimpleQueue()
        pools = [self._new_pool(self._threads_per_dir, "kafkapy-recovery") for _ in self._jobs]
        try:
            for pool, jobs in zip(pools, self._jobs.values(), strict=True):
                for _ in range(min(self._threads_per_dir, len(jobs))):
                    pool.submit(self._load_each, jobs, outcomes)
            for done in range(1, total + 1):
                job, outcome = outcomes.get()
                if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
                    raise outcome
                yield job, outcome
                if progress is not None:
                    progress(done, total)
                now_ms = self._clock.now_ms()
                if now_ms - reported_ms >= _REPORT_EVERY_MS:
                    reported_ms = now_ms
                    logger.info("Loaded %s of %s logs", f"{done:,}", f"{total:,}")
            self._sync()
            if total:
                seconds = (self._clock.now_ms() - started_ms) / 1000
                logger.info("Loaded %s logs in %.1f s", f"{total:,}", seconds)
        finally:
            for jobs in self._jobs.values():
                jobs.clear()
            for pool in pools:
                pool.shutdown()

    def _load_each(
        self, jobs: deque[LoadJob], outcomes: SimpleQueue[tuple[LoadJob, PartitionLog | BaseException]]
    ) -> None:
        """Load the next log until none is left."""
        while True:
            try:
                job = jobs.popleft()
            except IndexError:
                return
            try:
                outcomes.put((job, self._load(job)))
            except BaseException as error:
                outcomes.put((job, error))

    def _sync(self) -> None:
        for directory in self._jobs:
            if directory.error is None:
                try:
                    directory.sync_at_once()
                    if directory in self._recovered:
                        directory.sync_names()
                except StorageError:
                    if directory.error is None:
                        raise

    def _load(self, job: LoadJob) -> PartitionLog:
        """Load a log.

        If descriptors or memory are lacking, wait and try again.
        """
        for _ in range(self._retries.attempts - 1):
            try:
                return self._load_with_room(job)
            except (OSError, MemoryError) as error:
                if not is_exhausted(error):
                    raise
                job.directory.exhausted(f"loading {job.path}", error)
            time.sleep(self._retries.seconds)
        return self._load_with_room(job)

    def _load_with_room(self, job: LoadJob) -> PartitionLog:
        return job.directory.space.with_reserve(lambda: self.load_once(job))

    def load_once(self, job: LoadJob, listener: Listener = nobody) -> PartitionLog:
        """Load a log; call `listener` for each repair that removes records.

        Raises:
            CorruptLogError: the log is damaged and cannot be served.
            OSError: the disk failed.
        """
        return load_log(
            job.directory,
            job.path,
            job.topic_partition,
            self._defaults,
            offsets=job.offsets,
            clean=job.clean,
            producer_expiration_ms=self._producer_expiration_ms,
            listener=listener,
        )
