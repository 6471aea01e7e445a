"""The log cleaner: compacts logs with cleanup.policy=compact, the dirtiest first.

    log.cleaner.enable                   whether logs are compacted at all
    log.cleaner.threads                  how many logs are compacted at a time
    log.cleaner.backoff.ms               how long to wait when no log is dirty enough
    log.cleaner.dedupe.buffer.size       the bytes of all offset maps; a map is no larger than its log needs
    log.cleaner.io.buffer.load.factor    how full a map gets
    log.cleaner.io.max.bytes.per.second  the most bytes that all threads together read and write

A pass alternates between the event loop and a thread. Steps that inspect or change the log run on the loop.
Steps that read or write segments run in the cleaner's own threads, since a pass may take minutes and the
broker has few worker threads. The steps:

    loop    choose a log, make a plan and mark the log, which can stop the pass from now on
    loop    flush the log up to the end of the plan, and write this recovery point to its checkpoint: recovery
            takes a gap above the recovery point for a loss
    thread  build the offset map; then for each group of segments:
    thread      write the new segment, sync it, and ensure that a restart completes the swap
    loop        replace the old segments with it
    loop    store the offset up to which the log is compacted

A pass that fails is logged and leaves its log as it is. The log is not compacted again until the broker
restarts. A full disk only ends the pass. Retention of compacted topics runs here too, between passes, as in
Apache Kafka: it must not remove segments during a pass.

Source: LogCleaner, LogCleanerManager.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

from kafkapy.configs.config import BrokerConfig
from kafkapy.loop.clock import Clock
from kafkapy.loop.cold_reads import Provide
from kafkapy.loop.loop_load import LoopLoad
from kafkapy.protocol.errors import DecodeError, KafkaError
from kafkapy.replicas.group_commit import GroupCommit
from kafkapy.replicas.housekeeping import delete_old_segments
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.replica_manager import ReplicaManager
from kafkapy.storage.cleaning.cleanable import (
    CleanableLog,
    DamagedSegmentError,
    look_at,
    plan,
    roll_if_old,
)
from kafkapy.storage.cleaning.cleaned_segment import CleanedSegment
from kafkapy.storage.cleaning.cleaner import Cleaner
from kafkapy.storage.cleaning.pace import Pace
from kafkapy.storage.cleaning.plan import CleaningLimits, CleaningPlan, SourceSegment
from kafkapy.storage.cleaning.swap import prepare, replace
from kafkapy.storage.cleaning.task import CleaningAbortedError, CleaningTask
from kafkapy.storage.cleaning.throttle import Throttle
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.errors import NotReadyError, StorageError, is_disk_full
from kafkapy.storage.log.batches import BadBatchError
from kafkapy.storage.log.partition_log import PartitionLog

FLUSH_POLL_SECONDS: Final = 0.02
HOLD_POLL_SECONDS: Final = 0.02

UNCLEANABLE = (BadBatchError, DecodeError, DamagedSegmentError, ValueError)
"""The errors of a pass after which the log cannot be compacted now or later."""

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)


class CleanerFacts:
    """What metrics show of the cleaner."""

    __slots__ = ("clean_seconds", "dirty_ratio", "looked_at", "recopied")

    def __init__(self, now: float) -> None:
        self.looked_at = now
        """When it last looked for logs to compact, by `time.monotonic`."""
        self.dirty_ratio = 0.0
        """That of the dirtiest log which was due then."""
        self.clean_seconds = 0.0
        """How long the last pass took."""
        self.recopied = 0.0
        """The share of the bytes of the last pass that were written again."""


class LogCleaner:
    """Compacts the logs of one broker."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        logs: LogManager,
        replicas: ReplicaManager,
        group_commit: GroupCommit,
        provide: Provide,
        new_pool: Callable[[int, str], Executor] = ThreadPoolExecutor,
    ) -> None:
        """`provide` has a thread provide what a log lacks, `new_pool` makes a pool of threads."""
        self._config = config
        self._clock = clock
        self._logs = logs
        self._replicas = replicas
        self._group_commit = group_commit
        self._provide = provide
        self._new_pool = new_pool
        self._throttle = Throttle(self._config["log.cleaner.io.max.bytes.per.second"])
        self._workers: list[asyncio.Task[None]] = []
        self._ending: set[asyncio.Task[None]] = set()
        """The workers that stop after their current pass."""
        self.facts = CleanerFacts(time.monotonic())
        self._uncleanable: set[PartitionLog] = set()
        self._due: list[Partition] = []
        """The partitions to compact next; the last one comes first."""
        self._turn = asyncio.Lock()
        """Held by the worker that chooses a log."""

    def start(self) -> None:
        """Start to compact, unless log.cleaner.enable=false."""
        if self._config["log.cleaner.enable"]:
            self._config.on_change(self._configure)
            self._configure()

    @property
    def uncleanable(self) -> tuple[PartitionLog, ...]:
        """The logs that cannot be compacted until the broker restarts."""
        return tuple(self._uncleanable)

    @property
    def dead_workers(self) -> int:
        """The workers that have ended though they should run."""
        return sum(worker.done() for worker in self._workers)

    async def stop(self) -> None:
        """Stop the running passes and wait for their threads."""
        workers = [*self._workers, *self._ending]
        self._workers.clear()
        for worker in workers:
            worker.cancel()
        for partition in self._replicas:
            try:
                partition.log.stop_cleaning()
            except KafkaError as error:
                logger.error("%s", error.message)
        await asyncio.gather(*workers, return_exceptions=True)

    def _configure(self) -> None:
        """Apply changed settings; the size of the maps applies from the next pass on."""
        self._throttle.set_rate(self._config["log.cleaner.io.max.bytes.per.second"])
        count: int = self._config["log.cleaner.threads"]
        while len(self._workers) > count:
            worker = self._workers.pop()
            self._ending.add(worker)
            worker.add_done_callback(self._ending.discard)
        loop = asyncio.get_running_loop()
        while len(self._workers) < count:
            self._workers.append(loop.create_task(self._work(), name=f"log-cleaner-{len(self._workers)}"))

    async def _work(self) -> None:
        """Run one worker, with a thread of its own for the steps that block."""
        me = asyncio.current_task()
        with self._new_pool(1, "kafkapy-cleaner") as executor:
            while me not in self._ending:
                cleaned = False
                try:
                    cleaned = await self._clean_next(executor)
                except Exception:
                    logger.exception("The log cleaner failed; it continues.")
                if not cleaned and me not in self._ending:
                    await self._clock.sleep(self._config["log.cleaner.backoff.ms"] / 1000)

    # --- choosing -------------------------------------------------------------------------------------------

    def _may_clean(self, partition: Partition) -> bool:
        """Whether the log may be compacted or shortened now."""
        log = partition.log
        return (
            log.config.is_compacted
            and not partition.offline
            and log.cleaning is None
            and log.log_directory.error is None
            and not self._logs.is_held
            and partition.topic_partition not in self._logs.moves.copies
        )

    async def _clean_next(self, executor: Executor) -> bool:
        """Compact the dirtiest log, if it is still due; return False if no log was due."""
        async with self._turn:
            if not self._due:
                await self._apply_retention()
                self._due = await self._find_due()
                if not self._due:
                    return False
            partition = self._due.pop()
            # The partition was found some time ago and may have changed.
            log, now_ms = partition.log, self._clock.now_ms()
            cleanable = self._look_at(log, now_ms) if self._may_clean(partition) else None
            if cleanable is None:
                return True
            task = log.cleaning = CleaningTask(self._logs.files)
        load, limits = LoopLoad(), self._limits()
        run = _Pass(
            self._logs,
            self._group_commit,
            executor,
            self._throttle,
            load,
            limits,
            partition,
            task,
            self.facts,
        )
        return await self._run(run, cleanable, now_ms)

    async def _find_due(self) -> list[Partition]:
        """The partitions to compact, the dirtiest last."""
        self._uncleanable &= {partition.log for partition in self._replicas}
        now_ms = self._clock.now_ms()
        due: list[tuple[float, Partition]] = []
        for partition in list(self._replicas):
            if partition.log.config.is_compacted and self._may_clean(partition):
                found = self._look_at(partition.log, now_ms)
                if found is not None:
                    due.append((found.dirty_ratio, partition))
                await asyncio.sleep(0)  # there may be many partitions: let requests run in between
        due.sort(key=lambda each: each[0])
        self.facts.looked_at = time.monotonic()
        self.facts.dirty_ratio = due[-1][0] if due else 0.0
        return [partition for _, partition in due]

    def _look_at(self, log: PartitionLog, now_ms: int) -> CleanableLog | None:
        """The part of a log that is due for compaction; None if there is none."""
        if log in self._uncleanable:
            return None
        try:
            roll_if_old(log, now_ms)
            with self._logs.files.cached_only(or_wait=True):
                found = look_at(log, now_ms)
        except NotReadyError as missing:
            self._provide(missing)  # a later look finds it
            return None
        except StorageError:
            return None  # the disk is full, or its failure was reported already
        except KafkaError as error:
            self._give_up(log, error)
            return None
        return found if found is not None and found.is_due else None

    def _limits(self) -> CleaningLimits:
        return CleaningLimits(
            self._config["log.cleaner.dedupe.buffer.size"] // self._config["log.cleaner.threads"],
            self._config["log.cleaner.io.buffer.load.factor"],
            self._config["max.decompressed.message.bytes"],
        )

    # --- one pass -------------------------------------------------------------------------------------------

    async def _run(self, run: _Pass, cleanable: CleanableLog, now_ms: int) -> bool:
        """Run a pass, handle its errors, and return whether another may follow at once."""
        log, task = cleanable.log, run.task
        cleaned = False
        try:
            cleaned = await run.clean(cleanable, now_ms)
        except CleaningAbortedError:
            logger.info("Compaction of %s was stopped: the log has changed.", log.topic_partition)
        except (StorageError, OSError) as error:
            self._disk_failed(log, error)
        except UNCLEANABLE as error:
            self._give_up(log, error)
        except KafkaError as error:
            self._give_up(log, error)
        finally:
            if log.cleaning is task:
                try:
                    log.stop_cleaning()
                except KafkaError as error:
                    logger.error("%s", error.message)
        return cleaned

    def _disk_failed(self, log: PartitionLog, error: StorageError | OSError) -> None:
        if isinstance(error, OSError) and not is_disk_full(error):
            if log.log_directory.error is None:
                log.log_directory.failed(f"compacting {log.path}", error)
        else:
            logger.warning("Compaction of %s is postponed: %s", log.topic_partition, error)

    def _give_up(self, log: PartitionLog, error: Exception) -> None:
        self._uncleanable.add(log)
        logger.error(
            "%s is not compacted until the broker restarts: %s (%s)", log.topic_partition, error, log.path
        )

    # --- retention ------------------------------------------------------------------------------------------

    async def _apply_retention(self) -> None:
        for partition in list(self._replicas):
            if partition.log.config.is_compacted:
                await delete_old_segments(partition, self._clock.now_ms(), self._may_clean, self._provide)
                await asyncio.sleep(0)


