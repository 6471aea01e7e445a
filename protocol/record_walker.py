"""Checks the framing of every record of a batch without making records of them.

What a batch must be, for no consumer to fail on it: each record's declared length is exactly used up;
varints have at most 5 or 10 bytes and no bits beyond 32 or 64; timestamps fit in 64 bits; offset deltas are
0, 1, 2 …; lengths are -1 (null) or more; header keys are not null and are valid UTF-8; there are as many
records as the batch declares, and nothing behind them. Record attributes are unused, yet kafka-python and
aiokafka read them as a varint, so that 0x80 and above would shift all that follows.

This is stricter than Apache Kafka, which answers INVALID_RECORD for wrong lengths and counts, but stores
what clients read differently: it ignores the offset deltas of uncompressed batches, takes every negative
length for null, drops the surplus bits of varints and replaces invalid UTF-8 in header keys. To a payload
that does not decompress it answers UNKNOWN_SERVER_ERROR. Here all of it is `InvalidRecordError`, for
INVALID_RECORD, which clients do not retry; CORRUPT_MESSAGE, which they do, is for a CRC that does not
match.

Compressed payloads stream through: a walker is fed pieces, and keeps between them only where it stands. Of
the two twins the compiled one (`_walker.c`) is taken if it was built; a KAFKAPY_PURE_PYTHON in the
environment that is not empty chooses the other. They agree on every input, and the tests hold them to it.

Source: Kafka's `LogValidator`, `DefaultRecord.readFrom`, `DefaultRecordBatch.RecordIterator`.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Generator
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from kafkapy.protocol.compression import Buffer, DecompressedSizeError, decompress_chunks
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import HEADER_SIZE, MAGIC, NO_TIMESTAMP, BatchHeader, TimestampType, read_varint

_MIN_RECORD_LENGTH = 6
"""Attributes, timestamp delta, offset delta, null key, null value, header count: one byte each."""

_TOO_MANY = "more records than the batch declares"
_TOO_SHORT = "shorter than a record can be"
_ATTRIBUTES = "attributes that some clients read as more than one byte"
_TIMESTAMP = "a timestamp out of range"
_OFFSET = "an offset that does not follow the one before it"
_NEGATIVE = "a negative length"
_BEYOND = "a field that goes beyond its end"
_HEADERS = "an impossible number of headers"
_HEADER_KEY = "a header key that is not UTF-8"
_BEHIND = "bytes behind its last field"

_T = TypeVar("_T")
Waiting: TypeAlias = Generator[None, None, _T]


class InvalidRecordError(DecodeError):
    """A batch whose records a consumer could not read. `record_index`: the first bad one, -1 if unknown."""

    def __init__(self, message: str, record_index: int = -1) -> None:
        super().__init__(message)
        self.record_index = record_index


class BatchSummary(NamedTuple):
    """What a walk over a batch's records found. Timestamps are milliseconds."""

    record_count: int
    max_timestamp: int
    """NO_TIMESTAMP if no record has a greater one."""
    offset_of_max_timestamp: int
    """Offset delta of the first record with the max timestamp, -1 if that is NO_TIMESTAMP."""
    min_timestamp: int
    """Of the records that have one; NO_TIMESTAMP if none has."""
    first_null_key: int
    """Index of the first record without a key, or -1."""

    @property
    def null_key(self) -> bool:
        return self.first_null_key >= 0


def walk_batch(buffer: Buffer, position: int, header: BatchHeader, *, max_decompressed: int) -> BatchSummary:
    """Check every record of the batch at `position`.

    Args:
        header: the batch's. Its CRC is not looked at.
        max_decompressed: the most bytes to which the records may decompress.

    Raises:
        InvalidRecordError: the records, or the compressed payload.
        DecompressedSizeError: the limit is exceeded.
    """
    if header.magic != MAGIC:
        raise InvalidRecordError(f"message format {header.magic} is not supported")
    payload = memoryview(buffer)[position + HEADER_SIZE : position + header.size]
    if len(payload) != header.size - HEADER_SIZE:
        raise InvalidRecordError(f"a batch of {header.size} bytes where {len(buffer) - position} are left")
    walker = Walker(header.base_timestamp, header.record_count)
    try:
        codec = header.compression
        if codec:
            for piece in decompress_chunks(codec, payload, limit=max_decompressed):
                if walker.feed(piece) is not None:
                    break
        else:
            walker.feed(payload)
    except DecompressedSizeError:
        raise
    except DecodeError as error:
        raise InvalidRecordError(str(error)) from None
    wrong = walker.finish()
    summary = BatchSummary._make(walker.summary())
    if wrong is not None:
        raise InvalidRecordError(f"record {summary.record_count}: {wrong}", summary.record_count)
    if header.timestamp_type == TimestampType.LOG_APPEND_TIME:
        timestamp = header.max_timestamp
        return summary._replace(max_timestamp=timestamp, offset_of_max_timestamp=0, min_timestamp=timestamp)
    return summary


