"""A survey of a segment: which bytes are good batches, and which are damaged.

A batch is good if its CRC-32C is right, and if the fields that the CRC does not cover fit the batches before
and after it:

    baseOffset      not below the end of the batch before; the batch after does not begin inside this one
    batchLength     no check is needed: a wrong length gives a wrong CRC
    leader epoch    between those of the batch before and the batch after
    magic           2

If two batches overlap, the one that begins where the batch before ended is right. Otherwise a single offset
that became too high would turn all batches after it into damage. Leader epochs rise along a log. But some
logs have other epochs out of order, so an epoch is checked only if those of its neighbours are in order.

After a bad batch the survey looks for the next good one: first at the end that the bad batch's length gives,
then at every byte. So the damage is no larger than the batches that were hit. If the length is right, a batch
inside the value of a record is not taken for a batch of the log. Offsets may be missing between two good
batches, because compaction removes them.

The memory used is one chunk, or the largest batch if that is larger.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kafkapy.protocol.crc import crc32c
from kafkapy.protocol.records import CRC_FROM, HEADER_SIZE, LENGTH_AT, LOG_OVERHEAD, MAGIC, MAGIC_AT
from kafkapy.storage.damage.damage import DamagedRange
from kafkapy.storage.disk.files import File, FileSystem
from kafkapy.storage.log.offset_index import MAX_RELATIVE_OFFSET

_CHUNK: Final = 128 << 10
_ONE_BATCH: Final = 4 << 10
_SEARCHED: Final = 1 << 20
_PER_BATCH: Final = 1024
"""To find a batch takes as long as to check so many bytes."""

_HEAD: Final = struct.Struct("!qiibI h i")
"""baseOffset, batchLength, partitionLeaderEpoch, magic, crc, attributes, lastOffsetDelta."""

_NO_EPOCH: Final = -1
_LEAST: Final = HEADER_SIZE - LOG_OVERHEAD


class Survey(NamedTuple):
    """The result of a survey of a part of a segment."""

    end: int
    """The position up to which it was checked; a batch or damage ends there."""
    end_offset: int
    """The least offset that may follow."""
    leader_epoch: int
    """The leader epoch of the last good batch."""
    damage: list[DamagedRange]
    reasons: list[str]
    """The fault of the first bad batch of each damaged range."""

    @property
    def reason(self) -> str:
        """The fault of the first bad batch, and its position; empty if there is none."""
        return f"{self.reasons[0]} at byte {self.damage[0].position}" if self.damage else ""


class _Batch(NamedTuple):
    position: int
    end: int
    base_offset: int
    end_offset: int
    leader_epoch: int


class _End(NamedTuple):
    """The known facts about the end of a segment."""

    position: int
    offset: int
    leader_epoch: int


def survey(
    files: FileSystem,
    file: File,
    start: int,
    size: int,
    *,
    base_offset: int,
    expected: int,
    end_offset: int,
    leader_epoch: int = _NO_EPOCH,
    enough: int = 1 << 62,
    end_is_known: bool = True,
    end_epoch: int = _NO_EPOCH,
) -> Survey:
    """Check a segment of `size` bytes from `start`, where a batch should begin, to its end.

    The check stops earlier at the end of a good batch if `enough` bytes were checked. A batch counts as at
    least _PER_BATCH bytes.

    Args:
        expected: the least offset that may be at `start`.
        end_offset: the segment once had records up to this offset. If the end is damaged, the damage extends
            to it.
        leader_epoch: the leader epoch before `start`, -1 if unknown.
        end_is_known: whether no batch has offsets at or above `end_offset`.
        end_epoch: the highest leader epoch below `end_offset`, -1 if unknown.

    Raises:
        OSError: the disk failed.
    """
    highest = base_offset + MAX_RELATIVE_OFFSET + 1
    if end_is_known:
        highest = min(highest, end_offset)
    file.acquire()
    try:
        batches = _Batches(files, file, size, base_offset, highest)
        end = _End(size, end_offset, end_epoch)
        return _survey(batches, start, end, expected, leader_epoch, enough)
    finally:
        file.release()


def _survey(
    batches: _Batches, start: int, end: _End, expected: int, leader_epoch: int, enough: int
) -> Survey:
    bad_from: int | None = None
    damage: list[DamagedRange] = []
    reasons: list[str] = []
    position, size = start, end.position
    batch = batches.at(position)
    while position < size:
        if batch is None:
            following, why = None, batches.reason
        else:
            following = batches.at(batch.end)
            why = _misfit(batch, expected, leader_epoch, following, end)
        if batch is not None and not why:
            if bad_from is not None:
                damage.append(DamagedRange(bad_from, position, expected, batch.base_offset))
                bad_from = None
            enough -= max(batch.end - position, _PER_BATCH)
            position, expected = batch.end, batch.end_offset
            leader_epoch = max(leader_epoch, batch.leader_epoch)
            batch = following
            if enough <= 0:
                break
            continue
        if bad_from is None:
            bad_from = position
            reasons.append(why)
        if batch is not None:
            position, batch = batch.end, following
        else:
            batch = batches.next_from(position)
            position = size if batch is None else batch.position
    if bad_from is not None:
        end_offset = max(end.offset, expected)
        damage.append(DamagedRange(bad_from, size, expected, end_offset))
        expected = end_offset
    return Survey(min(position, size), expected, leader_epoch, damage, reasons)


def _misfit(batch: _Batch, expected: int, leader_epoch: int, following: _Batch | None, end: _End) -> str:
    """Return what is wrong with the fields that the CRC does not cover; "" if nothing is."""
    if batch.base_offset < expected:
        return f"base offset {batch.base_offset}, but {expected} is the lowest possible"
    if expected < end.offset < batch.base_offset:
        return f"base offset {batch.base_offset}, but {end.offset} is the highest possible"
    epoch_after = _NO_EPOCH
    if following is not None:
        if batch.base_offset != expected <= following.base_offset < batch.end_offset:
            return f"base offset {batch.base_offset}, but the batch reaches above the next one's base offset"
        epoch_after = following.leader_epoch
    elif batch.end_offset <= end.offset:
        epoch_after = end.leader_epoch
    epoch = batch.leader_epoch
    in_order = 0 <= leader_epoch <= epoch_after
    if in_order and epoch != _NO_EPOCH and not leader_epoch <= epoch <= epoch_after:
        return f"leader epoch {epoch} between {leader_epoch} and {epoch_after}"
    return ""


def starts_at(files: FileSystem, file: File, position: int, size: int, base_offset: int, offset: int) -> bool:
    """Return whether a good batch begins at `position` with a base offset up to `offset`.

    The segment has `size` bytes and the base offset `base_offset`.
    """
    file.acquire()
    try:
        highest = base_offset + MAX_RELATIVE_OFFSET + 1
        batch = _Batches(files, file, size, base_offset, highest, _ONE_BATCH).at(position)
    finally:
        file.release()
    return batch is not None and batch.base_offset <= offset


class _Batches:
    """Reads batches of one file in chunks, and checks each without its neighbours."""

    def __init__(
        self,
        files: FileSystem,
        file: File,
        size: int,
        base_offset: int,
        end_offset: int,
        chunk: int = _CHUNK,
    ) -> None:
        self._files = files
        self._file = file
        self._size = size
        self._base_offset = base_offset
        self._end_offset = end_offset
        self._buffer = memoryview(bytearray(min(chunk, size)))
        self._filled = 0
        self._chunk_at = 0
        self.reason = ""
        """Why there was no good batch at the last position that was read."""

    def _load(self, position: int, nbytes: int) -> int:
        """Load `nbytes` bytes from `position` into the buffer; return where they are in it."""
        at = position - self._chunk_at
        if at < 0 or at + nbytes > self._filled:
            if nbytes > len(self._buffer):
                self._buffer = memoryview(bytearray(nbytes))
            self._filled = min(len(self._buffer), self._size - position)
            chunk = self._buffer[: self._filled]
            read = self._files.read_into(self._file, chunk, position)
            chunk[read:] = bytes(len(chunk) - read)
            self._chunk_at, at = position, 0
        return at

    def at(self, position: int) -> _Batch | None:
        """Return the good batch at `position`; if there is none, return None and set `reason`."""
        if position + _HEAD.size > self._size:
            self.reason = "the file ends inside a batch header"
            return None
        head = _HEAD.unpack_from(self._buffer, self._load(position, _HEAD.size))
        base_offset, length, epoch, magic, crc, _, delta = head
        end, end_offset = position + LOG_OVERHEAD + length, base_offset + delta + 1
        # The CRC is checked last: a search tries many positions where no batch begins.
        if magic != MAGIC:
            self.reason = f"unknown message format {magic}"
        elif length < _LEAST or end > self._size:
            self.reason = f"impossible batch length {length}"
        elif delta < 0 or not self._base_offset <= base_offset < end_offset <= self._end_offset:
            self.reason = f"impossible offsets {base_offset} to {end_offset - 1}"
        elif epoch < _NO_EPOCH:
            self.reason = f"impossible leader epoch {epoch}"
        else:
            at = self._load(position, end - position)
            if crc32c(self._buffer[at + CRC_FROM : at + end - position]) == crc:
                return _Batch(position, end, base_offset, end_offset, epoch)
            self.reason = "the CRC is wrong"
        return None

    def next_from(self, position: int) -> _Batch | None:
        """Return the first good batch after the bad one at `position`; None if there is none."""
        if position + LOG_OVERHEAD <= self._size:
            at = self._load(position, LOG_OVERHEAD) + LENGTH_AT
            length = int.from_bytes(self._buffer[at : at + 4], "big", signed=True)
            batch = self.at(position + LOG_OVERHEAD + length) if length > 0 else None
            if batch is not None:
                return batch
        position += 1
        while position + HEADER_SIZE <= self._size:
            nbytes = min(_SEARCHED, self._size - position)
            at = self._load(position, nbytes)
            piece = bytes(self._buffer[at : at + nbytes])
            found = piece.find(MAGIC, MAGIC_AT)
            while found >= 0:
                batch = self.at(position + found - MAGIC_AT)
                if batch is not None:
                    return batch
                found = piece.find(MAGIC, found + 1)
            position += max(nbytes - MAGIC_AT, 1)
        return None
