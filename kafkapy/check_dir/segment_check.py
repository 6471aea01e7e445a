"""Every batch of one segment: structure, CRC, order of offsets and epochs; with `deep` every record.

Reading goes on behind a batch whose CRC or offsets are wrong. Behind bytes that cannot be a batch it goes on
where the offset index, or else nothing, says that another batch begins.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kafkapy.check_dir.index_check import OffsetIndexCheck, TimeIndexCheck
from kafkapy.log_source.read_only_files import ReadOnlyFiles
from kafkapy.protocol.compression import DecompressedSizeError
from kafkapy.protocol.control_records import ControlType, parse_control_record_key
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.legacy_records import decode_message_set
from kafkapy.protocol.record_walker import walk_batch
from kafkapy.protocol.records import (
    CONTROL,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    Record,
    decode_records,
    read_header,
)
from kafkapy.storage.batches import BadBatchError, iter_batches, reason_against
from kafkapy.storage.files import File

_MAX_BATCH = 1 << 30
_PROGRESS = 1 << 22
_CRC_AT = 12
_CRC_FROM = 16

Progress = Callable[[int], None]
"""Called with the bytes that were read since the last call."""


@dataclass(frozen=True, slots=True)
class BadPlace:
    """Bytes that are not the batch that should be there."""

    position: int
    size: int
    offset: int
    """The first that it concerns."""
    reason: str
    ends_log: bool = False
    """The bytes are no batch, and none follows in this file."""
    torn: bool = False
    """The file ends inside a batch, or is zero from there on: what a crash leaves of a write."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets that no batch has."""

    position: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Marker:
    """An abort marker that ended a transaction with records."""

    producer_id: int
    first_offset: int
    offset: int
    last_stable_offset: int
    """At most: transactions that compaction or retention took may have been open."""


@dataclass(frozen=True, slots=True)
class EpochStart:
    """A batch that has another epoch than the one before it, which ends at `previous_end`."""

    position: int
    offset: int
    epoch: int
    previous_end: int


@dataclass(slots=True)
class LogState:
    """What goes from one segment to the next."""

    next_offset: int | None = None
    """Behind the last batch; None before the first."""
    epoch: int = -1
    open_transactions: dict[int, int] = field(default_factory=dict)
    """Producer id to first offset."""
    compacted: bool = False
    """A batch has lost records: compaction was here, and gaps are no damage."""
    legacy: int | None = None
    """A message format below 2 that was found."""
    has_producers: bool = False
    batches: int = 0


@dataclass(slots=True)
class SegmentReport:
    """What was found in a segment."""

    bad: list[BadPlace] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    aborted: list[Marker] = field(default_factory=list)
    """Transactions that end here and whose records were seen."""
    abort_markers: set[tuple[int, int]] = field(default_factory=set)
    """Producer id and offset of every abort marker."""
    epochs: list[EpochStart] = field(default_factory=list)


