"""The flushes of one log directory, in threads of its own.

So its acknowledgements wait for its own disk only.

    request  ->  asking, in groups  ->  a ticket, prepared on the loop  ->  synced in a thread
                       ^                                                          |
                       +---- whoever has more to sync by then asks again <--------+  the loop is woken

One thread at a time syncs a partition, and several threads sync several partitions: the file system puts what
is synced at the same time on disk together. What arrives for a partition during its sync shares the next one.
A ticket is prepared when a thread is free for it, as late as possible, and so covers as much as possible.

Partitions that ask in one turn of the event loop are a group, and groups take turns: the 200 partitions of
one request keep nobody else waiting for longer than one of them takes.

What goes wrong ends in one of two ways. A sync that fails is final: after an error the kernel may drop the
dirty pages and report success next time ("fsyncgate"). So the log directory goes offline at once, and no more
syncs are begun there. Everything else (no descriptor, no memory, no thread) is tried again by itself.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.storage.disk.files import StorageError

if TYPE_CHECKING:
    from kafkapy.replicas.partition import Partition
    from kafkapy.storage.disk.log_directory import LogDirectory
    from kafkapy.storage.log.flush import FlushTicket
    from kafkapy.storage.log.partition_log import PartitionLog

THREADS: Final = 16
"""The most threads of one directory.

