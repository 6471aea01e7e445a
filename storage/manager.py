"""All logs of a broker, in one or more log directories: loaded, created, deleted, checkpointed, closed.

    <log dir>/
        .lock  meta.properties  .kafka_cleanshutdown
        recovery-point-offset-checkpoint  log-start-offset-checkpoint  replication-offset-checkpoint
        <topic>-<partition>/                    a log
        <topic>-<partition>.<32 hex>-delete/    a deleted one, gone after file.delete.delay.ms

`.kafka_cleanshutdown` says that every log was closed in order; it is taken away, on disk too, before the
first write. Where it was missing every log is recovered from its recovery point. A log that is damaged below
that point stays offline, and its directory gets no marker until that is settled: a marker would have the
damage served.

A log directory that fails takes its own logs offline and no others; `on_directory_failure` hears of it. Files
and directories that are none of Kafka's are left alone.

Threads: everything is called from the event loop's thread, except `open`, `load` and `close` (no other call
meanwhile), `delete_expired_files`, and the functions that `checkpoint_*` return.

Source: LogManager.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from kafkapy.protocol.types import ZERO_UUID, TopicPartition, Uuid
from kafkapy.storage.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    take_clean_shutdown,
    write_clean_shutdown,
)
from kafkapy.storage.files import CorruptLogError, DiskFullError, FileSystem, StorageError, is_disk_full
from kafkapy.storage.log import PartitionLog
from kafkapy.storage.log_config import LogConfig
from kafkapy.storage.log_directory import Clock, Durability, LogDirectory, LogDirectoryError
from kafkapy.storage.new_log import adopt_topic_id, create_log
from kafkapy.storage.offset_checkpoint import CHECKPOINTS, OffsetCheckpoint
from kafkapy.storage.open_files import OpenFiles, default_limit
from kafkapy.storage.recovery import LogOffsets, load_log

logger = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Called with the logs loaded so far and the logs there are."""

_LOG_NAME = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_DELETED_NAME = re.compile(r"\S+-[0-9]+\.[0-9a-f]{32}-delete")
_KRAFT_METADATA = "__cluster_metadata"
_MAX_NAME = 255


class Identity(NamedTuple):
    """Whose log directories these are; None where they are new."""

    cluster_id: str | None
    node_id: int | None


class _LoadJob(NamedTuple):
    directory: LogDirectory
    topic_partition: TopicPartition
    path: str
    offsets: LogOffsets
    clean: bool


