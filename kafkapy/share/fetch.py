"""Reads records for a member of a share group, and lets it acquire them.

A request waits until there are enough bytes that may be acquired, or its time is over; then it takes what
there is. A share partition is read and its records acquired within one step, so two requests never get the
same record. Reads do not wait for the disk: what is not in the page cache is loaded by a thread first.

Source: Apache Kafka's DelayedShareFetch, ShareFetchUtils.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kafkapy.loop.cold_reads import ColdReads
from kafkapy.loop.turns import Steps, Turns
from kafkapy.loop.waiters import Waiters
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import CONTROL, HEADER_SIZE, TRANSACTIONAL, read_header
from kafkapy.share.led_partitions import LedPartition, LedPartitions, LedState
from kafkapy.share.share_partition import AcquiredRange, BatchSpan
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.errors import NotReadyError
from kafkapy.storage.disk.files import FileSlice
from kafkapy.storage.log.batches import BatchPlace, iter_places
from kafkapy.storage.log.log_reader import LogRead
from kafkapy.storage.log.partition_log import PartitionLog

MOST_LOADS: Final = 64
"""After so many loads a read waits for the disk: the page cache does not keep the bytes."""


class Wanted(NamedTuple):
    """The partitions and limits of a member's request."""

    member_id: str
    max_bytes: int
    min_bytes: int
    max_records: int
    batch_size: int
    exact: bool
    """Whether `max_records` is a strict limit."""
    read_committed: bool


class Taken(NamedTuple):
    """The part of a partition that a member has acquired: bytes and ranges of offsets."""

    records: FileSlice
    ranges: Sequence[AcquiredRange]