200 small files take 27 ms with one thread and 5 with 16 (ext4 without a journal), or 112 and 14 (ext4 with
one). `syncfs` takes 2, but waits for whatever else anybody writes to that disk.
"""

RETRY_SECONDS: Final = 0.25
"""After which a flush that could not be made is tried again."""

logger = logging.getLogger(__name__)


class _Flush:
    """One flush of one partition, on its way through a thread."""

    __slots__ = ("error", "log", "partition", "ticket")

    def __init__(self, partition: Partition, log: PartitionLog, ticket: FlushTicket) -> None:
        self.partition = partition
        self.log = log
        self.ticket = ticket
        self.error: BaseException | None = None
        """The error that the thread met."""


class Flusher:
    """Syncs the partitions of a log directory that asked for it.

    All but `_work` runs on the event loop.
    """

    def __init__(self, log_directory: LogDirectory) -> None:
        self._log_directory = log_directory
        self._loop = asyncio.get_running_loop()
        self._groups: deque[dict[Partition, None]] = deque()
        """Groups of partitions that ask for a flush, none of them empty."""
        self._newest: dict[Partition, None] | None = None
        """The group that a partition joins which asks in this turn of the loop."""
        self._known: set[Partition] = set()
        """Partitions that ask or are being synced."""
        self._troubled: dict[Partition, None] = {}
        """Partitions whose flush could not be made, and is tried again."""
        self._retry_timer: asyncio.TimerHandle | None = None
        self._complained = False
        """It was logged that flushes cannot be made, and not yet that they can again."""
        self._threads: list[threading.Thread] = []
        self._flushing = 0
        """Flushes handed to the threads and not back yet: never more than threads."""
        self._flushes: SimpleQueue[_Flush | None] = SimpleQueue()
        self._draining: list[asyncio.Future[None]] = []

    def start(self) -> None:
        """Start a thread. Raises RuntimeError if none can be started."""
        thread = threading.Thread(target=self._work, name="kafkapy-flush", daemon=True)
        thread.start()
        self._threads.append(thread)

    def request(self, partition: Partition) -> None:
        """Flush `partition`; `partition.flushed()` follows.

        One that is being synced checks by itself, when that has ended, whether there is more to sync.
        """
        if partition in self._known:
            return
        self._known.add(partition)
        if self._newest is None:
            self._newest = {}
            self._groups.append(self._newest)
            self._loop.call_soon(self._start)
        self._newest[partition] = None

    async def drain(self) -> None:
        """Wait until every flush asked for so far has ended, or could not be made."""
        while self._known:
            drained = self._loop.create_future()
            self._draining.append(drained)
            await drained

    def close(self) -> None:
        """End the threads; nothing is being synced any more."""
        if self._retry_timer is not None:
            self._retry_timer.cancel()
        for _ in self._threads:
            self._flushes.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    # --- on the event loop ----------------------------------------------------------------------------------

    def _start(self) -> None:
        """Note the end of the turn of the loop in which somebody asked first."""
        self._newest = None
        self._go_on()

    def _go_on(self) -> None:
        """Hand over as many flushes as threads are free."""
        while self._groups and self._has_free_thread():
            partition = self._next()
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
                    self._flushing += 1
                    self._flushes.put(flush)
        if not self._known:
            for drained in self._draining:
                if not drained.done():
                    drained.set_result(None)
            self._draining.clear()

    def _has_free_thread(self) -> bool:
        """Whether one more flush can be handed over; a thread is started where that helps."""
        if self._flushing < len(self._threads):
            return True
        if len(self._threads) == THREADS:
            return False
        try:
            self.start()
        except Exception as error:
            if not self._threads:
                for group in self._groups:
                    self._troubled |= group
                    self._known -= group.keys()
                self._groups.clear()
                self._newest = None
                self._retry_later(error)
            return False
        return True

    def _next(self) -> Partition:
        """The partition whose turn it is."""
        group = self._groups.popleft()
        partition = next(iter(group))
        del group[partition]
        if group:
            self._groups.append(group)
        elif group is self._newest:
            self._newest = None
        return partition

    def _prepare(self, partition: Partition) -> _Flush | None:
        """Prepare a flush; None if nothing is left to sync, or not in this directory."""
        log = partition.log
        if log.log_directory is not self._log_directory:
            return None
        ticket = partition.prepare_flush()
        return None if ticket is None else _Flush(partition, log, ticket)

    def _ended(self, flush: _Flush) -> None:
        """Note that a thread is done with a flush."""
        self._flushing -= 1
        partition, error = flush.partition, flush.error
        self._known.discard(partition)
        moved = False
        try:
            if error is None:
                self._succeeded(partition)
                moved = partition.flushed(flush.log, flush.ticket)
            else:
                flush.log.abort_flush(flush.ticket, error)
                self._not_flushed(partition, error)
        finally:
            self._go_on()
        if moved:
            partition.wake()

    def _not_flushed(self, partition: Partition, error: BaseException) -> None:
        """Tell who waits that it is over, or try again."""
        if self._log_directory.error is not None:
            code = ErrorCode.KAFKA_STORAGE_ERROR
        elif isinstance(error, KafkaError) and not isinstance(error, StorageError):
            code = error.code  # The log is damaged: nothing more of it is acknowledged.
        else:
            self._troubled[partition] = None
            self._retry_later(error)
            return
        if not partition.offline:
            partition.close(code)

    def _retry_later(self, error: BaseException) -> None:
        if not self._complained:
            self._complained = True
            logger.error(
                "Flushing in %s is tried again until it succeeds; what waits for it is not acknowledged: %s",
                *(self._log_directory.path, str(error) or type(error).__name__),
            )
        if self._retry_timer is None:
            self._retry_timer = self._loop.call_later(RETRY_SECONDS, self._retry)

    def _retry(self) -> None:
        self._retry_timer = None
        for partition in self._troubled:
            self.request(partition)

    def _succeeded(self, partition: Partition) -> None:
        """Note that nothing of `partition` waits to be tried again."""
        self._troubled.pop(partition, None)
        if self._complained and not self._troubled:
            self._complained = False
            logger.info("Flushes in %s succeed again", self._log_directory.path)

    # --- in the threads -------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (flush := self._flushes.get()) is not None:
            try:
                self._log_directory.require_online()
                flush.ticket.run()
            except BaseException as error:
                flush.error = error
                if isinstance(error, StorageError):
                    # At once: what is synced from now on might succeed for nothing.
                    self._log_directory.failed(f"flushing {flush.log.path}", error)
            self._tell(flush)

    def _tell(self, flush: _Flush) -> None:
        """Wake the loop. It costs less than a future, and nothing else waits for one."""
        while True:
            try:
                self._loop.call_soon_threadsafe(self._ended, flush)
            except MemoryError:
                time.sleep(RETRY_SECONDS)
            except RuntimeError:
                return  # The loop is closed, and nobody waits any more.
            else:
                return
