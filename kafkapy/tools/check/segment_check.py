"""Every batch of a segment: structure, CRC, order of offsets and epochs, records if `deep`.

When a batch is wrong, the segment is surveyed (storage/damage/survey.py) from the batch before it, as a
broker would do. The survey says which bytes and offsets are lost, and the check continues with the good
batches between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkapy.protocol.compression import DecompressedSizeError
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.legacy_records import decode_message_set
from kafkapy.protocol.record_walker import walk_batch
from kafkapy.protocol.records import CONTROL, MAGIC, TRANSACTIONAL, BatchHeader, decode_records
from kafkapy.storage.damage.damage import DamagedRange, good_runs
from kafkapy.storage.damage.survey import survey
from kafkapy.storage.disk.files import File, FileSystem
from kafkapy.storage.log.batch_walk import has_old_crc, walk
from kafkapy.storage.log.batches import BadBatchError, is_unfinished, iter_batches
from kafkapy.storage.log.markers import read_marker
from kafkapy.storage.log.txn_index import AbortedTxn
from kafkapy.tools.check.index_check import IndexCheck

_MAX_BATCH = 1 << 30
_PROGRESS = 1 << 22

Progress = Callable[[int], None]
"""A function that is called with the number of bytes read since the last call."""


class BadPlace(NamedTuple):
    """Bytes that cannot be read, and the offsets lost with them."""

    lost: DamagedRange
    reason: str
    at_end: bool = False
    """Whether no batch follows in this file."""
    torn: bool = False
    """Whether the file also ends inside a batch, or in zeros, as after a crash during a write."""


class Gap(NamedTuple):
    """Offsets that are in no batch."""

    position: int
    first: int
    last: int


class EpochStart(NamedTuple):
    """A batch with another epoch than the batch before it, which ends at `previous_end`."""

    position: int
    offset: int
    epoch: int
    previous_end: int


@dataclass(slots=True)
class LogState:
    """The state of the log, carried from one segment to the next."""

    next_offset: int | None = None
    """The offset after the last batch; None before the first."""
    batch_end: int = 0
    """The offset after the last good batch."""
    epoch: int = -1
    open_transactions: dict[int, int] = field(default_factory=dict)
    """The first offset of each open transaction, by producer id."""
    compacted: bool = False
    """Whether a batch lacks records: the log was compacted, so gaps are not damage."""
    legacy: int | None = None
    """The message format 0 or 1, if the log has such messages."""
    has_producers: bool = False
    batches: int = 0


@dataclass(slots=True)
class SegmentReport:
    """The findings in a segment."""

    bad: list[BadPlace] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    aborted: list[AbortedTxn] = field(default_factory=list)
    """The aborted transactions that end here and whose records were read.

    Their last stable offsets are upper bounds: compaction or retention may have removed records of open
    transactions.
    """
    abort_markers: set[tuple[int, int]] = field(default_factory=set)
    """The producer id and the offset of every abort marker."""
    epochs: list[EpochStart] = field(default_factory=list)


class _Before(NamedTuple):
    """The position of the last good batch, with the offset and epoch before it."""

    position: int
    expected: int
    epoch: int


@dataclass(slots=True)
class SegmentCheck:
    """A check of one segment file, which continues the state of its log."""

    files: FileSystem
    file: File
    base_offset: int
    state: LogState
    indexes: Sequence[IndexCheck]
    deep: bool
    progress: Progress
    report: SegmentReport = field(default_factory=SegmentReport, init=False)
    _before: _Before = field(init=False)
    _reported: int = field(default=0, init=False)
    """The position up to which `progress` was called."""

    def run(self, size: int, following: int | None) -> SegmentReport:
        """Read the file up to byte `size`; the next segment begins at offset `following`."""
        self._before = _Before(0, self._expected(), self.state.epoch)
        wrong = self._pass(0, size)
        if wrong is not None and self.state.legacy is None:
            self._survey(wrong, size, following)
        elif wrong is not None:
            self._lose(self._rest(wrong, size), wrong.reason, size)
        return self.report

    def _expected(self) -> int:
        return max(self.state.next_offset or 0, self.base_offset)

    def _rest(self, wrong: BadBatchError, end: int) -> DamagedRange:
        """The bytes from a bad batch to `end`; the offsets that they had are not known."""
        return DamagedRange(wrong.position, end, self._expected(), self._expected())

    def _pass(self, start: int, end: int) -> BadBatchError | None:
        """Check the batches between two positions; return what is wrong with the first bad one."""
        self._reported = start
        batches = iter_batches(self.files, self.file, start, end)
        walked = walk(batches, self, start=start, base_offset=self.base_offset, expected=self._expected())
        self.progress(walked.position - self._reported)
        return walked.bad

    # --- damage ---------------------------------------------------------------------------------------------

    def _survey(self, wrong: BadBatchError, size: int, following: int | None) -> None:
        """Find what is lost, from the last good batch on, since that may itself be wrong."""
        state, before = self.state, self._before
        found = survey(
            self.files,
            self.file,
            before.position,
            size,
            base_offset=self.base_offset,
            expected=before.expected,
            end_offset=before.expected if following is None else following,
            leader_epoch=before.epoch,
            end_is_known=following is not None,
        )
        damage = found.damage or [self._rest(wrong, size)]
        first = damage[0].position
        if first <= before.position:
            state.next_offset, state.epoch = before.expected, before.epoch
        self.report.gaps = [gap for gap in self.report.gaps if gap.position < first]
        self.report.epochs = [each for each in self.report.epochs if each.position < first]
        for lost, reason in zip(damage, found.reasons or [wrong.reason], strict=True):
            holds_wrong = lost.position <= wrong.position < lost.end_position
            self._lose(lost, wrong.reason if holds_wrong else reason, size)
        for start, end in good_runs(damage, max(first, before.position), size):
            passed = [each.end_offset for each in damage if each.end_position <= start]
            state.next_offset = max(state.next_offset or 0, *passed[-1:])
            another = self._pass(start, end)
            if another is not None:
                # The survey accepts the batch, but no broker would write it.
                self._lose(self._rest(another, end), another.reason, size)
        state.next_offset = max(state.next_offset or 0, damage[-1].end_offset)
        state.open_transactions.clear()

    def _lose(self, lost: DamagedRange, reason: str, size: int) -> None:
        at_end = lost.end_position >= size
        torn = at_end and is_unfinished(self.files, self.file, lost.position, size)
        self.report.bad.append(BadPlace(lost, reason, at_end, torn))
        for index in self.indexes:
            index.hole(lost.position, lost.end_position)
        self.progress(lost.end_position - lost.position)

    # --- one batch ------------------------------------------------------------------------------------------

    def batch(self, position: int, header: BatchHeader, batch: memoryview, expected: int) -> None:
        """Take the next batch of a walk.

        Raises:
            BadBatchError: its leader epoch is impossible.
        """
        state, epoch = self.state, header.partition_leader_epoch
        if 0 <= epoch < state.epoch:
            raise BadBatchError(position, f"leader epoch {epoch} after epoch {state.epoch}")
        self._before = _Before(position, expected, state.epoch)
        if epoch > state.epoch:
            state.epoch = epoch
            self.report.epochs.append(EpochStart(position, header.base_offset, epoch, state.batch_end))
        if header.base_offset > expected and state.next_offset is not None:
            self.report.gaps.append(Gap(position, expected, header.base_offset - 1))
            state.open_transactions.clear()  # a marker that was missed may have ended them
        if header.record_count <= header.last_offset_delta:
            state.compacted = True
        if header.producer_id >= 0:
            state.has_producers = True
            if header.attributes & TRANSACTIONAL:
                self._follow_transaction(position, header, batch)
        self._take(position, header, batch)
        state.batch_end = header.next_offset
        for index in self.indexes:
            index.batch(position, header.base_offset, header.last_offset, header.max_timestamp)

    def other_format(self, position: int, header: BatchHeader, batch: memoryview, expected: int) -> int:
        """Check a message of format 0 or 1, or a wrapper, whose offset is its last message's.

        Raises:
            BadBatchError: there is none.
        """
        last = header.base_offset
        if not 0 <= header.magic < MAGIC or not has_old_crc(batch):
            raise BadBatchError(position, f"no batch header (magic {header.magic})")
        if last < expected:
            raise BadBatchError(position, f"offset {last} where {expected} is next")
        self.state.legacy = header.magic
        self._take(position, header, batch)
        offset_index, time_index = self.indexes
        offset_index.batch(position, expected, last, header.max_timestamp)
        time_index.hole(position, position + header.size)
        return last + 1

    def _take(self, position: int, header: BatchHeader, batch: memoryview) -> None:
        if position - self._reported >= _PROGRESS:
            self.progress(position - self._reported)
            self._reported = position
        self.state.batches += 1
        self.state.next_offset = header.next_offset
        reason = _wrong_records(header, batch) if self.deep else None
        if reason is not None:
            self._unreadable(position, header, reason)

    def _unreadable(self, position: int, header: BatchHeader, reason: str) -> None:
        """Report a batch that has its original bytes but cannot be read."""
        lost = DamagedRange(position, position + header.size, header.base_offset, header.next_offset)
        self.report.bad.append(BadPlace(lost, reason))

    def _follow_transaction(self, position: int, header: BatchHeader, batch: memoryview) -> None:
        transactions = self.state.open_transactions
        if not header.attributes & CONTROL:
            transactions.setdefault(header.producer_id, header.base_offset)
            return
        try:
            marker = read_marker(header, batch)
        except DecodeError as error:
            self._unreadable(position, header, f"a transaction marker that cannot be read: {error}")
            return
        if marker is None:
            return
        first = transactions.pop(header.producer_id, None)
        if marker.aborted:
            self.report.abort_markers.add((header.producer_id, header.base_offset))
            if first is not None:
                stable = header.base_offset + 1
                if not self.state.compacted:
                    stable = min([stable, *transactions.values()])
                self.report.aborted.append(AbortedTxn(header.producer_id, first, header.base_offset, stable))


def _wrong_records(header: BatchHeader, batch: memoryview) -> str | None:
    """Return why consumers cannot read the batch's records, or None if they can.

    The walk is strict: it allows no gaps, which compacted batches have, and other brokers accept more. So
    batches that it refuses are decoded, and decoding decides.
    """
    try:
        if header.record_count == header.last_offset_delta + 1:
            walk_batch(batch, 0, header, max_decompressed=_MAX_BATCH)
            return None
    except DecompressedSizeError as error:
        return str(error)
    except DecodeError:
        pass
    try:
        if header.magic < MAGIC:
            decode_message_set(batch, limit=_MAX_BATCH)
            return None
        last = header.base_offset - 1
        for record in decode_records(batch, 0, header, limit=_MAX_BATCH):
            if not last < record.offset <= header.last_offset:
                return f"a record with offset {record.offset} after offset {last}"
            last = record.offset
    except DecodeError as error:
        return str(error)
    return None


def torn_text(nbytes: int, reason: str) -> str:
    """Describe the unfinished last bytes of a file, which are no batch for this reason."""
    return f"the file ends inside a batch, or in zeros: {nbytes} bytes ({reason})"
