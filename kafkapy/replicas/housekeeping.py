"""The periodic jobs of a broker: retention, checkpoints, flushes by age, deletion of files.

    log.retention.check.interval.ms               delete segments that are past their retention (of compacted
                                                  topics replicas/log_cleaner.py does it)
    log.flush.offset.checkpoint.interval.ms       write the recovery points
    log.flush.start.offset.checkpoint.interval.ms write the log start offsets
    replica.high.watermark.checkpoint.interval.ms write the high watermarks
    producer.id.expiration.check.interval.ms      forget idle idempotent producers
    flush.ms (of topics)                          sync records that have waited that long for a sync
    file.delete.delay.ms (of topics)              remove the files of deleted segments and partitions

The files of new partitions are created at once (storage/log/new_log.py). Partitions that could not be opened,
and files that could not be created, for lack of descriptors or disk space, are retried every second.

A job that fails is logged and runs again at its next time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from kafkapy.configs.config import BrokerConfig
from kafkapy.loop.clock import Clock
from kafkapy.loop.cold_reads import Provide
from kafkapy.loop.turns import Steps, Turns
from kafkapy.metadata.cache import MetadataCache
from kafkapy.protocol.errors import KafkaError
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.replica_manager import ReplicaManager
from kafkapy.replicas.sole_roles import SoleRoles
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.errors import NotReadyError

FLUSH_CHECK_SECONDS: Final = 0.5
DELETION_CHECK_SECONDS: Final = 1.0
REOPEN_SECONDS: Final = 1.0

DELETED_AT_ONCE: Final = 16
"""The most segments that retention deletes in one turn of the loop, which takes a few milliseconds."""

logger = logging.getLogger(__name__)


class Housekeeping:
    """The periodic jobs of one broker."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        logs: LogManager,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        turns: Turns,
        blocking: Callable[..., Awaitable[Any]],
        provide: Provide,
        sole: SoleRoles | None,
    ) -> None:
        """`blocking` runs a call in a worker thread; `provide` has one provide what a log lacks.

        `sole` are the roles of a broker alone.
        """
        self._config = config
        self._clock = clock
        self._logs = logs
        self._replicas = replicas
        self._metadata = metadata
        self._turns = turns
        self._blocking = blocking
        self._provide = provide
        self._sole = sole
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start all jobs; each runs for the first time after its interval."""
        config, checkpoints = self._config, self._logs
        self._every(config["log.retention.check.interval.ms"] / 1000, self._apply_retention)
        self._every(
            config["log.flush.offset.checkpoint.interval.ms"] / 1000,
            self._in_thread(checkpoints.checkpoint_recovery_points),
        )
        self._every(
            config["log.flush.start.offset.checkpoint.interval.ms"] / 1000,
            self._in_thread(checkpoints.checkpoint_log_start_offsets),
        )
        self._every(
            config["replica.high.watermark.checkpoint.interval.ms"] / 1000,
            self._in_thread(checkpoints.checkpoint_high_watermarks),
        )
        self._every(config["producer.id.expiration.check.interval.ms"] / 1000, self._expire_producers)
        self._tasks.append(asyncio.get_running_loop().create_task(self._make_files()))
        self._tasks.append(asyncio.get_running_loop().create_task(self._watch_flushes()))
        self._every(FLUSH_CHECK_SECONDS, self._flush_old)
        self._every(DELETION_CHECK_SECONDS, self._delete_files)
        self._every(REOPEN_SECONDS, self._reopen)

    async def stop(self) -> None:
        """Stop all jobs; work that a job has started in a thread still runs to its end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    def _every(self, seconds: float, job: Callable[[], Awaitable[None]]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(self._repeat(seconds, job)))

    async def _repeat(self, seconds: float, job: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._clock.sleep(seconds)
            try:
                await job()
            except Exception:
                logger.exception("Housekeeping failed; the broker tries again in %.0f s", seconds)

    def _in_thread(self, prepare: Callable[[], Callable[[], None]]) -> Callable[[], Awaitable[None]]:
        """A job that collects its data on the loop and writes them in a worker thread."""

        async def job() -> None:
            await self._blocking(prepare())

        return job

    async def _apply_retention(self) -> None:
        cleaner_runs = self._config["log.cleaner.enable"]

        def may_delete(partition: Partition) -> bool:
            if partition.offline or partition.log.log_directory.is_stuck or self._logs.is_held:
                return False
            return not (cleaner_runs and partition.log.config.is_compacted)

        for partition in list(self._replicas):
            await delete_old_segments(partition, self._clock.now_ms(), may_delete, self._provide)
            await asyncio.sleep(0)  # there may be many partitions: let requests run in between

    async def _expire_producers(self) -> None:
        now_ms = self._clock.now_ms()
        for partition in list(self._replicas):
            for _ in partition.log.producers.expire_some(now_ms):
                await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def _watch_flushes(self) -> None:
        """Look at the disks, whose time is real."""
        while True:
            await asyncio.sleep(FLUSH_CHECK_SECONDS)
            self._replicas.look_at_flushes()

    async def _flush_old(self) -> None:
        await self._turns.finish(flush_old(list(self._replicas), self._clock.now_ms()))

    async def _make_files(self) -> None:
        replicas = self._replicas
        while True:
            await replicas.new_logs.wait()
            replicas.new_logs.clear()
            try:
                await replicas.make_files()
            except Exception:
                logger.exception("The files of new logs could not be created; the broker tries again")

    async def _reopen(self) -> None:
        reopen = self._replicas.reopen if self._sole is None else self._sole.reopen
        more = True
        while more:
            more = reopen(self._metadata.image)
            await asyncio.sleep(0)
        if self._logs.without_files(1):
            self._replicas.new_logs.set()

    async def _delete_files(self) -> None:
        if self._sole is not None:
            await self._sole.delete_rest()
        await self._blocking(self._logs.delete_expired_files, self._clock.now_ms())


def flush_old(partitions: Iterable[Partition], now_ms: int) -> Steps[None]:
    """Request a sync for each partition whose records have waited for it long enough."""
    for partition in partitions:
        partition.flush_if_older(now_ms)
        yield


async def delete_old_segments(
    partition: Partition, now_ms: int, may_delete: Callable[[Partition], bool], provide: Provide
) -> None:
    """Delete the segments of a partition that are past their retention.

    They are deleted a few at a time, and requests are handled in between. Indexes that are damaged are
    rebuilt in a thread first.
    """
    files = partition.log.log_directory.files
    deleted = DELETED_AT_ONCE
    while deleted == DELETED_AT_ONCE and may_delete(partition):
        log_start_offset = partition.log.log_start_offset
        try:
            with files.cached_only(or_wait=True):
                deleted = partition.log.delete_old_segments(now_ms, DELETED_AT_ONCE)
        except NotReadyError as missing:
            await provide(missing)
        except KafkaError as error:
            logger.error("Retention of %s: %s", partition.topic_partition, error.message)
            return
        finally:
            if partition.log.log_start_offset != log_start_offset:
                partition.wake()
        if deleted:
            await asyncio.sleep(0)