# --- the twins ----------------------------------------------------------------------------------------------


class RecordWalker(Protocol):
    """Is fed the decompressed records of one batch in pieces of any size."""

    def __init__(self, base_timestamp: int, record_count: int, /) -> None: ...

    def feed(self, piece: Buffer, /) -> str | None:
        """What is wrong with the record that it came to, or None. From then on the answer stays the same."""

    def finish(self, /) -> str | None:
        """After the last piece: what is wrong with the end of the batch, or with what came before it."""

    def summary(self) -> tuple[int, int, int, int, int]:
        """The fields of BatchSummary: of the whole records so far, as the batch's header has it."""


class PureWalker:
    """The twin in Python.

    Records that lie in one piece take the fast path, `_walk_whole`. One that a piece cuts through is walked
    by the generator `_walk_cut`, which waits for the next piece wherever it needs it.
    """

    __slots__ = (
        "_base_timestamp",
        "_cut",
        "_first_null_key",
        "_left",
        "_max_timestamp",
        "_max_timestamp_at",
        "_min_timestamp",
        "_piece",
        "_position",
        "_record_count",
        "_records",
        "_wrong",
    )

    def __init__(self, base_timestamp: int, record_count: int, /) -> None:
        self._base_timestamp = base_timestamp
        self._record_count = record_count
        self._records = 0
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_at = -1
        self._min_timestamp = NO_TIMESTAMP
        self._first_null_key = -1
        self._piece = b""
        self._position = 0
        self._left = 0
        """Bytes of the record in `_cut` from `_position` on."""
        self._cut: Waiting[None] | None = None
        """The record that the last piece cut through."""
        self._wrong: str | None = None

    def feed(self, piece: Buffer, /) -> str | None:
        if self._wrong is None:
            self._piece = bytes(piece)
            self._position = 0
            try:
                self._walk()
            except DecodeError as error:
                self._wrong = str(error)
            self._piece = b""
        return self._wrong

    def finish(self) -> str | None:
        if self._wrong is None:
            if self._cut is not None:
                self._wrong = "cut short by the end of the batch"
            elif self._records != self._record_count:
                self._wrong = "missing"
        return self._wrong

    def summary(self) -> tuple[int, int, int, int, int]:
        return (
            self._records,
            self._max_timestamp,
            self._max_timestamp_at,
            self._min_timestamp,
            self._first_null_key,
        )

    def _walk(self) -> None:
        while True:
            if self._cut is not None:
                for _ in self._cut:
                    return  # it wants the next piece
                self._cut = None
            self._walk_whole()
            if self._position == len(self._piece):
                return
            self._cut = self._walk_cut()

    def _walk_whole(self) -> None:
        """Walk over the records that lie whole in this piece. A hot loop: most varints have one byte."""
        data = self._piece
        size = len(data)
        at = self._position
        index = self._records
        base = self._base_timestamp
        oldest, newest = self._min_timestamp, self._max_timestamp
        try:
            while True:
                try:
                    length = data[at]
                    if length < 0x80:
                        length = length >> 1 ^ -(length & 1)
                        start = at + 1
                    else:
                        length, start = read_varint(data, at, 32)
                except IndexError:
                    return
                end = start + length
                if end > size:
                    return
                if index >= self._record_count:
                    raise DecodeError(_TOO_MANY)
                if length < _MIN_RECORD_LENGTH:
                    raise DecodeError(_TOO_SHORT)
                if data[start] >= 0x80:
                    raise DecodeError(_ATTRIBUTES)

                value = data[start + 1]
                if value < 0x80:
                    value = value >> 1 ^ -(value & 1)
                    at = start + 2
                else:
                    value, at = read_varint(data, start + 1, 64)
                value += base
                if value > newest or value < oldest:
                    self._note_timestamp(value, index)
                    oldest, newest = self._min_timestamp, self._max_timestamp

                if data[at] == index << 1 & 0x7F | 0x80 and data[at + 1] == index >> 6 < 0x80:
                    at += 2
                else:
                    value, at = read_varint(data, at, 32)
                    if value != index:
                        raise DecodeError(_OFFSET)

                value = data[at]
                if value < 0x80:
                    value = value >> 1 ^ -(value & 1)
                    at += 1
                else:
                    value, at = read_varint(data, at, 32)
                if value >= 0:
                    at += value
                elif value < -1:
                    raise DecodeError(_NEGATIVE)
                elif self._first_null_key == -1:
                    self._first_null_key = index

                value = data[at]
                if value < 0x80:
                    value = value >> 1 ^ -(value & 1)
                    at += 1
                else:
                    value, at = read_varint(data, at, 32)
                if value >= 0:
                    at += value
                elif value < -1:
                    raise DecodeError(_NEGATIVE)

                at = _walk_whole_headers(data, at, end) if data[at] else at + 1
                if at != end:
                    raise DecodeError(_BEHIND if at < end else _BEYOND)
                index += 1
        except IndexError:
            raise DecodeError(_BEYOND) from None
        finally:
            self._position = at
            self._records = index

    def _note_timestamp(self, timestamp: int, index: int) -> None:
        if not -(2**63) <= timestamp < 2**63:
            raise DecodeError(_TIMESTAMP)
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
            self._max_timestamp_at = index
        if timestamp != NO_TIMESTAMP and (
            self._min_timestamp == NO_TIMESTAMP or timestamp < self._min_timestamp
        ):
            self._min_timestamp = timestamp

    # --- a record in several pieces: each `yield` waits for the next one, which then is `_piece` from 0 on --

    def _walk_cut(self) -> Waiting[None]:
        self._left = 2**31
        length = yield from self._varint(32)
        if self._records >= self._record_count:
            raise DecodeError(_TOO_MANY)
        if length < _MIN_RECORD_LENGTH:
            raise DecodeError(_TOO_SHORT)
        self._left = length
        if (yield from self._byte()) >= 0x80:
            raise DecodeError(_ATTRIBUTES)
        self._note_timestamp(self._base_timestamp + (yield from self._varint(64)), self._records)
        if (yield from self._varint(32)) != self._records:
            raise DecodeError(_OFFSET)
        is_null = yield from self._field()
        if is_null and self._first_null_key == -1:
            self._first_null_key = self._records
        yield from self._field()
        headers = yield from self._varint(32)
        if not 0 <= headers <= self._left // 2:
            raise DecodeError(_HEADERS)
        for _ in range(headers):
            yield from self._header_key()
            yield from self._field()
        if self._left:
            raise DecodeError(_BEHIND)
        self._records += 1

    def _byte(self) -> Waiting[int]:
        while self._position == len(self._piece):
            yield
        byte = self._piece[self._position]
        self._position += 1
        self._left -= 1
        return byte

    def _varint(self, bits: int) -> Waiting[int]:
        while True:
            try:
                value, end = read_varint(self._piece, self._position, bits)
            except IndexError:
                rest = self._piece[self._position :]
                if len(rest) >= self._left:
                    raise DecodeError(_BEYOND) from None
                yield
                self._piece = rest + self._piece
            else:
                self._left -= end - self._position
                self._position = end
                if self._left < 0:
                    raise DecodeError(_BEYOND)
                return value

    def _field(self) -> Waiting[bool]:
        """Skip a nullable field; whether it is null."""
        length = yield from self._varint(32)
        if length < -1:
            raise DecodeError(_NEGATIVE)
        if length > self._left:
            raise DecodeError(_BEYOND)
        while length > 0:
            here = self._take(length)
            length -= len(here)
            if length:
                yield
        return length < 0

    def _header_key(self) -> Waiting[None]:
        length = yield from self._varint(32)
        if length < 0:
            raise DecodeError(_NEGATIVE)
        if length > self._left:
            raise DecodeError(_BEYOND)
        decoder = codecs.getincrementaldecoder("utf-8")()
        while True:
            here = self._take(length)
            length -= len(here)
            try:
                decoder.decode(here, final=not length)
            except UnicodeDecodeError:
                raise DecodeError(_HEADER_KEY) from None
            if not length:
                return
            yield

    def _take(self, length: int) -> bytes:
        """As many as there are of the next `length` bytes."""
        here = self._piece[self._position : self._position + length]
        self._position += len(here)
        self._left -= len(here)
        return here


def _walk_whole_headers(data: bytes, at: int, end: int) -> int:
    """Walk over the headers of a record that ends at `end`; where they end."""
    count, at = read_varint(data, at, 32)
    if not 0 <= count <= (end - at) // 2:
        raise DecodeError(_HEADERS)
    for _ in range(count):
        length, at = read_varint(data, at, 32)
        if length < 0:
            raise DecodeError(_NEGATIVE)
        if length > end - at:
            raise DecodeError(_BEYOND)
        try:
            data[at : at + length].decode()
        except UnicodeDecodeError:
            raise DecodeError(_HEADER_KEY) from None
        length, at = read_varint(data, at + length, 32)
        if length < -1:
            raise DecodeError(_NEGATIVE)
        if length > 0:
            at += length
        if at > end:
            raise DecodeError(_BEYOND)
    return at


def _choose_walker() -> type[RecordWalker]:
    if not os.environ.get("KAFKAPY_PURE_PYTHON"):
        try:
            from kafkapy.protocol._walker import Walker as CompiledWalker
        except ImportError:
            pass
        else:
            return CompiledWalker
    return PureWalker


Walker: type[RecordWalker] = _choose_walker()
"""The twin that `walk_batch` uses."""