class SegmentCheck:
    """One pass over a segment's file."""

    def __init__(
        self,
        files: ReadOnlyFiles,
        file: File,
        base_offset: int,
        state: LogState,
        offset_index: OffsetIndexCheck,
        time_index: TimeIndexCheck,
        *,
        deep: bool,
        progress: Progress,
    ) -> None:
        self._files = files
        self._file = file
        self._base_offset = base_offset
        self._state = state
        self._offset_index = offset_index
        self._time_index = time_index
        self._deep = deep
        self._progress = progress
        self.report = SegmentReport()

    def run(self, size: int) -> SegmentReport:
        """Read the file up to byte `size`.

        Raises:
            OSError: the disk failed.
        """
        position = 0
        while position < size:
            resumed = self._run_from(position, size)
            if resumed is None:
                break
            position = resumed
        return self.report

    def _run_from(self, start: int, size: int) -> int | None:
        """Read until bytes are no batch; where to go on behind them, None at the end."""
        reported = end = start
        try:
            for position, batch in iter_batches(self._files, self._file, start, size):
                header = read_header(batch)
                if header.magic > MAGIC or header.magic < 0:
                    raise BadBatchError(position, f"no batch header (magic {header.magic})")
                self._take(position, header, batch)
                end = position + len(batch)
                if end - reported >= _PROGRESS:
                    self._progress(end - reported)
                    reported = end
        except BadBatchError as error:
            return self._skip(end, size, reported, error.reason)
        except DecodeError as error:
            return self._skip(end, size, reported, str(error))
        self._progress(end - reported)
        return None

    def _skip(self, position: int, size: int, reported: int, reason: str) -> int | None:
        """Find the next batch behind bytes that are none."""
        following = self._offset_index.next_batch(position)
        resumed = None if following is None or following >= size else following
        until = size if resumed is None else resumed
        self._progress(until - reported)
        self._offset_index.hole(position, until)
        self._time_index.bad_batch()
        offset = self._base_offset if self._state.next_offset is None else self._state.next_offset
        self.report.bad.append(
            BadPlace(
                position,
                until - position,
                max(offset, self._base_offset),
                reason,
                ends_log=resumed is None,
                torn=resumed is None and self._is_torn(position, size),
            )
        )
        if resumed is not None:
            self._state.next_offset = None  # what is behind the hole is where it says it is
        return resumed

    def _is_torn(self, position: int, size: int) -> bool:
        """Whether a crash can have left this: a batch that was begun, or a hole that was never written."""
        rest = self._files.read_at(self._file, 4096, position)
        if not any(rest):
            return all(not any(chunk) for chunk in self._chunks(position, size))
        try:
            header = read_header(rest)
        except DecodeError:
            return size - position < 61
        return 0 <= header.magic <= MAGIC and header.size > size - position

    def _chunks(self, position: int, size: int) -> Iterator[bytes]:
        while position < size:
            chunk = self._files.read_at(self._file, min(1 << 20, size - position), position)
            if not chunk:
                return
            yield chunk
            position += len(chunk)

    # --- one batch ------------------------------------------------------------------------------------------

    def _take(self, position: int, header: BatchHeader, batch: memoryview) -> None:
        state = self._state
        expected = (
            self._base_offset if state.next_offset is None else max(state.next_offset, self._base_offset)
        )
        state.batches += 1
        if header.magic != MAGIC:
            self._take_legacy(position, header, batch, expected)
            return
        reason = reason_against(header, batch, expected, self._base_offset)
        if reason is not None:
            self._bad(position, header, reason, expected)
            if (
                reason == "the CRC is wrong"
                and header.base_offset == expected
                and header.last_offset_delta >= 0
            ):
                state.next_offset = header.next_offset  # the numbers in the header fit: go on behind it
            return
        if header.base_offset > expected and state.next_offset is not None:
            self.report.gaps.append(Gap(position, expected, header.base_offset - 1))
        if header.record_count <= header.last_offset_delta:
            state.compacted = True
        if header.partition_leader_epoch != state.epoch:
            self._change_epoch(position, header)
        if header.producer_id >= 0:
            state.has_producers = True
            if header.attributes & TRANSACTIONAL:
                self._follow_transaction(position, header, batch)
        if self._deep:
            wrong = _wrong_records(header, batch)
            if wrong is not None:
                self._bad(position, header, wrong, header.base_offset)
        state.next_offset = header.next_offset
        self._offset_index.batch(position, header.base_offset, header.last_offset)
        self._time_index.batch(header.base_offset, header.last_offset, header.max_timestamp)

    def _bad(self, position: int, header: BatchHeader, reason: str, offset: int) -> None:
        self.report.bad.append(BadPlace(position, header.size, offset, reason))
        self._offset_index.bad_batch(position)
        self._time_index.bad_batch()

    def _change_epoch(self, position: int, header: BatchHeader) -> None:
        epoch = header.partition_leader_epoch
        if epoch < self._state.epoch and epoch >= 0:
            self._bad(
                position, header, f"leader epoch {epoch} behind epoch {self._state.epoch}", header.base_offset
            )
            return
        if epoch >= 0:
            previous_end = self._state.next_offset
            self._state.epoch = epoch
            self.report.epochs.append(
                EpochStart(
                    position,
                    header.base_offset,
                    epoch,
                    header.base_offset if previous_end is None else previous_end,
                )
            )

    def _follow_transaction(self, position: int, header: BatchHeader, batch: memoryview) -> None:
        transactions = self._state.open_transactions
        if not header.attributes & CONTROL:
            transactions.setdefault(header.producer_id, header.base_offset)
            return
        try:
            kind = _control_type(decode_records(batch, 0, header))
        except DecodeError as error:
            self._bad(position, header, str(error), header.base_offset)
            return
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return
        first = transactions.pop(header.producer_id, None)
        if kind == ControlType.ABORT:
            self.report.abort_markers.add((header.producer_id, header.base_offset))
            if first is not None:
                stable = header.base_offset + 1
                if not self._state.compacted:
                    stable = min([stable, *transactions.values()])
                self.report.aborted.append(Marker(header.producer_id, first, header.base_offset, stable))

    def _take_legacy(self, position: int, header: BatchHeader, batch: memoryview, expected: int) -> None:
        """A message, or a wrapper, whose offset is that of the last message in it."""
        state = self._state
        last = header.base_offset
        reason = None
        if zlib.crc32(batch[_CRC_FROM:]) != int.from_bytes(batch[_CRC_AT:_CRC_FROM], "big"):
            reason = "the CRC is wrong"
        elif last < expected:
            reason = f"offset {last} where {expected} is next"
        elif self._deep:
            try:
                decode_message_set(batch, limit=_MAX_BATCH)
            except DecodeError as error:
                reason = str(error)
        if reason is not None:
            self._bad(position, header, reason, expected)
            return
        state.legacy = header.magic
        state.next_offset = last + 1
        self._offset_index.batch(position, expected, last)
        self._time_index.unknown_batch()


def _control_type(records: list[Record]) -> int:
    if not records:
        return -1
    return parse_control_record_key(records[0].key)


def _wrong_records(header: BatchHeader, batch: memoryview) -> str | None:
    """What no consumer could read. What compaction thinned out has gaps, and other brokers are not as strict
    as this one: the slower look decides."""
    try:
        if header.record_count == header.last_offset_delta + 1:
            walk_batch(batch, 0, header, max_decompressed=_MAX_BATCH)
            return None
    except DecompressedSizeError as error:
        return str(error)
    except DecodeError:
        pass
    try:
        last = header.base_offset - 1
        for record in decode_records(batch, 0, header, limit=_MAX_BATCH):
            if not last < record.offset <= header.last_offset:
                return f"a record with offset {record.offset} behind offset {last}"
            last = record.offset
    except DecodeError as error:
        return str(error)
    return None
