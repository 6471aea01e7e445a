"""The flushes of one log directory, in its own threads.

Acknowledgements thus wait for their own disk only.

    request  ->  queued, in groups  ->  a ticket, prepared on the loop  ->  synced in a thread
                       ^                                                          |
                       +---- a partition with more to sync asks again <-----------+  the loop is woken

One thread at a time syncs a partition, and several threads sync several partitions: the file system combines
simultaneous syncs. Appends that arrive during a partition's sync share the next one. A ticket is prepared
when a thread is free, as late as possible, and so covers as many appends as possible.

Partitions that ask in one iteration of the event loop, with no end of a flush in between, form a group, and
groups take turns: the 200 partitions of one request delay another partition by no more than one of their
flushes.

A failed sync is final: after an error the kernel may drop the dirty pages and report success the next time
("fsyncgate"). So the log directory goes offline at once, and no more syncs are begun there. All other errors
(no descriptor, no memory, no thread) are retried automatically.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kafkapy.loop.latency_sample import LatencySample
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.replicas.flush_threads import FlushThreads
from kafkapy.storage.disk.errors import StorageError

if TYPE_CHECKING:
    from kafkapy.replicas.partition import Partition
    from kafkapy.storage.disk.log_directory import LogDirectory
    from kafkapy.storage.log.flush import FlushTicket
    from kafkapy.storage.log.partition_log import PartitionLog

THREADS: Final = 16
"""The most threads of one directory.

Syncing 200 small files takes 27 ms with one thread and 5 ms with 16 (ext4 without a journal), or 112 and 14
ms (ext4 with a journal). `syncfs` takes 2 ms, but also waits for the writes of other programs to that disk.
"""

RETRY_SECONDS: Final = 0.25
"""The delay before a flush is retried."""

SLOW_SECONDS: Final = 1.0
"""How long a flush may take before the log mentions a slow disk."""
COMPLAIN_EVERY_SECONDS: Final = 60.0

OVERDUE_LOOKS: Final = 4
"""The number of looks, each half a second after the last one, during which no flush has ended.

