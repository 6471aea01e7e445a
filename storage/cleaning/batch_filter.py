"""The second half of compaction: copies the records of batches that an offset map keeps.

It also collects the index entries of the new segment.

A record is kept if it is above the map's last offset, or if it has a key that no later record has, unless it
is a tombstone whose delete horizon has passed. What is written of a batch depends on its records:

    all are kept    the batch as it is
    some are kept   the batch with these records. Length, record count, max timestamp and CRC change; offsets
                    and sequence numbers never do
    none is kept    nothing; or the header, if it has the last sequence number of a producer, or is that of
                    the last batch of the pass; or a header with only the offsets, if the batch ends the
                    segment. So there is no gap between segments, which recovery would take for lost records

A batch with tombstones gets a delete horizon (KIP-534): now plus delete.retention.ms. It is stored as the
base timestamp, marked by an attribute, so the timestamp deltas of the records are written again.

`BatchFilter` has two implementations. The compiled one (`_batch_filter.c`) is used if it was built, unless
KAFKAPY_PURE_PYTHON is set in the environment and not empty.

Source: LogCleaner.cleanInto, MemoryRecords.filterTo, DefaultRecordBatch.writeEmptyHeader.
"""

from __future__ import annotations

import struct
from typing import Final, Protocol

from kafkapy.protocol.compiled import compiled_twin
from kafkapy.protocol.compression import CODEC_MASK, Buffer
from kafkapy.protocol.crc import crc32c
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import (
    CONTROL,
    CRC_AT,
    CRC_FROM,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE,
    TRANSACTIONAL,
    BatchHeader,
    Compression,
    TimestampType,
)
from kafkapy.storage.cleaning.key_index import BAD, FULL, RawRecord, iter_raw_records, look
from kafkapy.storage.cleaning.offset_map import Slots, find, key_hash

WHOLE: Final = 0
PART: Final = 1
NOTHING: Final = 2
"""How much of a batch is kept."""

_KEPT_WHEN_EMPTY = TIMESTAMP_TYPE | TRANSACTIONAL | CONTROL

_CRC = struct.Struct(">I")

_ROOM_PER_RECORD = 11
"""The most bytes by which a record grows when its timestamp is written again.

The timestamp may grow from 1 byte to 10, and the record's length by 2 bytes.
"""

Chosen = tuple[int, int, bytes, int, int, bool]
"""The kept records of a batch, and the fields to write for them.

The fields are WHOLE, PART or NOTHING; the number of kept records; for PART their bytes; the base timestamp;
the max timestamp; and whether the base timestamp is a delete horizon.
"""


def frame(header: BatchHeader, records: Buffer) -> bytearray:
    """A batch of a header, with the right length and CRC, and its records as stored."""
    batch = bytearray(HEADER_SIZE)
    HEADER.pack_into(
        batch, 0, *header._replace(batch_length=HEADER_SIZE - LOG_OVERHEAD + len(records), crc=0)
    )
    batch += records
    _CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[CRC_FROM:]))
    return batch


def emptied(header: BatchHeader, *, with_producer: bool) -> bytearray:
    """A batch without its records.

    It keeps its offsets and max timestamp. With `with_producer` it also keeps the producer, the sequence
    numbers and the transaction attributes.
    """
    kept = _KEPT_WHEN_EMPTY if with_producer else TIMESTAMP_TYPE
    header = header._replace(attributes=header.attributes & kept, base_timestamp=NO_TIMESTAMP, record_count=0)
    if not with_producer:
        header = header._replace(
            producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH, base_sequence=NO_SEQUENCE
        )
    return frame(header, b"")


def with_records(header: BatchHeader, chosen: Chosen, codec: Compression, records: Buffer) -> bytearray:
    """A batch with the kept records, which the caller has compressed again."""
    _, kept, _, base_timestamp, max_timestamp, has_horizon = chosen
    attributes = header.attributes & ~CODEC_MASK | codec | (DELETE_HORIZON if has_horizon else 0)
    if header.timestamp_type == TimestampType.LOG_APPEND_TIME:
        max_timestamp = header.max_timestamp
    return frame(
        header._replace(
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            record_count=kept,
        ),
        records,
    )


