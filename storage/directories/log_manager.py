"""The logs of a broker in its log directories: load, create, delete, checkpoint, close.

    <log dir>/
        .lock  meta.properties  .kafka_cleanshutdown
        recovery-point-offset-checkpoint  log-start-offset-checkpoint  replication-offset-checkpoint
        <topic>-<partition>/                    a log
        <topic>-<partition>.<32 hex>-future/    a copy that will replace a log in another directory
        <topic>-<partition>.<32 hex>-delete/    a deleted log, removed after file.delete.delay.ms

`.kafka_cleanshutdown` says that every log was closed cleanly. A start removes it, and syncs that, before the
first write. If it is missing, every log is recovered from its recovery point. While a directory has a log
that cannot be served, it gets no such file, so that the next start recovers the log again.

If a log directory fails, its own logs go offline and no others, and `on_directory_failure` is called. Other
files and directories are ignored.

Threads: everything is called on the event loop, except `open`, `load` and `close` (with no other call
meanwhile), `delete_expired_files`, and the functions that `checkpoint_*` and `sync_deletions` return.

Source: LogManager.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.types import ZERO_UUID, TopicPartition, Uuid, uuid_to_text
from kafkapy.storage.directories.future_log import is_marked, newer, unmark
from kafkapy.storage.directories.identity import (
    Identity,
    are_empty,
    find_missing,
    identity_of,
    mark_shared,
)
from kafkapy.storage.directories.log_checkpoints import LogCheckpoints
from kafkapy.storage.directories.log_loading import RETRIES, LoadJob, LogLoading, NewPool, Progress, Retries
from kafkapy.storage.directories.log_moves import LogMoves
from kafkapy.storage.disk.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    write_clean_shutdown,
)
from kafkapy.storage.disk.directory_names import deleted_name, stray_name
from kafkapy.storage.disk.errors import CorruptLogError, StorageError, is_exhausted
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.disk.log_directory import Clock, Durability, LogDirectory, LogDirectoryError
from kafkapy.storage.disk.open_files import OpenFiles, share_descriptors
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.new_log import adopt_topic_id, create_log, is_damaged_id, make_files
from kafkapy.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

_MAX_PREFERRED = 10_000
"""The most missing partitions whose directories are remembered: a client may name any partition."""


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
        check_on_first_read: bool = True,
        max_open_files: int | None = None,
        new_pool: NewPool = ThreadPoolExecutor,
        retries: Retries = RETRIES,
    ) -> None:
        self.files = files or FileSystem()
        self.files.open_files = OpenFiles(share_descriptors(max_open_files).log_files)
        self.clock = clock
        self.defaults = defaults
        """The settings of a log until it gets those of its topic."""
        self.on_directory_failure: Callable[[StorageError], None] = _nobody
        """Called when a log directory goes offline, in the thread that met the error."""
        self.directories = [
            LogDirectory(str(Path(path).absolute()), files=self.files, clock=clock, durability=durability)
            for path in log_dirs
        ]
        for directory in self.directories:
            directory.check_on_first_read = check_on_first_read
        self.recovery_threads_per_dir = recovery_threads_per_dir
        """The number of logs of one directory that are loaded at a time."""
        self._new_pool = new_pool
        self._retries = retries
        self._producer_expiration_ms = producer_expiration_ms
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self.moves = LogMoves(self)
        self._preferred: dict[TopicPartition, LogDirectory] = {}
        """The directories in which to create missing partitions."""
        self._without_files: dict[TopicPartition, PartitionLog] = {}
        """The new logs whose files are not known to exist yet."""
        self._damaged: dict[TopicPartition, tuple[LogDirectory, CorruptLogError]] = {}
        """Logs that are not served."""
        self.checkpoints = LogCheckpoints(self)
        self.were_empty = False
        """Whether nothing was in the directories when they were opened."""
        self.missing_dirs: list[str] = []
        """The directories of this broker's last start that are missing, or left out of log.dirs."""
        self._with_deletions: set[LogDirectory] = set()
        """The directories in which logs were deleted since the last `sync_deletions`."""
        self._deleted: set[TopicPartition] = set()
        """The partitions that were deleted since then, whether they had a log or not."""
        self._loaded = False
        self._holds = 0

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Have nobody remove or replace segments while a snapshot links them.

        Retention and compaction ask `is_held` before they do.
        """
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1

    @property
    def is_held(self) -> bool:
        """Whether segments have to stay as they are."""
        return self._holds > 0

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]:
        """Every log that was opened."""
        return MappingProxyType(self._logs)

    @property
    def offline_dirs(self) -> list[Path]:
        """The log directories that failed, or are missing."""
        failed = [directory.path for directory in self.directories if directory.error is not None]
        return [Path(path) for path in (*failed, *self.missing_dirs)]

    def directory_of(self, file: Path) -> LogDirectory | None:
        """The log directory of a file; None if it is elsewhere."""
        parent = str(file.absolute().parent)
        return next((each for each in self.directories if each.path == parent), None)

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """The log of a partition; None if there is none.

        Raises:
            StorageError: it exists and cannot be served.
        """
        log = self._logs.get(topic_partition)
        if log is None and topic_partition in self._damaged:
            raise self._damaged[topic_partition][1]
        return log

    # --- loading --------------------------------------------------------------------------------------------

    def open(self) -> Identity:
        """Lock the log directories, and read which broker they belong to.

        Raises:
            LogDirectoryError: a directory is in use, or they belong to several brokers.
            StorageError: no directory can be used.
        """
        self.files.open_files.keep_reserve()
        failures: dict[LogDirectory, OSError] = {}
        for directory in self.directories:
            directory.on_failure = self._directory_failed
            directory.before_truncation = self.checkpoints.before_truncation
            try:
                directory.open()
            except OSError as error:
                failures[directory] = error
        # If none is left, the start ends with the reasons: most often a path is wrong, and no disk is lost.
        level = logging.DEBUG if len(failures) == len(self.directories) else logging.CRITICAL
        for directory, cause in failures.items():
            _require_offline(directory, directory.failed("opening it", cause, level=level))
        identity = identity_of(each for each in self.directories if each.error is None)
        try:
            self.were_empty = are_empty(self.directories)
            self.missing_dirs = find_missing(self.directories)
        except OSError as error:
            if is_exhausted(error):
                raise self.directories[0].exhausted("opening the log directories", error) from error
            raise StorageError(self.directories[0].path, f"opening the log directories: {error}") from error
        self._require_a_directory()
        return identity

    def load(
        self, cluster_id: str, node_id: int, progress: Progress | None = None, *, shared: bool = False
    ) -> None:
        """Load every log, and recover it if the last stop was not clean.

        This may take long.

        `shared` says whether the broker shares its metadata with others.

        Raises:
            LogDirectoryError: a directory belongs to another broker.
            StorageError: no directory can be used.
        """
        loading = LogLoading(
            self.defaults,
            self.clock,
            threads_per_dir=self.recovery_threads_per_dir,
            producer_expiration_ms=self._producer_expiration_ms,
            new_pool=self._new_pool,
            retries=self._retries,
        )
        for directory in self.directories:
            if directory.error is None:
                mark_shared(directory, shared=shared)
                try:
                    directory.claim(node_id=node_id, cluster_id=cluster_id)
                    loading.find(directory, self.checkpoints.read(directory))
                except OSError as error:
                    _require_offline(directory, directory.failed("loading its logs", error))
        for job, outcome in loading.run(progress):
            if isinstance(outcome, PartitionLog):
                self._loaded_log(job, outcome)
            else:
                self._not_loaded(job, outcome)
        self._settle_moves()
        self._require_a_directory()
        self._loaded = True

    def _require_a_directory(self) -> None:
        """Raise StorageError if every log directory is offline."""
        if all(directory.error is not None for directory in self.directories):
            raise StorageError(self.directories[0].path, "No log directory can be used.")

    def _loaded_log(self, job: LoadJob, log: PartitionLog) -> None:
        """Add a log that was loaded."""
        cleaned = self.checkpoints.on_disk(job.directory, CLEANER_OFFSETS)
        log.cleaned_offset = cleaned.get(job.topic_partition)
        logs = self.moves.copies if job.is_future else self._logs
        other = logs.setdefault(job.topic_partition, log)
        if other is log:
            log.log_directory.log_count += 1
        elif job.is_future:
            self.discard(log)  # A crash undid the deletion of an earlier copy.
        else:
            self._choose(other, log)

    def _not_loaded(self, job: LoadJob, error: Exception) -> None:
        """Note a log that cannot be served."""
        if isinstance(error, CorruptLogError):
            if job.is_future:
                logger.error("%s is a damaged copy, and is made again.", job.path)
                self._rename_deleted(job.directory, job.topic_partition, job.path)
            else:
                self._damaged[job.topic_partition] = (job.directory, error)
        elif isinstance(error, OSError) or is_exhausted(error):
            _require_offline(job.directory, job.directory.failed(f"loading {job.path}", error))
        else:
            raise error

    def _choose(self, one: PartitionLog, other: PartitionLog) -> None:
        """Keep one of two logs of a partition, after a crash while one replaced the other."""
        ids = {one.topic_id, other.topic_id} - {None}
        if is_marked(self.files, one) == is_marked(self.files, other) or len(ids) > 1:
            raise LogDirectoryError(
                f"{one.topic_partition} is in both {one.path} and {other.path}. Remove the one that is out "
                "of date."
            )
        kept = newer(one, other)
        old = other if kept is one else one
        logger.info("%s was moved to %s; removing the old log %s.", kept.topic_partition, kept.path, old.path)
        self._logs[kept.topic_partition] = kept
        kept.log_directory.log_count += kept is other
        old.log_directory.log_count -= kept is other
        self.discard(old)

    def _settle_moves(self) -> None:
        """Remove the marks of logs whose old log is certainly gone."""
        for topic_partition in self._damaged.keys() & self._logs.keys():
            # The damaged log may have records that this one has not.
            log = self._logs.pop(topic_partition)
            log.log_directory.log_count -= 1
            logger.error("%s is not served: another log of the partition is damaged.", log.path)
        if not self.offline_dirs:
            for log in self._logs.values():
                if is_marked(self.files, log):
                    unmark(self.files, log, durable=log.log_directory.durable)

    # --- creating and deleting ------------------------------------------------------------------------------

    def create(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        *,
        new: bool = False,
        refilled: bool = False,
    ) -> PartitionLog:
        """The log of a partition: the existing one, or a new one.

        A new log goes to the preferred directory, or to the one with the fewest logs. Its files are created
        later (new_log.py): by its first append, or by `make_files` with the logs of `without_files`.

        A log with another topic id is that of a deleted topic of the same name, or came from elsewhere. It is
        set aside. `new` says that the partition cannot exist yet. Otherwise no log is created while a log
        directory that may have it is offline.

        A partition whose directory somebody removed gets a new log only if it will be `refilled` from another
        broker.

        Raises:
            StorageError: the disk failed, or the log exists and cannot be served.
        """
        log = self.get(topic_partition)
        if log is not None:
            log.config = config
            if log.topic_id == topic_id or topic_id == ZERO_UUID:
                return log
            if log.topic_id is None or is_damaged_id(log.topic_id, topic_id):
                adopt = partial(adopt_topic_id, log, topic_id)
                log.guarded("noting the topic id of", partial(log.log_directory.space.with_reserve, adopt))
                return log
            self._set_aside(log, topic_id)
        if not new:
            self._require_no_trace(topic_partition, replaced=log is not None, refilled=refilled)
        preferred = self._preferred.pop(topic_partition, None)
        directory = self._next_directory() if preferred is None or preferred.error else preferred
        log = self.create_in(directory, str(topic_partition), topic_partition, topic_id, config)
        self._logs[topic_partition] = self._without_files[topic_partition] = log
        return log

    def _require_no_trace(self, topic_partition: TopicPartition, *, replaced: bool, refilled: bool) -> None:
        """Refuse to create the log of a partition that may have had another one.

        `replaced` says that it was just set aside, and `refilled` that the new one is fetched from another
        broker.
        """
        offline = self.offline_dirs
        if offline:
            raise StorageError(offline[0], f"{topic_partition} may be in {offline[0]}, which is offline.")
        known_in, known_end = self.checkpoints.known_end(topic_partition)
        if known_in is None or replaced:
            return
        if not refilled:
            raise StorageError(
                known_in.path,
                f"{topic_partition} is gone from {known_in.path}, where it had offsets up to"
                f" {known_end - 1}: put its directory back, or delete the topic.",
            )
        logger.warning(
            "%s is gone from %s, where it had offsets up to %d: it is fetched from its leader again.",
            topic_partition,
            known_in.path,
            known_end - 1,
        )

    def without_files(self, most: int) -> list[PartitionLog]:
        """At most `most` logs whose files have to be created."""
        return list(islice(self._without_files.values(), most))

    def have_files(self, logs: Iterable[PartitionLog]) -> None:
        """Note that the files of these logs are created, or given up."""
        for log in logs:
            if self._without_files.get(log.topic_partition) is log:
                del self._without_files[log.topic_partition]
            if log.new_files is not None and log.new_files.is_settled:
                log.new_files = None

    def watch_writes(self) -> None:
        """Find out from now on which of several directories are stuck, before each write.

        Without a sole directory a broker can do little, so its writes need not be probed.
        """
        for directory in self.directories if len(self.directories) > 1 else ():
            if directory.error is None:
                directory.watch_writes()

    def remember_producers(self, expiration_ms: int) -> None:
        """Set the time after which an idle producer is forgotten, in existing and new logs."""
        self._producer_expiration_ms = expiration_ms
        for log in (*self._logs.values(), *self.moves.copies.values()):
            log.producers.expiration_ms = expiration_ms

    def add(self, log: PartitionLog) -> None:
        """Make `log` the log of its partition."""
        log.producers.expiration_ms = self._producer_expiration_ms
        self._logs[log.topic_partition] = log

    def create_in(
        self,
        directory: LogDirectory,
        name: str,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
    ) -> PartitionLog:
        """A new log, or the copy of one, whose files are not created yet."""
        directory.require_online()
        self.checkpoints.forget(directory, topic_partition)
        directory.log_count += 1
        return create_log(
            directory,
            f"{directory.path}/{name}",
            topic_partition,
            topic_id,
            config,
            producer_expiration_ms=self._producer_expiration_ms,
        )

    def _next_directory(self) -> LogDirectory:
        if len(self.directories) == 1:
            return self.directories[0]
        online = [directory for directory in self.directories if directory.error is None]
        if not online:
            self.directories[0].require_online()
        if len(online) > 1:
            online = [directory for directory in online if directory.takes_writes()] or online
        return min(online, key=lambda directory: directory.log_count)

    def prefer(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Remember the directory in which to create a partition that does not exist yet."""
        self._preferred[topic_partition] = directory
        if len(self._preferred) > _MAX_PREFERRED:
            del self._preferred[next(iter(self._preferred))]

    def delete(self, topic_partition: TopicPartition) -> None:
        """Delete a partition's log.

        Its name is free at once; the files are removed after file.delete.delay.ms.

        Raises:
            StorageError: the disk failed.
        """
        log, replaced = self._logs.get(topic_partition), self.moves.replaced.get(topic_partition)
        for each in (log, replaced):
            if each is not None:
                each.log_directory.require_writable()
        if replaced is not None:
            del self.moves.replaced[topic_partition]
            self.discard(replaced)
        if log is not None:
            self.discard(log)
            log.log_directory.log_count -= 1
            del self._logs[topic_partition]
        elif topic_partition in self._damaged:
            directory, _ = self._damaged[topic_partition]
            directory.require_writable()
            self._rename_deleted(directory, topic_partition, f"{directory.path}/{topic_partition}")
        self._damaged.pop(topic_partition, None)
        self._deleted.add(topic_partition)

    def sync_deletions(self) -> Callable[[], None]:
        """A function that syncs the deletions so far.

        Any thread may call it.

        Until then a crash may bring the logs back, or leave checkpoints that mention them: a later partition
        of the name would be taken for one whose directory is gone. The function raises StorageError if a disk
        failed, or a file cannot be opened.
        """
        asked = [(each, each.names.ask()) for each in self._with_deletions if each.durable and not each.error]
        write_checkpoints = self.checkpoints.prepare_without(self._deleted)
        self._with_deletions.clear()
        self._deleted.clear()

        def sync() -> None:
            for directory, number in asked:
                try:
                    directory.names.sync(number)
                except OSError as error:
                    raise directory.failed("syncing deletions", error) from error
            write_checkpoints()

        return sync

    def discard(self, log: PartitionLog) -> None:
        """Have the files of a log removed.

        Raises:
            StorageError: the disk failed.
        """
        log.abandon()
        if not self._give_up_files(log):
            path = self._rename_deleted(log.log_directory, log.topic_partition, log.path, log.config)
            log.forget_unwritten()
            log.moved_to(path)

    def _give_up_files(self, log: PartitionLog) -> bool:
        """Keep the files of a removed log from being created; return False if they exist."""
        if self._without_files.get(log.topic_partition) is log:
            del self._without_files[log.topic_partition]
        return log.new_files is not None and log.new_files.give_up()

    def _set_aside(self, log: PartitionLog, topic_id: Uuid) -> None:
        """Set aside a log whose topic id is not that of its topic."""
        directory = log.log_directory
        directory.require_writable()
        log.abandon()
        if not self._give_up_files(log):
            name = stray_name(log.topic_partition)
            logger.error(
                "%s is not a log of this topic, which has the id %s, but of one with the id %s: it is kept as"
                " %s/%s. If that topic was deleted, remove it.",
                log.path,
                uuid_to_text(topic_id),
                uuid_to_text(log.topic_id or ZERO_UUID),
                directory.path,
                name,
            )
            log.moved_to(self._renamed(directory, log.path, name))
        directory.log_count -= 1
        del self._logs[log.topic_partition]
        self.checkpoints.forget(directory, log.topic_partition)

    def _rename_deleted(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        path: str,
        config: LogConfig | None = None,
    ) -> str:
        """Rename the directory of a log to `-delete`, have it removed later; return the new path.

        Somebody may have removed it by hand. That is no failure of the disk, if the log directory is there.

        Raises:
            StorageError: the disk failed.
        """
        target = f"{directory.path}/{deleted_name(topic_partition)}"
        try:
            self.files.rename(path, target)
        except OSError as error:
            if not isinstance(error, FileNotFoundError) or not self._is_mounted(directory):
                raise directory.failed(f"renaming {path}", error) from error
            logger.warning("%s was to be deleted, and somebody has removed it already", path)
        else:
            directory.delete_later([target], (config or self.defaults).file_delete_delay_ms)
        self._with_deletions.add(directory)
        return target

    def _is_mounted(self, directory: LogDirectory) -> bool:
        return self.files.exists(f"{directory.path}/{META_PROPERTIES}")

    def _renamed(self, directory: LogDirectory, path: str, name: str) -> str:
        """Rename the directory of a log; return the new path.

        Raises:
            StorageError: the disk failed.
        """
        target = f"{directory.path}/{name}"
        try:
            self.files.rename(path, target)
        except OSError as error:
            raise directory.failed(f"renaming {path}", error) from error
        return target

    def delete_expired_files(self, now_ms: int) -> int:
        """Remove files and directories whose delay is over; return their number.

        Any thread may call this.
        """
        return sum(each.delete_expired(now_ms) for each in self.directories if each.takes_writes())

    # --- checkpoints ----------------------------------------------------------------------------------------

    def checkpoint_recovery_points(self) -> Callable[[], None]:
        """Collect the recovery points and leader epochs; return the function that writes them."""
        return self.checkpoints.prepare_recovery_points()

    def checkpoint_log_start_offsets(self) -> Callable[[], None]:
        """Collect the log start offsets; return the function that writes them."""
        return self.checkpoints.prepare(LOG_START_OFFSETS)

    def checkpoint_log_starts_of(self, logs: Iterable[PartitionLog]) -> Callable[[], None]:
        """Collect the log start offsets of these logs; return the function that writes them.

        The entries of other logs are kept.
        """
        return self.checkpoints.prepare_log_starts(logs)

    def log_start_on_disk(self, log: PartitionLog) -> int:
        """The offset below which the log has no records after a crash."""
        written = self.checkpoints.on_disk(log.log_directory, LOG_START_OFFSETS)
        return max(written.get(log.topic_partition, 0), log.segments.first.base_offset)

    def checkpoint_high_watermarks(self) -> Callable[[], None]:
        """Collect the high watermarks; return the function that writes them."""
        return self.checkpoints.prepare(HIGH_WATERMARKS)

    def checkpoint_cleaner_offsets(self) -> Callable[[], None]:
        """Collect the cleaner offsets; return the function that writes them."""
        return self.checkpoints.prepare(CLEANER_OFFSETS)

    def recovery_point_on_disk(self, log: PartitionLog) -> int:
        """The offset below which recovery does not read the log."""
        written = self.checkpoints.on_disk(log.log_directory, RECOVERY_POINTS)
        return written.get(log.topic_partition, 0)

    def all_logs(self) -> Iterator[PartitionLog]:
        """Every log, and the copies of logs that move."""
        yield from self.moves
        yield from self._logs.values()

    def damaged_in(self, directory: LogDirectory) -> Iterator[TopicPartition]:
        """The partitions in a directory whose logs are damaged and not served."""
        return (tp for tp, (damaged_in, _) in self._damaged.items() if damaged_in is directory)

    def _directory_failed(self, _: LogDirectory, error: StorageError) -> None:
        self.on_directory_failure(error)

    # --- closing --------------------------------------------------------------------------------------------

    def close(self, *, clean: bool = True, broker_epoch: int = -1) -> None:
        """Close every log and, without errors, mark the stop as clean.

        Without `clean` nothing more is written, for data that is deleted next: the files are only closed.
        """
        try:
            if self._loaded and clean:
                self._close_logs(broker_epoch)
        finally:
            for log in self.all_logs():
                log.forget_unwritten()
                log.close_files()
            for directory in self.directories:
                directory.close()
            self.files.open_files.close()

    def _close_logs(self, broker_epoch: int) -> None:
        failed: set[str] = set()
        for directory in self.directories:
            directory.syncs_at_once = directory.durable and self.files.is_synced_at_once(directory.log_count)
        make_files(list(self._without_files.values()))
        self.checkpoints.save_leader_epochs()
        for log in self.all_logs():
            directory = log.log_directory
            if directory.error is None and (log.new_files is None or log.new_files.is_settled):
                try:
                    log.close()
                except KafkaError as error:  # the disk failed, or the log is damaged
                    failed.add(directory.path)
                    logger.error("%s was not closed cleanly: %s", log.topic_partition, error.message)
        for directory in self.directories:
            if directory.error is not None or directory not in self.checkpoints:
                continue
            try:
                directory.sync_at_once()
                self.checkpoints.write_all(directory)
                if directory.path not in failed and not any(self.damaged_in(directory)):
                    directory.space.with_reserve(
                        partial(
                            write_clean_shutdown,
                            self.files,
                            f"{directory.path}/{CLEAN_SHUTDOWN}",
                            broker_epoch,
                            durable=directory.durable,
                        )
                    )
            except (OSError, StorageError) as error:
                logger.error("%s was not closed cleanly: %s", directory.path, error)


def _require_offline(directory: LogDirectory, error: StorageError) -> None:
    """Raise `error` unless the directory is offline.

    An online directory would get the mark of a clean stop, though not all of its logs were loaded.
    """
    if directory.error is None:
        raise error


def _nobody(_: StorageError) -> None:
    """Do nothing."""