On a disk that has ceased to answer, appends still fill the page cache for some 5 seconds, until the journal
of the file system commits by itself and waits for the disk (ext4).
"""

logger = logging.getLogger(__name__)


class Flush:
    """One flush of one partition in a thread."""

    __slots__ = ("error", "log", "partition", "seconds", "ticket")

    def __init__(self, partition: Partition, log: PartitionLog, ticket: FlushTicket) -> None:
        self.partition = partition
        self.log = log
        self.ticket = ticket
        self.error: BaseException | None = None
        """The error that the flush raised in the thread."""
        self.seconds = 0.0
        """How long it took there."""

    def not_synced(self, code: int) -> None:
        """Note that the sync, or an earlier one in the directory, has failed with this errno."""
        self.error = error = self.ticket.sync_failed(code)
        # At once: a later sync might report success although pages were dropped.
        self.ticket.log_directory.failed(f"flushing {self.log.path}", error)


NewThreads = Callable[[Callable[[Flush], None], Callable[[Flush], None]], FlushThreads[Flush]]
"""Makes the threads of a directory from what runs a flush there, and what takes it back on the loop."""


class Flusher:
    """Syncs the partitions of a log directory that request a flush.

    Everything except `_run` is called on the event loop.
    """

    def __init__(
        self,
        log_directory: LogDirectory,
        new_threads: NewThreads = FlushThreads,
        damaged: Callable[[], None] = lambda: None,
        *,
        retry_seconds: float = RETRY_SECONDS,
        times: LatencySample[float] | None = None,
    ) -> None:
        """`damaged` is called after a partition was closed because its log is damaged.

        `times` takes the seconds of flushes.
        """
        self._times = times
        self._retry_seconds = retry_seconds
        self._log_directory = log_directory
        self._damaged = damaged
        self._loop = asyncio.get_running_loop()
        self._groups: deque[deque[Partition]] = deque()
        """The groups of partitions that ask for a flush. No group is empty."""
        self._newest: deque[Partition] | None = None
        """The group of partitions that have asked since `_go_on`. If it is empty, it is not in `_groups`."""
        self._known: set[Partition] = set()
        """The partitions that ask or are being synced."""
        self._to_retry: dict[Partition, None] = {}
        """The partitions whose flush is retried."""
        self._retry_timer: asyncio.TimerHandle | None = None
        self._reported = False
        """Whether the log says that flushes fail, and not yet that they succeed again."""
        self._threads = new_threads(self._run, self._ended)
        self.ends = 0
        """The number of flushes that have ended."""
        self._seen = self._looks = 0
        """That number at the last `look`, and how many looks have found it with flushes under way."""
        self._idle = 0
        """The number of threads that have no flush."""
        self._draining: list[asyncio.Future[None]] = []
        self._complain_at = 0.0
        """The time of the loop from which on the log mentions a slow disk again."""

    def start(self) -> None:
        """Start a thread.

        Raises:
            RuntimeError: no thread can be started.
        """
        self._threads.start_one()
        self._idle += 1

    def request(self, partition: Partition) -> None:
        """Flush `partition`, and call `partition.flushed()` then.

        This does nothing for a partition that is being synced: its next flush is requested after that sync.
        """
        if partition in self._known:
            return
        self._known.add(partition)
        if not self._newest:
            self._newest = deque()
            self._groups.append(self._newest)
            self._loop.call_soon(self._go_on)
        self._newest.append(partition)

    def look(self) -> None:
        """Note whether the flushes are overdue; this is called every half second.

        They are if some are under way, and none has ended for OVERDUE_LOOKS.
        """
        is_under_way = self._idle < len(self._threads)
        self._looks = self._looks + 1 if is_under_way and self.ends == self._seen else 0
        self._seen = self.ends
        self._log_directory.flush_overdue = self._looks > OVERDUE_LOOKS

    async def drain(self) -> None:
        """Wait until every flush requested so far has succeeded or failed."""
        while self._known:
            drained = self._loop.create_future()
            self._draining.append(drained)
            await drained

    def close(self) -> None:
        """Stop the threads.

        No sync may be under way.
        """
        if self._retry_timer is not None:
            self._retry_timer.cancel()
        self._threads.close()

    # --- on the event loop ----------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Give each free thread a flush; partitions that ask from now on form another group."""
        self._newest = None
        while self._groups and (self._idle or self._start_another()):
            group = self._groups.popleft()
            partition = group.popleft()
            if group:
                self._groups.append(group)
            try:
                flush = self._prepare(partition)
            except Exception as error:
                self._known.discard(partition)
                self._not_flushed(partition, error)
            else:
                if flush is None:
                    self._known.discard(partition)
                    self._succeeded(partition)
                else:
                    self._idle -= 1
                    self._threads.put(flush, flush.ticket.only_file())
        if self._draining and not self._known:
            for drained in self._draining:
                if not drained.done():
                    drained.set_result(None)
            self._draining.clear()

    def _start_another(self) -> bool:
        """Start another thread if possible; return whether one was started."""
        if len(self._threads) == THREADS:
            return False
        try:
            self.start()
        except Exception as error:
            if not len(self._threads):
                for group in self._groups:
                    self._to_retry |= dict.fromkeys(group)
                    self._known.difference_update(group)
                self._groups.clear()
                self._newest = None
                self._retry_later(error)
            return False
        return True

    def _prepare(self, partition: Partition) -> Flush | None:
        """Prepare a flush; None if nothing is left to sync in this directory."""
        log = partition.log
        if log.log_directory is not self._log_directory:
            return None
        ticket = partition.prepare_flush()
        return None if ticket is None else Flush(partition, log, ticket)

    def _ended(self, flush: Flush) -> None:
        """Take back a flush from its thread."""
        self._idle += 1
        self.ends += 1
        times = self._times
        if times is not None:
            if times.skip:
                times.skip -= 1
            else:
                times.take(flush.seconds, self._loop.time())
        self._log_directory.flush_overdue = False
        # If another sync has failed, this one may have succeeded because dirty pages were dropped.
        partition, error = flush.partition, flush.error or self._log_directory.error
        self._known.discard(partition)
        if flush.seconds > SLOW_SECONDS:
            self._was_slow(flush)
        moved = False
        try:
            if error is None:
                if self._reported:
                    self._succeeded(partition)
                moved = partition.flushed(flush.log, flush.ticket)
            else:
                flush.log.abort_flush(flush.ticket, error)
                self._not_flushed(partition, error)
        finally:
            self._go_on()
        if moved:
            partition.wake()

    def _was_slow(self, flush: Flush) -> None:
        """Log a slow disk, at times: operations that wait elsewhere cannot notice it."""
        now = self._loop.time()
        if now >= self._complain_at:
            self._complain_at = now + COMPLAIN_EVERY_SECONDS
            logger.warning(
                "Syncing %s took %.1f s, and acknowledgements wait for that. Check whether the disk is"
                " failing or overloaded.",
                flush.log.path,
                flush.seconds,
            )

    def _not_flushed(self, partition: Partition, error: BaseException) -> None:
        """Close the partition if the error is final; otherwise retry the flush."""
        is_damaged = isinstance(error, KafkaError) and not isinstance(error, StorageError)
        if self._log_directory.error is None and not is_damaged:
            self._to_retry[partition] = None
            self._retry_later(error)
            return
        if partition.offline:
            return
        # Clients take it for a reason to look for another leader; CORRUPT_MESSAGE they would retry here.
        partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
        if self._log_directory.error is None:
            logger.error("%s is not served here any more. A restart recovers it.", partition.topic_partition)
            self._damaged()

    def _retry_later(self, error: BaseException) -> None:
        if not self._reported:
            self._reported = True
            logger.error(
                "Flushes in %s are retried until they succeed; no record is acknowledged before: %s",
                self._log_directory.path,
                str(error) or type(error).__name__,
            )
        if self._retry_timer is None:
            self._retry_timer = self._loop.call_later(self._retry_seconds, self._retry)

    def _retry(self) -> None:
        self._retry_timer = None
        for partition in self._to_retry:
            self.request(partition)

    def _succeeded(self, partition: Partition) -> None:
        """Note that no flush of `partition` waits to be retried."""
        self._to_retry.pop(partition, None)
        if self._reported and not self._to_retry:
            self._reported = False
            logger.info("Flushes in %s succeed again", self._log_directory.path)

    # --- in the threads -------------------------------------------------------------------------------------

    def _run(self, flush: Flush) -> None:
        began = time.monotonic()
        try:
            self._log_directory.require_online()
            flush.ticket.run()
        except BaseException as error:
            flush.error = error
            if isinstance(error, StorageError):
                # At once: a later sync might report success although pages were dropped.
                self._log_directory.failed(f"flushing {flush.log.path}", error)
        finally:
            flush.seconds = time.monotonic() - began