class BatchFilterTwin(Protocol):
    """Filters the batches of one new segment.

    One thread uses it.
    """

    def __init__(
        self,
        slots: Slots,
        last_offset: int,
        now_ms: int,
        new_horizon: int,
        producers: bytes,
        base_offset: int,
        end_offset: int,
        round_end: int,
        interval: int,
        /,
    ) -> None:
        """Filter by the `slots` and `last_offset` of a map.

        `new_horizon` is the delete horizon of tombstones that have none. `producers` are sorted pairs of
        int64 in the machine's byte order: producer id and last offset. The new segment holds offsets from
        `base_offset` to `end_offset`, exclusive. The pass ends at `round_end`. There is an index entry about
        every `interval` bytes.
        """

    def run(
        self, data: Buffer, at: int, end: int, final: bool, out: bytearray | memoryview, out_at: int, /
    ) -> tuple[int, int, int]:
        """Write what is kept of the batches in `data[at:end]` to `out`, from `out_at` on.

        Returns the positions reached in both, and why it stopped, as in key_index.py. FULL says that `out`
        may be too small for the next batch. `final` says that a batch that ends at `end` ends the segment.
        """

    def filter_records(
        self, records: Buffer, base_offset: int, base_timestamp: int, count: int, has_horizon: bool, /
    ) -> Chosen | None:
        """The kept records of one decompressed batch; None if its bytes are not records."""

    def accept(self, base_offset: int, last_offset: int, /) -> bool:
        """Return whether a batch with these offsets may come next, and expect the batch after it.

        The caller handles this batch itself.
        """

    def note(self, size: int, last_offset: int, max_timestamp: int, /) -> None:
        """Note that the caller has written a batch after the output."""

    def written(self) -> tuple[int, int, int, bytes, bytes]:
        """The size of the output, its max timestamp and its offset, and the index entries.

        The index entries are those of the offset index, then those of the time index.
        """

    def seen(self) -> tuple[int, int, int]:
        """The numbers of records read, of records kept, and of records without a key."""


