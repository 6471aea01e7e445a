"""Checks the framing of every record of a batch without decoding the records.

A batch must meet these conditions, so that no consumer fails on it. Each record uses exactly its declared
length. Varints have at most 5 or 10 bytes and no bits beyond 32 or 64. Timestamps fit in 64 bits. Offset
deltas are 0, 1, 2 …. Lengths are -1 (null) or more. Header keys are not null and are valid UTF-8. There are
as many records as the batch declares, and nothing after them. Record attributes are below 0x80: they are
unused, but kafka-python and aiokafka read them as a varint, so that greater values would shift everything
that follows.

This is stricter than Apache Kafka, which answers INVALID_RECORD for wrong lengths and counts, but stores
batches that clients read differently. It ignores the offset deltas of uncompressed batches, takes every
negative length for null, drops the surplus bits of varints and replaces invalid UTF-8 in header keys. If a
payload does not decompress, it answers UNKNOWN_SERVER_ERROR. Here all of these raise `InvalidRecordError` and
are answered with INVALID_RECORD, which clients do not retry. CORRUPT_MESSAGE, which they retry, is the answer
to a CRC that does not match.

Compressed payloads are streamed: a walker gets pieces, and keeps only its state between them. There
are two walkers. The compiled one (`_walker.c`) is used if it was built, unless KAFKAPY_PURE_PYTHON is set and
not empty in the environment. Tests hold that both agree on every input.

Source: Kafka's `LogValidator`, `DefaultRecord.readFrom`, `DefaultRecordBatch.RecordIterator`.
"""

from __future__ import annotations

import codecs
from collections.abc import Generator
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from kafkapy.protocol.compiled import compiled_twin
from kafkapy.protocol.compression import Buffer, DecompressedSizeError, decompress_chunks
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import HEADER_SIZE, MAGIC, NO_TIMESTAMP, BatchHeader, TimestampType, read_varint

MIN_RECORD_LENGTH = 6
"""One byte each: attributes, timestamp and offset delta, null key and value, header count."""

_TOO_MANY = "more records than the batch declares"
_TOO_SHORT = "shorter than a record can be"
_ATTRIBUTES = "attributes that some clients read as more than one byte"
_TIMESTAMP = "a timestamp out of range"
_OFFSET = "an offset that does not follow the one before it"
_NEGATIVE = "a negative length"
_BEYOND = "a field that goes beyond its end"
_HEADERS = "an impossible number of headers"
_HEADER_KEY = "a header key that is not UTF-8"
_TRAILING = "bytes after its last field"

_T = TypeVar("_T")
Waiting: TypeAlias = Generator[None, None, _T]


class InvalidRecordError(DecodeError):
    """A consumer could not read the records; `record_index` is the first bad one, or -1."""

    def __init__(self, message: str, record_index: int = -1) -> None:
        super().__init__(message)
        self.record_index = record_index


class BatchSummary(NamedTuple):
    """The result of a walk over the records of a batch; timestamps are in milliseconds."""

    record_count: int
    max_timestamp: int
    """The greatest timestamp, or NO_TIMESTAMP if no record has a greater one."""
    offset_of_max_timestamp: int
    """The offset delta of the first record with the max timestamp; -1 if that is NO_TIMESTAMP."""
    min_timestamp: int
    """The least timestamp of the records that have one, or NO_TIMESTAMP."""
    first_null_key: int
    """The index of the first record without a key, or -1."""


_summary_of = partial(tuple.__new__, BatchSummary)
"""As BatchSummary._make, without a call of Python code for each batch."""


def walk_batch(buffer: Buffer, position: int, header: BatchHeader, *, max_decompressed: int) -> BatchSummary:
    """Check every record of the batch at `position`.

    Args:
        header: the header of the batch; its CRC is not checked.
        max_decompressed: how many bytes the records may decompress to.

    Raises:
        InvalidRecordError: a record or the compressed payload is malformed.
        DecompressedSizeError: the records decompress to more bytes.
    """
    if header.magic != MAGIC:
        raise InvalidRecordError(f"message format {header.magic} is not supported")
    size = header.size
    payload = memoryview(buffer)[position + HEADER_SIZE : position + size]
    if len(payload) != size - HEADER_SIZE:
        raise InvalidRecordError(f"a batch of {size} bytes where {len(buffer) - position} are left")
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
    summary = _summary_of(walker.summary())
    if wrong is not None:
        raise InvalidRecordError(f"record {summary.record_count}: {wrong}", summary.record_count)
    if header.timestamp_type == TimestampType.LOG_APPEND_TIME:
        timestamp = header.max_timestamp
        return summary._replace(max_timestamp=timestamp, offset_of_max_timestamp=0, min_timestamp=timestamp)
    return summary


# --- the twins ----------------------------------------------------------------------------------------------


class RecordWalker(Protocol):
    """Takes the decompressed records of one batch in pieces of any size."""

    def __init__(self, base_timestamp: int, record_count: int, /) -> None: ...

    def feed(self, piece: Buffer, /) -> str | None:
        """Return what is wrong with the current record, or None.

        After an error the answer stays the same.
        """

    def finish(self, /) -> str | None:
        """Return, after the last piece, what is wrong with the batch, or None."""

    def summary(self) -> tuple[int, int, int, int, int]:
        """Return the fields of BatchSummary for the complete records so far."""


class PureWalker:
    """The walker in Python.

    Records within one piece take the fast path, `_walk_contained`. A record that spans pieces takes the
    generator `_walk_spanning`, which waits for the next piece wherever it needs it.
    """

    __slots__ = (
        "_base_timestamp",
        "_first_null_key",
        "_left",
        "_max_timestamp",
        "_max_timestamp_at",
        "_min_timestamp",
        "_piece",
        "_position",
        "_record_count",
        "_records",
        "_spanning",
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
        """How many bytes of the record in `_spanning` are left from `_position` on."""
        self._spanning: Waiting[None] | None = None
        """The record that began in an earlier piece and has not ended."""
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
            if self._spanning is not None:
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
            if self._spanning is not None:
                for _ in self._spanning:
                    return  # it waits for the next piece
                self._spanning = None
            self._walk_contained()
            if self._position == len(self._piece):
                return
            self._spanning = self._walk_spanning()

    def _walk_contained(self) -> None:
        """Walk over the records that are complete in this piece.

        This is a hot loop: most varints have one byte.
        """
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
                if length < MIN_RECORD_LENGTH:
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

                at = _walk_contained_headers(data, at, end) if data[at] else at + 1
                if at != end:
                    raise DecodeError(_TRAILING if at < end else _BEYOND)
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

    # --- a record in several pieces: each `yield` waits for the next piece, which is then in `_piece` -------

    def _walk_spanning(self) -> Waiting[None]:
        self._left = 2**31
        length = yield from self._varint(32)
        if self._records >= self._record_count:
            raise DecodeError(_TOO_MANY)
        if length < MIN_RECORD_LENGTH:
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
            raise DecodeError(_TRAILING)
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
        """Skip a nullable field, and return whether it is null."""
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
        """Return as many of the next `length` bytes as this piece has."""
        here = self._piece[self._position : self._position + length]
        self._position += len(here)
        self._left -= len(here)
        return here


def _walk_contained_headers(data: bytes, at: int, end: int) -> int:
    """Walk over the headers of a record that ends at `end`, and return their end."""
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


Walker: type[RecordWalker] = compiled_twin("kafkapy.protocol._walker", "Walker", PureWalker)
"""The walker that `walk_batch` uses."""
