"""Decodes records to columns: positions of keys and values, and the other fields.

The format is described in `protocol/records.py`. Only the lengths of the records of a batch must be followed
one by one (record_starts.py). Every other varint is decoded field by field, for all records of all batches at
once (varints.py). Keys and values are not copied: the columns have their positions in `data`, which is the
buffer that was read from the file, or the joined decompressed records if a batch is compressed.

`decode_columns` is the fast twin of `protocol.records.decode_records` and equals it on every input. The fast
path leaves what it does not expect (a length that contradicts another, a timestamp beyond 64 bits, a record
with very many headers) to the slow path, which decodes it or says what is wrong. Only header keys are checked
to be UTF-8 later (arrow_columns.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kafkapy.log import record_starts
from kafkapy.log.record_filter import ALL_NUMBERS, Interval, RecordFilter
from kafkapy.log.varints import Bytes, Integers, OddRecordsError, read_varints
from kafkapy.protocol.compression import Buffer, decompress
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import (
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    Record,
    TimestampType,
    decode_records,
)

MAX_DECOMPRESSED = 1 << 30
"""How many bytes one batch may decompress to: Arrow's offsets have 31 bits."""

_MIN_RECORD_SIZE = 7
_MANY_HEADERS = 64
"""The most headers of the fast path, which takes a round over the records for each."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Byte fields in `data`: where each begins, and its length, which is -1 for null."""

    at: Integers
    lengths: Integers

    def equal_to_any(self, data: Buffer, contents: Iterable[bytes]) -> npt.NDArray[np.bool_]:
        """Return which of the fields are one of the contents."""
        octets = np.frombuffer(data, np.uint8)
        found = np.zeros(len(self.at), np.bool_)
        for content in contents:
            same = np.flatnonzero(self.lengths == len(content))
            for index in reversed(range(len(content))):  # the ends of keys differ most often
                same = same[octets[self.at[same] + index] == content[index]]
            found[same] = True
        return found


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Records in log order, with timestamps in milliseconds and headers record by record."""

    data: Buffer
    offsets: Integers
    timestamps: Integers
    timestamp_types: npt.NDArray[np.int32]
    keys: Fields
    values: Fields
    header_counts: Integers
    header_keys: Fields
    header_values: Fields

    def __len__(self) -> int:
        return len(self.offsets)

    def between(self, start: int, end: int) -> RecordColumns:
        """Return the records with offsets from `start` to `end`, exclusive."""
        return self.where((self.offsets >= start) & (self.offsets < end))

    def as_wanted(self, only: RecordFilter) -> RecordColumns:
        """Return the records that a filter wants, apart from their offsets."""
        wanted = are_within(self.timestamps, only.timestamps)
        if only.keys is not None:
            wanted &= self.keys.equal_to_any(self.data, only.keys)
        return self.where(wanted)

    def where(self, wanted: npt.NDArray[np.bool_]) -> RecordColumns:
        """Return the records that are `wanted`."""
        if wanted.all():
            return self
        headers = np.repeat(wanted, self.header_counts)
        return replace(
            self,
            offsets=self.offsets[wanted],
            timestamps=self.timestamps[wanted],
            timestamp_types=self.timestamp_types[wanted],
            keys=Fields(self.keys.at[wanted], self.keys.lengths[wanted]),
            values=Fields(self.values.at[wanted], self.values.lengths[wanted]),
            header_counts=self.header_counts[wanted],
            header_keys=Fields(self.header_keys.at[headers], self.header_keys.lengths[headers]),
            header_values=Fields(self.header_values.at[headers], self.header_values.lengths[headers]),
        )


def are_within(numbers: Integers, interval: Interval) -> npt.NDArray[np.bool_]:
    """Return which of the numbers are in an interval."""
    within = np.ones(len(numbers), np.bool_)
    if interval.first is not None:
        within &= numbers >= interval.first
    if interval.last is not None:
        within &= numbers <= interval.last
    return within


def decode_columns(
    buffer: Buffer, batches: Sequence[tuple[int, BatchHeader]], times: Interval = ALL_NUMBERS
) -> RecordColumns:
    """Decode the records of batches, each given by position in `buffer` and header.

    There must be at least one batch. Records whose timestamps are not among the `times` may be left out. The
    columns may refer to `buffer`: use them before it changes. The CRCs are not checked.

    Raises:
        DecodeError: a consumer could not read the records.
    """
    try:
        data, regions = _payloads(buffer, batches)
        return _decode(data, regions, [header for _, header in batches], times)
    except OddRecordsError:
        return _decode_slowly(buffer, batches)


# --- the fast twin ------------------------------------------------------------------------------------------


def _payloads(
    buffer: Buffer, batches: Sequence[tuple[int, BatchHeader]]
) -> tuple[Buffer, list[tuple[int, int]]]:
    """Return a buffer with all records, and where those of each batch begin and end in it."""
    regions = [(at + HEADER_SIZE, at + header.size) for at, header in batches]
    if any(header.magic != MAGIC for _, header in batches) or regions[-1][1] > len(buffer):
        raise OddRecordsError("another message format, or a torn batch")
    codecs = [header.compression for _, header in batches]
    if not any(codecs):
        return buffer, regions
    view = memoryview(buffer)
    pieces: list[Buffer] = []
    placed = []
    end = 0
    for codec, (first, last) in zip(codecs, regions, strict=True):
        payload = view[first:last]
        piece = decompress(codec, payload, limit=MAX_DECOMPRESSED) if codec else payload
        pieces.append(piece)
        placed.append((end, end + len(piece)))
        end += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces), placed


def _decode(
    data: Buffer, regions: list[tuple[int, int]], headers: list[BatchHeader], times: Interval
) -> RecordColumns:
    octets = np.frombuffer(data, np.uint8)
    counts = np.array([header.record_count for header in headers], np.int64)
    lengths, at = read_varints(octets, _starts(data, regions, headers), 32)
    ends = at + lengths

    deltas, at = read_varints(octets, at + 1, 64)
    base = np.repeat(np.array([header.base_timestamp for header in headers], np.int64), counts)
    timestamps = base + deltas
    if ((timestamps < base) != (deltas < 0)).any():
        raise OddRecordsError("a timestamp out of range")
    types = np.repeat(np.array([header.timestamp_type for header in headers], np.int32), counts)
    if types.any():
        append_times = np.repeat(np.array([header.max_timestamp for header in headers], np.int64), counts)
        timestamps = np.where(types == TimestampType.LOG_APPEND_TIME, append_times, timestamps)

    first_offsets = np.repeat(np.array([header.base_offset for header in headers], np.int64), counts)
    if times.is_bounded:  # the rest of the others is not looked at
        wanted = are_within(timestamps, times)
        at, ends, first_offsets = at[wanted], ends[wanted], first_offsets[wanted]
        timestamps, types = timestamps[wanted], types[wanted]

    deltas, at = read_varints(octets, at, 32)
    offsets = first_offsets + deltas
    keys, at = _read_fields(octets, at)
    values, at = _read_fields(octets, at)
    header_counts, at = read_varints(octets, at, 32)
    if header_counts.any():
        header_keys, header_values, at = _read_headers(octets, at, header_counts)
    else:
        header_keys = header_values = Fields(at[:0], at[:0])
    if (at != ends).any():
        raise OddRecordsError("a record does not end where it declares")
    return RecordColumns(
        data=data,
        offsets=offsets,
        timestamps=timestamps,
        timestamp_types=types,
        keys=keys,
        values=values,
        header_counts=header_counts,
        header_keys=header_keys,
        header_values=header_values,
    )


def _starts(data: Buffer, regions: list[tuple[int, int]], headers: list[BatchHeader]) -> Integers:
    """Return the position of each record's length."""
    counts = [header.record_count for header in headers]
    if any(
        not 0 <= n <= (end - at) // _MIN_RECORD_SIZE for n, (at, end) in zip(counts, regions, strict=True)
    ):
        raise OddRecordsError("an impossible number of records")
    starts = np.empty(sum(counts), np.int64)
    slot = 0
    for count, (at, end) in zip(counts, regions, strict=True):
        if not record_starts.follow_lengths(data, at, end, count, starts[slot : slot + count]):
            raise OddRecordsError("the records do not end where their batch does")
        slot += count
    return starts