class PureBatchFilter:
    """The implementation in Python."""

    __slots__ = (
        "_base_offset",
        "_high",
        "_interval",
        "_last_entry",
        "_last_offset",
        "_last_time_entry",
        "_low",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_new_horizon",
        "_now_ms",
        "_offset_entries",
        "_position",
        "_producers",
        "_records_kept",
        "_records_read",
        "_records_without_key",
        "_round_end",
        "_slots",
        "_time_entries",
    )

    def __init__(
        self,
        slots: Slots,
        last_offset: int,
        now_ms: int,
        new_horizon: int,
        producers: bytes,
        base_offset: int,
        end_offset: int,
        round_end: int,
        interval: int,
        /,
    ) -> None:
        self._slots = slots
        self._last_offset = last_offset
        self._now_ms = now_ms
        self._new_horizon = new_horizon
        self._producers = dict(struct.iter_unpack("=qq", producers))
        self._base_offset = self._low = base_offset
        self._high = end_offset
        self._round_end = round_end
        self._interval = interval
        self._position = self._last_entry = 0
        self._max_timestamp, self._max_timestamp_offset = NO_TIMESTAMP, base_offset
        self._last_time_entry = NO_TIMESTAMP
        self._offset_entries, self._time_entries = bytearray(), bytearray()
        self._records_read = self._records_kept = self._records_without_key = 0

    def run(
        self, data: Buffer, at: int, end: int, final: bool, out: bytearray | memoryview, out_at: int, /
    ) -> tuple[int, int, int]:
        while True:
            found, header = look(data, at, end)
            if found != FULL or header is None:
                return at, out_at, found
            if len(out) - out_at < header.size + _ROOM_PER_RECORD * header.record_count:
                return at, out_at, FULL
            if not self.accept(header.base_offset, header.last_offset):
                return at, out_at, BAD
            original = memoryview(data)[at : at + header.size]
            chosen = self.filter_records(
                original[HEADER_SIZE:],
                header.base_offset,
                header.base_timestamp,
                header.record_count,
                header.has_delete_horizon,
            )
            if chosen is None:
                return at, out_at, BAD
            batch = self._batch(header, original, chosen, final and at + header.size == end)
            if batch is not None:
                out[out_at : out_at + len(batch)] = batch
                out_at += len(batch)
            at += header.size

    def _batch(
        self, header: BatchHeader, original: memoryview, chosen: Chosen, keep_empty: bool
    ) -> Buffer | None:
        batch: Buffer
        max_timestamp = header.max_timestamp
        if chosen[0] == WHOLE:
            batch = original
        elif chosen[0] == PART:
            batch = with_records(header, chosen, Compression.NONE, chosen[2])
            if header.timestamp_type == TimestampType.CREATE_TIME:
                max_timestamp = chosen[4]
        else:
            with_producer = header.next_offset == self._round_end or (
                header.producer_id >= 0 and self._producers.get(header.producer_id) == header.last_offset
            )
            if not with_producer and not keep_empty:
                return None
            batch = emptied(header, with_producer=with_producer)
        self.note(len(batch), header.last_offset, max_timestamp)
        return batch

    def filter_records(
        self, records: Buffer, base_offset: int, base_timestamp: int, count: int, has_horizon: bool, /
    ) -> Chosen | None:
        data = bytes(records)
        past_horizon = has_horizon and self._now_ms >= base_timestamp
        kept: list[RawRecord] = []
        max_timestamp = NO_TIMESTAMP
        tombstones, without_key = False, 0
        try:
            if count < 0:
                return None
            for record in iter_raw_records(data, count):
                offset = base_offset + record.offset_delta
                if offset <= self._last_offset:
                    if record.key is None:
                        without_key += 1
                        continue
                    _, newest = find(self._slots, key_hash(record.key))
                    if offset < newest or (past_horizon and not record.has_value):
                        continue
                kept.append(record)
                tombstones = tombstones or not record.has_value
                max_timestamp = max(max_timestamp, _int64(base_timestamp + record.timestamp_delta))
        except DecodeError:
            return None
        self._records_read += count
        self._records_kept += len(kept)
        self._records_without_key += without_key
        if not kept:
            return NOTHING, 0, b"", base_timestamp, max_timestamp, has_horizon
        set_horizon = tombstones and not has_horizon
        if len(kept) == count and not set_horizon:
            return WHOLE, count, b"", base_timestamp, max_timestamp, has_horizon
        if not set_horizon:
            chosen = b"".join(data[record.start : record.end] for record in kept)
            return PART, len(kept), chosen, base_timestamp, max_timestamp, has_horizon
        out = bytearray()
        for record in kept:
            timestamp = _int64(base_timestamp + record.timestamp_delta)
            delta = _varint(_int64(timestamp - self._new_horizon))
            rest = data[record.after_timestamp : record.end]
            out += _varint(1 + len(delta) + len(rest)) + data[record.body : record.body + 1] + delta + rest
        return PART, len(kept), bytes(out), self._new_horizon, max_timestamp, True

    def accept(self, base_offset: int, last_offset: int, /) -> bool:
        if not self._low <= base_offset <= last_offset < self._high:
            return False
        self._low = last_offset + 1
        return True

    def note(self, size: int, last_offset: int, max_timestamp: int, /) -> None:
        if max_timestamp > self._max_timestamp:
            self._max_timestamp, self._max_timestamp_offset = max_timestamp, last_offset
        if self._position - self._last_entry > self._interval:
            self._offset_entries += struct.pack(">ii", last_offset - self._base_offset, self._position)
            if self._max_timestamp > self._last_time_entry:
                relative = self._max_timestamp_offset - self._base_offset
                self._time_entries += struct.pack(">qi", self._max_timestamp, relative)
                self._last_time_entry = self._max_timestamp
            self._last_entry = self._position
        self._position += size

    def written(self) -> tuple[int, int, int, bytes, bytes]:
        return (
            self._position,
            self._max_timestamp,
            self._max_timestamp_offset,
            bytes(self._offset_entries),
            bytes(self._time_entries),
        )

    def seen(self) -> tuple[int, int, int]:
        return self._records_read, self._records_kept, self._records_without_key


def _int64(value: int) -> int:
    """A sum that wraps around at 64 bits."""
    return (value + 2**63) % 2**64 - 2**63


def _varint(value: int) -> bytes:
    value = (value << 1 ^ value >> 63) & (2**64 - 1)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


BatchFilter: type[BatchFilterTwin] = compiled_twin(
    "kafkapy.storage.cleaning._compactor", "BatchFilter", PureBatchFilter
)
"""The implementation that compaction uses."""