class ShareFetch:
    """One request."""

    def __init__(
        self,
        wanted: Wanted,
        partitions: Sequence[LedPartition],
        led: LedPartitions,
        *,
        logs: LogManager,
        waiters: Waiters,
        turns: Turns,
        cold_reads: ColdReads,
    ) -> None:
        self._wanted = wanted
        self._partitions = partitions
        self._led = led
        self._logs = logs
        self._waiters = waiters
        self._turns = turns
        self._cold_reads = cold_reads
        self._left = wanted.max_records
        self._missing: list[tuple[LedPartition, NotReadyError]] = []
        """The reads that were not ready in the last pass."""
        self._loads = 0
        self.taken: dict[LedPartition, Taken] = {}
        self.errors: dict[LedPartition, KafkaError] = {}

    async def wait(self, seconds: float) -> bool:
        """Wait until there is enough to acquire, at most so long; return whether there is."""
        keys = [*self._partitions, *(each.partition for each in self._partitions)]
        return await self._waiters.wait(keys, seconds, self.is_ready)

    def is_ready(self) -> bool:
        """Whether the client must not wait any longer."""
        nbytes = 0
        for led in self._partitions:
            if led.state is LedState.FENCED or not led.is_led:
                return True
            if led.state is LedState.ACTIVE and self._has_news(led):
                if self._wanted.min_bytes <= 1:
                    return True
                nbytes += self._bytes_of(led)
                if nbytes >= self._wanted.min_bytes:
                    return True
        return False

    async def take(self) -> None:
        """Acquire what there is."""
        await self._turns.finish(self._take(self._partitions))
        while self._missing:
            missing, self._missing = self._missing, []
            self._loads += 1
            if not await self._cold_reads.provide_all([each for _, each in missing]):
                self._loads = MOST_LOADS  # the next read meets the error, not the next load
            await self._turns.finish(self._take([led for led, _ in missing]))

    def release(self) -> None:
        """Release the slices that were read and not sent."""
        for taken in self.taken.values():
            taken.records.release()
        for _, each in self._missing:
            each.release()
        self._missing.clear()

    # --- one pass -------------------------------------------------------------------------------------

    def _take(self, partitions: Sequence[LedPartition]) -> Steps[None]:
        open_files = self._logs.files.open_files.per_answer
        ready = [led for led in partitions if led.state is LedState.ACTIVE and self._has_news(led)]
        share = max(self._wanted.max_bytes // len(ready), 1) if ready else 0
        for led in partitions:
            if led.state is LedState.FENCED or not led.is_led:
                self.errors[led] = led.error or KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for led in ready:
            yield
            if self._left <= 0 or len(self.taken) + len(self._missing) >= open_files:
                return
            if led.state is not LedState.ACTIVE:
                continue
            try:
                with self._logs.files.cached_only(or_wait=self._loads >= MOST_LOADS):
                    self._take_of(led, share)
            except NotReadyError as missing:
                self._missing.append((led, missing.with_traceback(None)))  # whose frames refer to this
            except KafkaError as error:
                self.errors[led] = error

    def _take_of(self, led: LedPartition, max_bytes: int) -> None:
        """Read from one partition, and acquire the records; both or neither."""
        machine, log = led.machine, led.partition.log
        if machine.log_started_at(log.log_start_offset):
            self._led.acquired(led)
        if not machine.may_acquire():
            return
        offset = machine.fetch_offset()
        found = self._read(led, offset, max_bytes)
        if found is None:
            return
        try:
            places = self._places(log, found, machine.next_offset)
            aborted = self._aborted(log, offset, found, places) if self._wanted.read_committed else []
            ranges = machine.acquire(
                self._wanted.member_id,
                [BatchSpan(place.base_offset, place.last_offset) for place in places],
                fetch_offset=offset,
                max_records=self._left,
                batch_size=self._wanted.batch_size,
                now=self._led.now,
                exact=self._wanted.exact,
            )
            if aborted:
                ranges = machine.archive_aborted(ranges, aborted)
            if ranges:
                self.taken[led] = Taken(_part(found.slice, places, ranges), ranges)
        finally:
            found.slice.release()
        self._left -= sum(each.last - each.first + 1 for each in ranges)
        self._led.acquired(led)

    def _has_news(self, led: LedPartition) -> bool:
        machine = led.machine
        if led.partition.log.log_start_offset > machine.start_offset:
            return True
        return machine.may_acquire() and machine.fetch_offset() < self._readable_end(led)

    def _readable_end(self, led: LedPartition) -> int:
        return led.partition.readable_end(read_committed=self._wanted.read_committed)

    def _bytes_of(self, led: LedPartition) -> int:
        """The bytes that can be read from a partition; 1 if it must be looked at to say so."""
        try:
            with self._logs.files.cached_only():
                found = self._read(led, led.machine.fetch_offset(), self._wanted.max_bytes)
        except NotReadyError as missing:
            missing.release()
            return self._wanted.min_bytes
        except KafkaError:
            return self._wanted.min_bytes
        if found is None:
            return 0
        found.slice.release()
        return found.slice.nbytes

    def _read(self, led: LedPartition, offset: int, max_bytes: int) -> LogRead | None:
        log = led.partition.log
        if not log.log_start_offset <= offset <= log.log_end_offset:
            return None  # an unclean election has taken the records; others will come
        return log.read(offset, max_bytes, upper_bound=self._readable_end(led), pass_empty=True)

    def _places(self, log: PartitionLog, found: LogRead, next_offset: int) -> list[BatchPlace]:
        """Those of the batches that were read that the member may want."""
        records, files = found.slice, log.log_directory.files
        places = iter_places(files, records.file, records.position, records.position + records.nbytes)
        return wanted_places(places, next_offset, self._left)

    def _aborted(
        self, log: PartitionLog, offset: int, found: LogRead, places: Sequence[BatchPlace]
    ) -> list[BatchSpan]:
        """The batches that are in aborted transactions."""
        transactions = sorted(
            log.aborted_transactions(offset, found.end_offset), key=lambda each: each.first_offset
        )
        if not transactions:
            return []
        left, aborting = list(reversed(transactions)), set()
        aborted = []
        files = log.log_directory.files
        for place in places:
            if not place.attributes & TRANSACTIONAL:
                continue
            while left and left[-1].first_offset <= place.last_offset:
                aborting.add(left.pop().producer_id)
            header = read_header(files.read_at(found.slice.file, HEADER_SIZE, place.position))
            if place.attributes & CONTROL:
                aborting.discard(header.producer_id)  # whatever ends, its transaction is over
            elif header.producer_id in aborting:
                aborted.append(BatchSpan(place.base_offset, place.last_offset))
        return aborted


def wanted_places(places: Iterable[BatchPlace], next_offset: int, most: int) -> list[BatchPlace]:
    """The batches that a member may want.

    They are those in flight, before `next_offset`, and `most` records of those after them. There may be a
    large gap before the first of these: compaction leaves it.
    """
    wanted: list[BatchPlace] = []
    for place in places:
        if wanted and place.base_offset >= max(next_offset, wanted[0].base_offset) + most:
            break
        wanted.append(place)
    return wanted


def _part(records: FileSlice, places: Sequence[BatchPlace], ranges: Sequence[AcquiredRange]) -> FileSlice:
    """The batches that have acquired records, and those between them."""
    first, last = ranges[0].first, ranges[-1].last
    kept = [place for place in places if place.last_offset >= first and place.base_offset <= last]
    begin, end = kept[0].position, kept[-1].position + kept[-1].size
    return FileSlice(records.file, begin, end - begin)