class LogManager:
    """The logs of this broker by topic partition."""

    def __init__(
        self,
        log_dirs: Sequence[str | Path],
        *,
        defaults: LogConfig,
        clock: Clock,
        durability: Durability = "fsync",
        files: FileSystem | None = None,
        recovery_threads_per_dir: int = 1,
        producer_expiration_ms: int = 86_400_000,
        max_open_files: int | None = None,
    ) -> None:
        self.files = files or FileSystem()
        self.files.open_files = OpenFiles(max_open_files or default_limit())
        self.clock = clock
        self.defaults = defaults
        """Settings of a log until it is given its topic's."""
        self.on_directory_failure: Callable[[StorageError], None] = _nobody
        """Called when a log directory goes offline, in whichever thread found out."""
        self.directories = [
            LogDirectory(str(Path(path).absolute()), files=self.files, clock=clock, durability=durability)
            for path in log_dirs
        ]
        self._recovery_threads_per_dir = recovery_threads_per_dir
        self._producer_expiration_ms = producer_expiration_ms
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._damaged: dict[TopicPartition, tuple[LogDirectory, CorruptLogError]] = {}
        """Logs that are not served."""
        self._checkpoints: dict[LogDirectory, dict[str, OffsetCheckpoint]] = {}
        self._loaded = False

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]:
        """Every log that was opened."""
        return MappingProxyType(self._logs)

    @property
    def offline_dirs(self) -> list[Path]:
        """Log directories that failed."""
        return [Path(directory.path) for directory in self.directories if directory.error is not None]

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """The log of a partition; None where there is none.

        Raises:
            StorageError: it is there and cannot be served.
        """
        log = self._logs.get(topic_partition)
        if log is None and topic_partition in self._damaged:
            raise self._damaged[topic_partition][1]
        return log

    # --- loading --------------------------------------------------------------------------------------------

    def open(self) -> Identity:
        """Lock the log directories and learn whose they are.

        Raises:
            LogDirectoryError: a directory is in use, or they belong to several brokers.
            StorageError: no directory can be used.
        """
        identity = Identity(None, None)
        for directory in self.directories:
            directory.on_failure = self._directory_failed
            directory.before_truncation = self._before_truncation
            try:
                directory.open()
            except OSError as error:
                directory.failed("opening it", error)
                continue
            meta = directory.meta
            for found, other in ((meta.cluster_id, identity.cluster_id), (meta.node_id, identity.node_id)):
                if None not in (found, other) and found != other:
                    raise LogDirectoryError(
                        f"{directory.path} belongs to {found}, other log directories to {other}. Name only "
                        "directories of one broker in log.dirs."
                    )
            identity = Identity(
                meta.cluster_id or identity.cluster_id,
                identity.node_id if meta.node_id is None else meta.node_id,
            )
        self._require_a_directory()
        return identity

    def load(self, cluster_id: str, node_id: int, progress: Progress | None = None) -> None:
        """Open every log, and repair what a crash left. Takes its time.

        Raises:
            LogDirectoryError: a directory belongs to another broker.
            StorageError: no directory can be used.
        """
        jobs: list[_LoadJob] = []
        for directory in self.directories:
            if directory.error is None:
                try:
                    directory.claim(node_id=node_id, cluster_id=cluster_id)
                    jobs += self._find_logs(directory)
                except OSError as error:
                    directory.failed("loading its logs", error)
        if jobs:
            self._load_all(jobs, progress)
        self._require_a_directory()
        self._loaded = True

    def _require_a_directory(self) -> None:
        """Raises StorageError where every log directory is offline."""
        if all(directory.error is not None for directory in self.directories):
            raise StorageError(self.directories[0].path, "No log directory can be used.")

    def _find_logs(self, directory: LogDirectory) -> list[_LoadJob]:
        """The logs in a directory, with what is known of each."""
        clean = take_clean_shutdown(self.files, f"{directory.path}/{CLEAN_SHUTDOWN}")
        checkpoints = {name: OffsetCheckpoint(directory, name) for name in CHECKPOINTS}
        self._checkpoints[directory] = checkpoints
        points, starts, watermarks = (checkpoints[name].written for name in CHECKPOINTS)
        jobs = []
        for entry in self.files.scan(directory.path):
            if not entry.is_dir(follow_symlinks=False):
                continue
            if _DELETED_NAME.fullmatch(entry.name):
                directory.delete_later([entry.path], self.defaults.file_delete_delay_ms)
                continue
            match = _LOG_NAME.fullmatch(entry.name)
            if match is None or match[1] == _KRAFT_METADATA:
                logger.info("%s is no log of this broker and is left alone.", entry.path)
                continue
            tp = TopicPartition(match[1], int(match[2]))
            offsets = LogOffsets(points.get(tp, 0), starts.get(tp, 0), watermarks.get(tp, 0))
            jobs.append(_LoadJob(directory, tp, entry.path, offsets, clean))
        if jobs:
            how = "after a clean stop" if clean else "after an unclean stop: recovering"
            logger.info("Loading %d logs from %s %s", len(jobs), directory.path, how)
        return jobs

    def _load_all(self, jobs: list[_LoadJob], progress: Progress | None) -> None:
        threads = self._recovery_threads_per_dir * len(self.directories)
        with ThreadPoolExecutor(threads, "kafkapy-recovery") as pool:
            futures = {pool.submit(self._load, job): job for job in jobs}
            for done, future in enumerate(as_completed(futures), 1):
                job = futures[future]
                try:
                    log = future.result()
                except CorruptLogError as error:
                    self._damaged[job.topic_partition] = (job.directory, error)
                except OSError as error:
                    job.directory.failed(f"loading {job.path}", error)
                else:
                    other = self._logs.setdefault(job.topic_partition, log)
                    if other is not log:
                        raise LogDirectoryError(
                            f"{job.topic_partition} is in both {other.path} and {log.path}. Remove the one "
                            "that is out of date."
                        )
                if progress is not None:
                    progress(done, len(futures))

    def _load(self, job: _LoadJob) -> PartitionLog:
        try:
            return self._load_once(job)
        except OSError as error:
            if not is_disk_full(error) or not job.directory.space.release_reserve():
                raise
            return self._load_once(job)

    def _load_once(self, job: _LoadJob) -> PartitionLog:
        return load_log(
            job.directory,
            job.path,
            job.topic_partition,
            self.defaults,
            offsets=job.offsets,
            clean=job.clean,
            producer_expiration_ms=self._producer_expiration_ms,
        )

    # --- creating and deleting ------------------------------------------------------------------------------

    def create(
        self, topic_partition: TopicPartition, topic_id: Uuid, config: LogConfig, *, new: bool = False
    ) -> PartitionLog:
        """The log of a partition: the one that is there, or a new one in the directory with the fewest logs.

        A log with another topic id is what a deleted topic of the same name left, and goes. `new` says that
        the partition cannot exist yet; otherwise none is made while a log directory that may hold it is
        offline.

        Raises:
            StorageError: the disk is full or failed, or the log is there and cannot be served.
        """
        log = self.get(topic_partition)
        if log is not None:
            log.config = config
            if log.topic_id == topic_id or topic_id == ZERO_UUID:
                return log
            if log.topic_id is None:
                adopt_topic_id(log, topic_id)
                return log
            logger.warning("%s is left from a deleted topic of the same name, and goes.", log.path)
            self.delete(topic_partition)
        offline = self.offline_dirs
        if offline and not new:
            raise StorageError(offline[0], f"{topic_partition} may be in a log directory that is offline.")
        directory = self._next_directory()
        for name, checkpoint in self._checkpoints[directory].items():
            if topic_partition in checkpoint.written:
                # What a checkpoint says about a deleted log must not be taken for this one after a crash.
                checkpoint.write(self._offsets_of(directory, name))
        path = f"{directory.path}/{topic_partition}"
        try:
            log = create_log(
                directory,
                path,
                topic_partition,
                topic_id,
                config,
                producer_expiration_ms=self._producer_expiration_ms,
            )
        except OSError as error:
            if is_disk_full(error):
                raise DiskFullError(directory.path, f"creating {path}: {error}") from error
            raise directory.failed(f"creating {path}", error) from error
        self._logs[topic_partition] = log
        return log

    def _next_directory(self) -> LogDirectory:
        counts = {directory.path: 0 for directory in self.directories if directory.error is None}
        if not counts:
            self.directories[0].require_online()
        if len(counts) > 1:
            for log in self._logs.values():
                if log.log_directory.path in counts:
                    counts[log.log_directory.path] += 1
        fewest = min(counts, key=counts.__getitem__)
        return next(directory for directory in self.directories if directory.path == fewest)

    def delete(self, topic_partition: TopicPartition) -> None:
        """Delete a partition's log. Its name is free at once; the files go after file.delete.delay.ms.

        Raises:
            StorageError: the disk failed.
        """
        log = self._logs.get(topic_partition)
        if log is not None:
            directory, path, delay_ms = log.log_directory, log.path, log.config.file_delete_delay_ms
            log.abandon()
        elif topic_partition in self._damaged:
            directory = self._damaged[topic_partition][0]
            path, delay_ms = f"{directory.path}/{topic_partition}", self.defaults.file_delete_delay_ms
        else:
            return
        directory.require_online()
        target = f"{directory.path}/{deleted_name(topic_partition)}"
        try:
            self.files.rename(path, target)
        except OSError as error:
            raise directory.failed(f"renaming {path}", error) from error
        if log is not None:
            log.moved_to(target)
        self._logs.pop(topic_partition, None)
        self._damaged.pop(topic_partition, None)
        directory.delete_later([target], delay_ms)

    def delete_expired_files(self, now_ms: int) -> int:
        """Remove the files and directories whose delay is over; how many. In any thread."""
        removed = 0
        for directory in self.directories:
            for pending in list(directory.deletions):
                if pending.at_ms > now_ms:
                    continue
                directory.deletions.remove(pending)
                for path in pending.paths:
                    try:
                        self.files.remove(path)
                        removed += 1
                    except OSError as error:
                        logger.warning("%s was not removed: %s", path, error)
        return removed

    # --- checkpoints ----------------------------------------------------------------------------------------

    def checkpoint_recovery_points(self) -> Callable[[], None]:
        """Take down what is on disk, so that a restart after a crash need not look there.

        The function that is returned writes it, in any thread.
        """
        return self._checkpoint(RECOVERY_POINTS)

    def checkpoint_log_start_offsets(self) -> Callable[[], None]:
        """Take down the log start offsets that are not those of a first segment; returned as above."""
        return self._checkpoint(LOG_START_OFFSETS)

    def checkpoint_high_watermarks(self) -> Callable[[], None]:
        """Take down the high watermarks; returned as above."""
        return self._checkpoint(HIGH_WATERMARKS)

    def _checkpoint(self, name: str) -> Callable[[], None]:
        writes = [
            checkpoints[name].prepare(self._offsets_of(directory, name))
            for directory, checkpoints in self._checkpoints.items()
            if directory.error is None
        ]

        def write() -> None:
            for each in writes:
                try:
                    each()
                except StorageError as error:
                    # A checkpoint that is out of date makes the next recovery longer, no more.
                    logger.error("%s", error.message)

        return write

    def _offsets_of(self, directory: LogDirectory, name: str) -> dict[TopicPartition, int]:
        logs = [log for log in self._logs.values() if log.log_directory is directory]
        if name == HIGH_WATERMARKS:
            offsets = {log.topic_partition: log.high_watermark for log in logs}
        elif name == RECOVERY_POINTS:
            offsets = {log.topic_partition: log.flushed_offset for log in logs}
        else:
            offsets = {
                log.topic_partition: log.log_start_offset
                for log in logs
                if log.log_start_offset > log.segments.first.base_offset
            }
        for topic_partition, (damaged_in, _) in self._damaged.items():
            known = self._checkpoints[directory][name].written.get(topic_partition)
            if damaged_in is directory and known is not None:
                offsets[topic_partition] = known
        return offsets

    def _before_truncation(self, log: PartitionLog) -> None:
        directory = log.log_directory
        offsets = self._offsets_of(directory, RECOVERY_POINTS)
        self._checkpoints[directory][RECOVERY_POINTS].write(offsets)

    def _directory_failed(self, _: LogDirectory, error: StorageError) -> None:
        self.on_directory_failure(error)

    # --- closing --------------------------------------------------------------------------------------------

    def close(self, *, clean: bool = True, broker_epoch: int = -1) -> None:
        """Close every log and, where all went well, mark the stop as clean.

        Without `clean` the directories are only unlocked, as a crash would leave them: for data that goes
        next.
        """
        if self._loaded and clean:
            self._close_logs(broker_epoch)
        for directory in self.directories:
            directory.close()

    def _close_logs(self, broker_epoch: int) -> None:
        failed: set[str] = set()
        for log in self._logs.values():
            directory = log.log_directory
            if directory.error is None:
                try:
                    log.close()
                except StorageError as error:
                    failed.add(directory.path)
                    logger.error("%s is not closed in order: %s", log.topic_partition, error.message)
        for directory, checkpoints in self._checkpoints.items():
            if directory.error is not None:
                continue
            try:
                for name, checkpoint in checkpoints.items():
                    checkpoint.write(self._offsets_of(directory, name))
                damaged = any(damaged_in is directory for damaged_in, _ in self._damaged.values())
                if directory.path not in failed and not damaged:
                    path = f"{directory.path}/{CLEAN_SHUTDOWN}"
                    write_clean_shutdown(self.files, path, broker_epoch, durable=directory.durable)
            except (OSError, StorageError) as error:
                logger.error("%s is not closed in order: %s", directory.path, error)


def deleted_name(topic_partition: TopicPartition) -> str:
    """The name of a directory that is to be deleted; the topic is cut where the name would be too long."""
    suffix = f"-{topic_partition.partition}.{uuid.uuid4().hex}-delete"
    return topic_partition.topic[: _MAX_NAME - len(suffix)] + suffix


def _nobody(_: StorageError) -> None:
    """Nobody listens."""
