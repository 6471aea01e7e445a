"""A survey of a segment: which bytes are batches, and which are damage.

It looks at the batches as if for the first time. A batch is good when its CRC-32C is right and what the CRC
does not cover fits the batches around it:

    baseOffset      not below the end of the batch before; the batch after does not begin within this one
    batchLength     a wrong one gives a wrong CRC
    leader epoch    between those of the batch before and of the batch after
    magic           2

After a bad batch the next good one is looked for: where the bad one's length says it is, else at every byte.
So damage is as small as the batches that it hit. Offsets may be missing between two good batches: compaction
removes them.

Memory is bounded by the chunk, or by the largest batch if that is larger.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from kafkapy.protocol.records import HEADER_SIZE, LOG_OVERHEAD, MAGIC
from kafkapy.storage.damage.damage import DamagedRange
from kafkapy.storage.disk.files import File, FileSystem
from kafkapy.storage.log.offset_index import MAX_RELATIVE_OFFSET

_CHUNK: Final = 128 << 10
_ONE_BATCH: Final = 4 << 10
_SEARCHED: Final = 1 << 20
_PER_BATCH: Final = 1024
"""The bytes that can be checked in the time that finding a batch takes."""

_HEAD: Final = struct.Struct("!qiibI h i")
"""baseOffset, batchLength, partitionLeaderEpoch, magic, crc, attributes, lastOffsetDelta."""

_CRC_FROM: Final = 21
"""The CRC covers a batch from here, the attributes, to its end."""

_MAGIC_AT: Final = 16
_NO_EPOCH: Final = -1
_LEAST: Final = HEADER_SIZE - LOG_OVERHEAD


class Survey(NamedTuple):
    """What was found in a part of a segment."""

    end: int
    """The position up to which it was checked, after a batch or damage."""
    end_offset: int
    """The least offset that comes there."""
    leader_epoch: int
    """The leader epoch of the last good batch."""
    damage: list[DamagedRange]
    reason: str
    """What is wrong with the first bad batch."""


class _Seen(NamedTuple):
    position: int
    end: int
    base_offset: int
    end_offset: int
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
    leader_epoch: int = -1,
    enough: int = 1 << 62,
    end_is_known: bool = True,
    sure_to: int = -1,
    end_epoch: int = -1,
) -> Survey:
    """Check a segment of `size` bytes from `start`, where a batch should begin, to its end.

    The check stops earlier once `enough` bytes are known and the last of them is good. A batch counts as at
    least _PER_BATCH bytes.

    Args:
        expected: the least offset that may lie at `start`.
        leader_epoch: the leader epoch before that, -1 if unknown.
        end_is_known: no batch reaches above `end_offset`.
        sure_to: everything below this offset was written once, -1 for `end_offset`.
        end_epoch: the highest leader epoch of a last batch below that, -1 if unknown.
        end_offset: the offset after the segment; what is lost at its end reaches up to there.

    Raises:
        OSError: the disk failed.
    """
    file.acquire()
    try:
        highest = end_offset if end_is_known else base_offset + MAX_RELATIVE_OFFSET + 1
        look = _Look(files, file, size, base_offset, highest)
        look.sure_to, look.end_epoch = end_offset if sure_to < 0 else sure_to, end_epoch
        return _survey(look, start, size, expected, end_offset, leader_epoch, enough)
    finally:
        file.release()


def _survey(
    look: _Look, start: int, size: int, expected: int, end_offset: int, leader_epoch: int, enough: int
) -> Survey:
    start, expected, leader_epoch, enough = look.run(start, expected, leader_epoch, enough)
    bad_from: int | None = None
    damage: list[DamagedRange] = []
    reason = ""
    position, left = start, enough
    batch, why = look.at(position) if position < size else (None, "")
    while position < size:
        following: _Seen | None = None
        why_not = ""
        if batch is not None:
            if batch.end < size:
                following, why_not = look.at(batch.end)
            why = look.against(batch, leader_epoch, following, expected)
        if batch is not None and not why:
            if bad_from is not None:
                damage.append(DamagedRange(bad_from, position, expected, batch.base_offset))
                bad_from = None
            left -= max(batch.end - position, _PER_BATCH)
            position, expected, leader_epoch = (
                batch.end,
                batch.end_offset,
                max(leader_epoch, batch.leader_epoch),
            )
            if left <= 0:
                break
            batch, why = following, why_not
            continue
        reason = reason or f"{why} at byte {position}"
        if bad_from is None:
            bad_from = position
        if batch is not None:
            position, batch, why = batch.end, following, why_not
        else:
            batch = look.next_from(position, expected)
            position, why = (size, "") if batch is None else (batch.position, "")
    if bad_from is not None:
        damage.append(DamagedRange(bad_from, size, expected, max(end_offset, expected)))
        expected = max(end_offset, expected)
    return Survey(min(position, size), expected, leader_epoch, damage, reason)


def starts_at(files: FileSystem, file: File, position: int, size: int, base_offset: int, offset: int) -> bool:
    """Whether a good batch begins at `position` of a segment, at or below `offset`.

    The segment has `size` bytes.
    """
    file.acquire()
    try:
        highest = base_offset + MAX_RELATIVE_OFFSET + 1
        look = _Look(files, file, size, base_offset, highest, _ONE_BATCH)
        batch, _ = look.at(position)
    finally:
        file.release()
    return batch is not None and batch.base_offset <= offset


class _Look:
    """Reads batches of one file, in chunks."""

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
        self.sure_to = end_offset
        self.end_epoch = _NO_EPOCH
        self._buffer = memoryview(bytearray(min(chunk, size)))
        self._filled = 0
        self._chunk_at = 0

    def _bytes(self, position: int, nbytes: int) -> memoryview:
        """`nbytes` bytes from `position`, or fewer at the end of the file.

        They are valid until the next call.
        """
        at = position - self._chunk_at
        if at < 0 or at + nbytes > self._filled:
            if nbytes > len(self._buffer):
                self._buffer = memoryview(bytearray(nbytes))
            wanted = min(len(self._buffer), self._size - position)
            self._filled = self._files.read_into(self._file, self._buffer[:wanted], position)
            self._chunk_at, at = position, 0
        return self._buffer[at : min(at + nbytes, self._filled)]

    def run(self, position: int, expected: int, epoch: int, enough: int) -> tuple[int, int, int, int]:
        """Pass good batches as long as nothing looks wrong: the fast twin of `at` and `against`.

        Returns where those go on, just before the last batch that was passed. That batch may be the one that
        is wrong when the next one looks wrong.
        """
        before = position, expected, epoch, enough
        while position < self._size and enough > 0:
            head = self._bytes(position, _HEAD.size)
            if len(head) < _HEAD.size:
                break
            base_offset, length, its_epoch, magic, crc, _, delta = _HEAD.unpack(head)
            end_offset = base_offset + delta + 1
            if (
                magic != MAGIC
                or length < _LEAST
                or position + LOG_OVERHEAD + length > self._size
                or base_offset < expected
                or expected < self.sure_to < base_offset
                or its_epoch < epoch
                or delta < 0
                or end_offset > self._end_offset
                or end_offset - self._base_offset > MAX_RELATIVE_OFFSET
                or crc32c(self._bytes(position, LOG_OVERHEAD + length)[_CRC_FROM:]) != crc
            ):
                break
            before = position, expected, epoch, enough
            position += LOG_OVERHEAD + length
            enough -= max(LOG_OVERHEAD + length, _PER_BATCH)
            expected, epoch = end_offset, its_epoch
        return before

    def at(self, position: int) -> tuple[_Seen | None, str]:
        """The batch at `position` as far as it can be judged alone, or why there is none."""
        if not 0 <= position < self._size:
            return None, "outside of the file"
        head = self._bytes(position, _HEAD.size)
        if len(head) < _HEAD.size:
            return None, "the file ends inside a batch header"
        base_offset, length, epoch, magic, crc, _, delta = _HEAD.unpack(head)
        end = position + LOG_OVERHEAD + length
        if magic != MAGIC:
            return None, f"message format {magic}"
        if length < _LEAST or end > self._size:
            return None, f"a batch of {length} bytes"
        batch = self._bytes(position, end - position)
        if len(batch) < end - position or crc32c(batch[_CRC_FROM:]) != crc:
            return None, "the CRC is wrong"
        if epoch < _NO_EPOCH:
            return None, f"leader epoch {epoch}"
        last_offset = base_offset + delta
        if base_offset < self._base_offset or delta < 0 or last_offset >= self._end_offset:
            return None, f"offsets {base_offset} to {last_offset}"
        if last_offset - self._base_offset > MAX_RELATIVE_OFFSET:
            return None, f"offset {last_offset} is too far from the base offset"
        return _Seen(position, end, base_offset, last_offset + 1, epoch), ""

    def against(self, batch: _Seen, known_epoch: int, following: _Seen | None, expected: int) -> str:
        """What is wrong with the fields of a batch that its CRC does not cover; "" if nothing."""
        if batch.base_offset < expected:
            return f"offset {batch.base_offset} where {expected} is next"
        if expected < self.sure_to < batch.base_offset:
            return f"offset {batch.base_offset} where {self.sure_to} is next at most"
        if following is not None:
            # Of two that overlap, the one that goes on where the batch before ended is right.
            if batch.base_offset != expected <= following.base_offset < batch.end_offset:
                return f"offset {batch.base_offset}, and {following.base_offset} follows"
            return self._epoch_against(batch.leader_epoch, known_epoch, following.leader_epoch)
        if batch.end == self._size and batch.end_offset <= self.sure_to:
            return self._epoch_against(batch.leader_epoch, known_epoch, self.end_epoch)
        return ""

    def _epoch_against(self, epoch: int, before: int, behind: int) -> str:
        """A leader epoch that is not between its neighbours', if those are in order.

        Epochs rise. But a directory may have been through anything, so neighbours that fall prove nothing.
        """
        if _NO_EPOCH not in (before, epoch) and before <= behind and not before <= epoch <= behind:
            return f"leader epoch {epoch} between {before} and {behind}"
        return ""

    def next_from(self, position: int, expected: int) -> _Seen | None:
        """The first batch after the bad one at `position`; None if there is none."""
        head = self._bytes(position, LOG_OVERHEAD)
        if len(head) == LOG_OVERHEAD:
            behind = position + LOG_OVERHEAD + int.from_bytes(head[8:12], "big", signed=True)
            if position < behind < self._size:
                batch, _ = self.at(behind)
                if batch is not None and batch.base_offset >= expected:
                    return batch
        position += 1
        while position + HEADER_SIZE <= self._size:
            piece = bytes(self._bytes(position, min(_SEARCHED, self._size - position)))
            found = piece.find(MAGIC, _MAGIC_AT)
            while found >= 0:
                candidate = position + found - _MAGIC_AT
                batch, _ = self.at(candidate)
                if batch is not None and batch.base_offset >= expected:
                    return batch
                found = piece.find(MAGIC, found + 1)
            position += max(len(piece) - _MAGIC_AT, 1)
        return None
