"""Group commit: the appends that arrive while the disk syncs share the next sync.

One flush runs at a time, in a worker thread. A partition that has unsynced records asks for a flush with
`request`; when the running flush ends, all partitions that asked meanwhile go into the next one together, so
a slow disk makes larger groups instead of a longer queue. A batch is acknowledged (the high watermark moves
past it) only after the flush that covers it has ended well.

A failed flush is never retried: after an error the kernel may drop the dirty pages and report success next
time ("fsyncgate"), so the partition's log directory goes offline and its waiting requests get
KAFKA_STORAGE_ERROR. A flush that could not be made for want of descriptors, threads or memory is tried again
until it can."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from kafkapy.protocol.errors import KafkaError
from kafkapy.storage.files import ExhaustedError, StorageError, TransientStorageError, is_exhausted

if TYPE_CHECKING:
    from kafkapy.partition import Partition
    from kafkapy.storage.flush import FlushTicket
    from kafkapy.storage.log import PartitionLog
    from kafkapy.storage.log_directory import LogDirectory

MAX_GROUP = 200
"""Partitions in one flush: each holds at least one file open until it ends, and is prepared on the loop."""

RETRY_SECONDS: Final = 0.25

Blocking = Callable[..., Awaitable[list[StorageError | None]]]


_Ticket = tuple["Partition", "PartitionLog", "FlushTicket"]


class GroupCommit:
    """Flushes the partitions that asked for it, one group at a time."""

    def __init__(self, blocking: Blocking) -> None:
        """`blocking` runs a function in a worker thread."""
        self._blocking = blocking
        self._asking: dict[Partition, None] = {}
        self._running: asyncio.Task[None] | None = None
        self._stopping = False
        """What cannot be made now is not tried again."""

    def request(self, partition: Partition) -> None:
        """Have `partition` flushed by the next group; `partition.flushed()` follows."""
        self._asking[partition] = None
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run(), name="group-commit")

    async def drain(self) -> None:
        """Wait until every flush asked for so far has ended, or could not be made. The broker stops."""
        self._stopping = True
        while self._running is not None:
            await asyncio.shield(self._running)

    async def _run(self) -> None:
        try:
            while self._asking:
                group = list(islice(self._asking, MAX_GROUP))
                for partition in group:
                    del self._asking[partition]
                put_off: list[Partition] = []
                tickets = list(_tickets(group, put_off))
                tickets = await self._flush(tickets)
                while tickets and not self._stopping:
                    await asyncio.sleep(RETRY_SECONDS)
                    tickets = await self._flush(tickets)
                if put_off and not self._stopping:
                    await asyncio.sleep(RETRY_SECONDS)
                    self._asking |= dict.fromkeys(put_off)
        finally:
            self._running = None

    async def _flush(self, tickets: list[_Ticket]) -> list[_Ticket]:
        """Run tickets; those to be run again, as they met a lack of descriptors, threads or memory."""
        left = []
        try:
            errors = await self._blocking(_run_tickets, [ticket for *_, ticket in tickets])
        except RuntimeError as error:
            if not is_exhausted(error):
                raise
            return tickets
        for each, error_or_none in zip(tickets, errors, strict=True):
            partition, log, ticket = each
            if error_or_none is None:
                partition.flushed(log, ticket)
            elif isinstance(error_or_none, ExhaustedError):
                left.append(each)
            else:
                log.mark_offline(error_or_none)
        return left


def _tickets(group: list[Partition], put_off: list[Partition]) -> Iterator[_Ticket]:
    """What each partition has to sync; one whose disk fails does not stop the others. Those whose files
    cannot be opened now go to `put_off`."""
    for partition in group:
        try:
            log = partition.log
            ticket = log.prepare_flush()
        except TransientStorageError:
            put_off.append(partition)
        except KafkaError as error:
            # Its log directory is offline, or the log damaged: nothing of this partition is acknowledged.
            partition.close(error.code)
        else:
            if ticket is not None:
                yield partition, log, ticket


def _run_tickets(tickets: list[FlushTicket]) -> list[StorageError | None]:
    """Sync each ticket's files, in a worker thread; one failing directory does not stop the others.

    In a directory where one sync failed none is tried any more: the next one might succeed for nothing.
    """
    errors: list[StorageError | None] = []
    failed: dict[LogDirectory, StorageError] = {}
    synced: set[str] = set()
    for ticket in tickets:
        error = failed.get(ticket.log_directory)
        if error is None:
            try:
                ticket.run(synced)
            except StorageError as failure:
                error = failed[ticket.log_directory] = failure
        errors.append(error)
    return errors
