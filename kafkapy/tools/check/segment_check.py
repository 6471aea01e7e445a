"""Every batch of a segment: its structure, its CRC, the order of offsets and epochs.

A `deep` check decodes every record too.

When a batch is wrong, the segment is surveyed (storage/damage/survey.py) from the batch before it, as a
broker would do. The survey says which bytes and offsets are lost, and the check continues with the good
batches between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkapy.protocol.compression import DecompressedSizeError
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.legacy_records import decode_message_set
from kafkapy.protocol.record_walker import walk_batch
from kafkapy.protocol.records import (
    CONTROL,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    decode_records,
)
from kafkapy.storage.damage.damage import DamagedRange, good_runs
from kafkapy.storage.damage.survey import survey
from kafkapy.storage.disk.files import File, FileSystem
from kafkapy.storage.log.batch_walk import has_old_crc, walk
from kafkapy.storage.log.batches import BadBatchError, is_unfinished, iter_batches
from kafkapy.storage.log.markers import read_marker
from kafkapy.storage.log.txn_index import AbortedTxn
from kafkapy.tools.check.index_check import OffsetIndexCheck, TimeIndexCheck
from kafkapy.tools.check.segment_report import BadPlace, EpochStart, Gap, LogState, SegmentReport

_MAX_BATCH = 1 << 30
_PROGRESS = 1 << 22

Progress = Callable[[int], None]
"""A function that is called with the number of bytes read since the last call."""


class _Before(NamedTuple):
    """The position of the last good batch, with the offset and epoch before it."""

    position: int
    expected: int
    epoch: int


class SegmentCheck:
    """A check of one segment file."""

    def __init__(
        self,
        files: FileSystem,
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
        self._before = _Before(0, self._expected(), state.epoch)
        self._reported = 0
        """The position up to which `progress` was called."""
        self.report = SegmentReport()

    def run(self, size: int, following: int | None) -> SegmentReport:
        """Read the file up to byte `size`; the next segment begins at offset `following`.

        Raises:
            OSError: the disk failed.
        """
        wrong = self._pass(0, size)
        if wrong is not None and self._state.legacy is None:
            self._survey(wrong, size, following)
        elif wrong is not None:
            self._lose(self._rest(wrong, size), wrong.reason, size)
        return self.report

    def _expected(self) -> int:
        return max(self._state.next_offset or 0, self._base_offset)

    def _rest(self, wrong: BadBatchError, end: int) -> DamagedRange:
        """The bytes from a bad batch to `end`; the offsets that they had are not known."""
        return DamagedRange(wrong.position, end, self._expected(), self._expected())

    def _pass(self, start: int, end: int) -> BadBatchError | None:
        """Check the batches between two positions; return what is wrong with the first bad one."""
        self._reported = start
        batches = iter_batches(self._files, self._file, start, end)
        walked = walk(batches, self, start=start, base_offset=self._base_offset, expected=self._expected())
        self._progress(walked.position - self._reported)
        return walked.bad

    # --- damage ---------------------------------------------------------------------------------------------

    def _survey(self, wrong: BadBatchError, size: int, following: int | None) -> None:
        """Find what is lost, from the last good batch on, since that may itself be wrong."""
        state, before = self._state, self._before
        found = survey(
            self._files,
            self._file,
            before.position,
            size,
            base_offset=self._base_offset,
            expected=before.expected,
            end_offset=before.expected if following is None else following,
            leader_epoch=before.epoch,
            end_is_known=following is not None,
        )
        damage = found.damage or [self._rest(wrong, size)]
        reasons = found.reasons or [wrong.reason]
        first = damage[0].position
        if first <= before.position:
            state.next_offset, state.epoch = before.expected, before.epoch
        self.report.gaps = [gap for gap in self.report.gaps if gap.position < first]
        self.report.epochs = [each for each in self.report.epochs if each.position < first]
        for lost, reason in zip(damage, reasons, strict=True):
            holds_wrong = lost.position <= wrong.position < lost.end_position
            self._lose(lost, wrong.reason if holds_wrong else reason, size)
        for start, end in good_runs(damage, max(first, before.position), size):
            passed = [each for each in damage if each.end_position <= start]
            if passed:
                state.next_offset = max(state.next_offset or 0, passed[-1].end_offset)
            another = self._pass(start, end)
            if another is not None:
                # The survey accepts the batch, but no broker would write it.
                self._lose(self._rest(another, end), another.reason, size)
        state.next_offset = max(state.next_offset or 0, damage[-1].end_offset)
        state.open_transactions.clear()

    def _lose(self, lost: DamagedRange, reason: str, size: int) -> None:
        at_end = lost.end_position >= size
        torn = at_end and is_unfinished(self._files, self._file, lost.position, size)
        self.report.bad.append(BadPlace(lost, reason, at_end=at_end, torn=torn))
        self._offset_index.hole(lost.position, lost.end_position)
        self._time_index.bad_batch()
        self._progress(lost.end_position - lost.position)

    # --- one batch ------------------------------------------------------------------------------------------

    def batch(self, position: int, header: BatchHeader, batch: memoryview, expected: int) -> None:
        """Take the next batch of a walk.

        Raises:
            BadBatchError: its leader epoch is impossible.
        """
        if position - self._reported >= _PROGRESS:
            self._progress(position - self._reported)
            self._reported = position
        state = self._state
        epoch = header.partition_leader_epoch
        if 0 <= epoch < state.epoch:
            raise BadBatchError(position, f"leader epoch {epoch} after epoch {state.epoch}")
        self._before = _Before(position, expected, state.epoch)
        if epoch > state.epoch:
            state.epoch = epoch
            self.report.epochs.append(EpochStart(position, header.base_offset, epoch, state.batch_end))
        if header.base_offset > expected and state.next_offset is not None:
            self.report.gaps.append(Gap(position, expected, header.base_offset - 1))
            state.open_transactions.clear()  # a marker that was missed may have ended them
        state.batches += 1
        if header.record_count <= header.last_offset_delta:
            state.compacted = True
        if header.producer_id >= 0:
            state.has_producers = True
            if header.attributes & TRANSACTIONAL:
                self._follow_transaction(position, header, batch)
        if self._deep:
            wrong = _wrong_records(header, batch)
            if wrong is not None:
                self._unreadable(position, header, wrong)
        state.next_offset = state.batch_end = header.next_offset
        self._offset_index.batch(position, header.base_offset)
        self._time_index.batch(header.base_offset, header.last_offset, header.max_timestamp)

    def _unreadable(self, position: int, header: BatchHeader, reason: str) -> None:
        """Report a batch that has its original bytes but cannot be read."""
        lost = DamagedRange(position, position + header.size, header.base_offset, header.next_offset)
        self.report.bad.append(BadPlace(lost, reason))

    def _follow_transaction(self, position: int, header: BatchHeader, batch: memoryview) -> None:
        transactions = self._state.open_transactions
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
                if not self._state.compacted:
                    stable = min([stable, *transactions.values()])
                self.report.aborted.append(AbortedTxn(header.producer_id, first, header.base_offset, stable))

    def other_format(self, position: int, header: BatchHeader, batch: memoryview, expected: int) -> int:
        """Check a message of format 0 or 1, or a wrapper, whose offset is its last message's.

        Raises:
            BadBatchError: there is none.
        """
        state = self._state
        last = header.base_offset
        reason = None
        is_old = 0 <= header.magic < MAGIC
        crc_is_right = is_old and has_old_crc(batch)
        if not crc_is_right and not (is_old and state.legacy is not None):
            raise BadBatchError(position, f"no batch header (magic {header.magic})")
        if not crc_is_right:
            reason = "the CRC is wrong"
        elif last < expected:
            reason = f"offset {last} where {expected} is next"
        elif self._deep:
            try:
                decode_message_set(batch, limit=_MAX_BATCH)
            except DecodeError as error:
                reason = str(error)
        state.legacy = header.magic
        state.batches += 1
        if reason is not None:
            lost = DamagedRange(position, position + header.size, expected, last + 1)
            self.report.bad.append(BadPlace(lost, reason))
            self._offset_index.hole(position, position + 1)
        else:
            self._offset_index.batch(position, expected)
        state.next_offset = max(last + 1, expected)
        self._time_index.bad_batch()
        return state.next_offset


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