def _read_fields(data: Bytes, at: Integers) -> tuple[Fields, Integers]:
    lengths, at = read_varints(data, at, 32)
    if (lengths < -1).any():
        raise OddRecordsError("a negative length")
    return Fields(at, lengths), at + np.maximum(lengths, 0)


def _read_headers(data: Bytes, at: Integers, counts: Integers) -> tuple[Fields, Fields, Integers]:
    """Read the headers that begin at `at`, in rounds: the first header of each record, then …"""
    most = int(counts.max())
    if most > _MANY_HEADERS or counts.min() < 0:
        raise OddRecordsError("very many headers, or a negative number of them")
    slots = np.cumsum(counts) - counts
    total = int(counts.sum())
    keys = Fields(np.zeros(total, np.int64), np.zeros(total, np.int64))
    values = Fields(np.zeros(total, np.int64), np.zeros(total, np.int64))
    at = at.copy()
    for index in range(most):
        having = np.flatnonzero(counts > index)
        slot = slots[having] + index
        after = at[having]
        for fields in (keys, values):
            found, after = _read_fields(data, after)
            fields.at[slot], fields.lengths[slot] = found.at, found.lengths
        at[having] = after
    if (keys.lengths < 0).any():
        raise OddRecordsError("a header without a key")
    return keys, values, at


# --- the slow twin ------------------------------------------------------------------------------------------


def _decode_slowly(buffer: Buffer, batches: Sequence[tuple[int, BatchHeader]]) -> RecordColumns:
    """Return the same columns from decoded records."""
    records: list[Record] = []
    types: list[int] = []
    for at, header in batches:
        found = decode_records(buffer, at, header, limit=MAX_DECOMPRESSED)
        records += found
        types += [header.timestamp_type] * len(found)
    return columns_of(records, types)


def columns_of(records: Sequence[Record], timestamp_types: Sequence[int]) -> RecordColumns:
    """Return the columns of decoded records.

    Raises:
        DecodeError: a timestamp has more than 64 bits.
    """
    data = bytearray()

    def place(contents: Sequence[bytes | None]) -> Fields:
        at, lengths = [], []
        for content in contents:
            at.append(len(data))
            lengths.append(-1 if content is None else len(content))
            data.extend(content or b"")
        return Fields(np.array(at, np.int64), np.array(lengths, np.int64))

    try:
        timestamps = np.array([record.timestamp for record in records], np.int64)
    except OverflowError:
        raise DecodeError("a timestamp out of range") from None
    headers = [header for record in records for header in record.headers]
    return RecordColumns(
        offsets=np.array([record.offset for record in records], np.int64),
        timestamps=timestamps,
        timestamp_types=np.array(timestamp_types, np.int32),
        keys=place([record.key for record in records]),
        values=place([record.value for record in records]),
        header_counts=np.array([len(record.headers) for record in records], np.int64),
        header_keys=place([name.encode() for name, _ in headers]),
        header_values=place([value for _, value in headers]),
        data=bytes(data),
    )
