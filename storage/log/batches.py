"""Walking the batches of a segment file, by their headers or in full.

The file is read in chunks: memory is bounded by the chunk, or by the largest batch where that is larger. Both
walks hold the file open, even if open_files.py closes it for its owner. They stop with `BadBatchError` at
bytes that cannot be a batch. The caller decides whether that is a torn tail or damage.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, crc_is_valid, read_header
from kafkapy.storage.disk.files import Buffer, File, FileSystem
from kafkapy.storage.log.offset_index import MAX_RELATIVE_OFFSET

_CHUNK = 1 << 20
"""The bytes that a walk over complete batches reads at once."""

_HEADERS_CHUNK = 4096
"""The bytes that a walk over headers reads at once.

With the default index interval, one read finds any offset.
"""

_PREFIX = struct.Struct("!qiib4xhiqq")
"""The fields of a batch header that a walk looks at.

They are baseOffset, batchLength, partitionLeaderEpoch, magic, (crc), attributes, lastOffsetDelta, base and
max timestamp.
"""

_MIN_LENGTH = HEADER_SIZE - LOG_OVERHEAD
_MIN_LEGACY_LENGTH = 14
"""The least length of a message of the old formats (LegacyRecord.RECORD_OVERHEAD_V0)."""


class BadBatchError(ValueError):
    """The bytes at `position` of the file cannot be a batch."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"{reason} at byte {position}")
        self.position = position
        self.reason = reason


class BatchPlace(NamedTuple):
    """The place of a batch in a segment file, and the main fields of its header."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    leader_epoch: int
    attributes: int


def reason_against(
    header: BatchHeader, buffer: Buffer, expected: int, base_offset: int, position: int = 0
) -> str | None:
    """Why the batch at `position` of the buffer cannot be a segment's next one; None if it can.

    Args:
        header: the header of the batch, of magic 2.
        expected: the offset after the previous batch. Compaction may leave a gap.
        base_offset: the base offset of the segment.
    """
    if not crc_is_valid(buffer, position, header):
        return "the CRC is wrong"
    if header.base_offset < expected or header.last_offset_delta < 0:
        return f"offsets {header.base_offset} to {header.last_offset} where {expected} is next"
    if header.last_offset - base_offset > MAX_RELATIVE_OFFSET:
        return f"offset {header.last_offset} is too far from the base offset"
    return None


def iter_places(files: FileSystem, file: File, start: int, end: int) -> Iterator[BatchPlace]:
    """The batches from byte `start`, where one begins, to byte `end`, by their headers alone.

    Raises:
        BadBatchError: a header is impossible, or `end` lies inside a batch.
    """
    position = chunk_start = start
    chunk = b""
    file.acquire()
    try:
        while position < end:
            at = position - chunk_start
            if at + _PREFIX.size > len(chunk):
                chunk = files.read_at(file, min(_HEADERS_CHUNK, end - position), position)
                chunk_start, at = position, 0
                if len(chunk) < _PREFIX.size:
                    raise BadBatchError(position, "the file ends inside a batch header")
            base_offset, length, leader_epoch, magic, attributes, delta, _, max_timestamp = (
                _PREFIX.unpack_from(chunk, at)
            )
            size = length + LOG_OVERHEAD
            if length < _MIN_LENGTH or magic != MAGIC or delta < 0:
                raise BadBatchError(position, f"no batch header (length {length}, magic {magic})")
            if size > end - position:
                raise BadBatchError(position, f"a batch of {size} bytes passes the end of the file")
            yield BatchPlace(
                position, size, base_offset, base_offset + delta, max_timestamp, leader_epoch, attributes
            )
            position += size
    finally:
        file.release()


def iter_batches(files: FileSystem, file: File, start: int, end: int) -> Iterator[tuple[int, memoryview]]:
    """Position and bytes of each batch from byte `start` to byte `end`.

    The bytes are valid until the next step.

    Raises:
        BadBatchError: a length is impossible, or `end` lies inside a batch. Nothing else is checked.
    """
    buffer = memoryview(bytearray(min(_CHUNK, max(end - start, 0))))
    position, filled, at = start, 0, 0
    file.acquire()
    try:
        while position < end:
            if filled - at < LOG_OVERHEAD:
                filled, at = files.read_into(file, buffer[: end - position], position), 0
                if filled < LOG_OVERHEAD:
                    raise BadBatchError(position, "the file ends inside a batch header")
            length = int.from_bytes(buffer[at + 8 : at + 12], "big", signed=True)
            size = length + LOG_OVERHEAD
            if length < _MIN_LEGACY_LENGTH:
                raise BadBatchError(position, f"no batch header (length {length})")
            if size > end - position:
                raise BadBatchError(position, f"a batch of {size} bytes passes the end of the file")
            if size > filled - at:
                if size > len(buffer):
                    buffer = memoryview(bytearray(size))
                filled, at = files.read_into(file, buffer[: end - position], position), 0
                if filled < size:
                    raise BadBatchError(position, "the file ends inside a batch")
            yield position, buffer[at : at + size]
            position += size
            at += size
    finally:
        file.release()


def is_unfinished(
    files: FileSystem, file: File, position: int, size: int, looked_at: int = sys.maxsize
) -> bool:
    """Whether a write or a crash may have left the bytes from `position` to `size` unfinished.

    The file ends inside a batch there, or has only zeros. If the first `looked_at` bytes are zeros, all count
    as zeros.
    """
    end = min(size, position + looked_at)
    head = files.read_at(file, min(_HEADERS_CHUNK, end - position), position)
    if not any(head):
        starts = range(position, end, _CHUNK)
        return not any(any(files.read_at(file, min(_CHUNK, end - start), start)) for start in starts)
    try:
        header = read_header(head)
    except DecodeError:
        return size - position < HEADER_SIZE
    return 0 <= header.magic <= MAGIC and header.size > size - position