class _Pass:
    """One pass over one log."""

    def __init__(
        self,
        logs: LogManager,
        group_commit: GroupCommit,
        executor: Executor,
        throttle: Throttle,
        load: LoopLoad,
        limits: CleaningLimits,
        partition: Partition,
        task: CleaningTask,
        facts: CleanerFacts,
    ) -> None:
        self._logs = logs
        self._group_commit = group_commit
        self._executor = executor
        self._throttle = throttle
        self._load = load
        self._limits = limits
        self._partition = partition
        self.task = task
        self._facts = facts

    async def clean(self, cleanable: CleanableLog, now_ms: int) -> bool:
        """Compact the log; return False if it cannot be flushed now.

        Raises:
            CleaningAbortedError: the log stopped the pass.
            StorageError, OSError: the disk is full or failed.
            KafkaError, *UNCLEANABLE: the log cannot be compacted.
        """
        log = cleanable.log
        started = time.monotonic()
        planned = plan(cleanable, now_ms)
        if not await self._secure(log, planned.end_offset):
            return False
        pace = Pace(self._load.is_busy)
        given = (self._logs.files, planned, self.task, self._limits, self._throttle, pace)
        cleaner = await self._in_thread(Cleaner, *given)  # slow with many producers or a large map
        next_dirty = await self._in_thread(cleaner.build_map)
        for group in await self._in_thread(cleaner.groups):
            cleaned = await self._in_thread(self._write, cleaner, planned, group)
            while self._logs.is_held:
                self.task.check()
                await asyncio.sleep(HOLD_POLL_SECONDS)
            self.task.check()
            log.replace_segments(partial(replace, task=self.task, cleaned=cleaned, sources=group))
        self.task.check()
        log.cleaned_offset = next_dirty
        log.cleaning = None
        await self._in_thread(self._logs.checkpoint_cleaner_offsets())
        self._report(cleaner, planned, next_dirty, time.monotonic() - started)
        return True

    def _write(self, cleaner: Cleaner, planned: CleaningPlan, group: list[SourceSegment]) -> CleanedSegment:
        cleaned = cleaner.clean(group)
        prepare(self._logs.files, self.task, planned.directory, cleaned)
        return cleaned

    async def _secure(self, log: PartitionLog, end_offset: int) -> bool:
        """Flush the log up to `end_offset` and checkpoint that recovery point.

        Returns False if that cannot be done now.
        """
        logs = self._logs
        while log.flushed_offset < end_offset:
            self.task.check()
            if self._partition.offline:
                return False
            self._group_commit.request(self._partition)
            await asyncio.sleep(FLUSH_POLL_SECONDS)
        if logs.recovery_point_on_disk(log) < end_offset:
            await self._in_thread(logs.checkpoint_recovery_points())
        return logs.recovery_point_on_disk(log) >= end_offset

    async def _in_thread(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a step in a thread of the cleaner; a cancelled pass waits for its end."""
        loop = asyncio.get_running_loop()
        step = loop.run_in_executor(self._executor, lambda: call(*args, **kwargs))
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            await asyncio.wait([step])
            step.exception()  # retrieved, since asyncio logs exceptions that nothing retrieves
            raise

    def _report(self, cleaner: Cleaner, planned: CleaningPlan, next_dirty: int, seconds: float) -> None:
        stats = cleaner.stats
        self._facts.clean_seconds = seconds
        self._facts.recopied = stats.bytes_written / max(stats.bytes_read, 1)
        logger.info(
            "Compacted %s from offset %d to %d in %.1f s: %d of %d records and %.1f of %.1f MB are left "
            "(%.0f MB/s, offset map %.0f %% full)",
            self._partition.topic_partition,
            planned.first_dirty_offset,
            next_dirty,
            seconds,
            stats.records_kept,
            stats.records_read,
            stats.bytes_written / 1e6,
            stats.bytes_read / 1e6,
            stats.bytes_read / 1e6 / max(seconds, 0.001),
            stats.map_utilization * 100,
        )
        if stats.records_without_key:
            logger.warning(
                "%s had %d records without a key, which compaction removes.",
                self._partition.topic_partition,
                stats.records_without_key,
            )
