"""Down-conversion of record batches to message sets, for clients that do not know magic 2.

A batch without a codec becomes one message per record. A batch with a codec becomes a wrapper with the same
codec, compressed again. Message sets have no place for headers, producer ids and control batches, so these
are left out. The records of transactions stay, decided or not, as for every read_uncommitted consumer.

A client that asks for an offset within a batch without a codec gets the messages from that offset on. Some
librdkafka versions rely on that. In a wrapper the client itself skips the messages before that offset.

Messages get checksums of their own, so those of the batches are checked first: otherwise damage would become
content.

Source: Kafka's `RecordsUtil.downConvert`, `LazyDownConversionRecords`; KIP-283.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkapy.protocol.compression import MAX_DECOMPRESSED, Buffer, Compression
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.legacy_records import build_message_set, offset_of
from kafkapy.protocol.records import BatchHeader, Record, crc_is_valid, iter_headers, iter_records


class ZstdBatchError(Exception):
    """The first batch to convert is compressed with zstd, which message sets do not have."""


class MessageSet(NamedTuple):
    """What batches were converted to."""

    messages: bytearray
    records: int
    """How many records were converted."""


def down_convert(
    batches: Buffer, magic: int, first_offset: int, *, limit: int, max_decompressed: int = MAX_DECOMPRESSED
) -> MessageSet:
    """Convert whole batches of magic 2 to a message set, which may be empty.

    The set has at most `limit` bytes and may end within a message, but the first batch is always converted
    completely. The set ends before a batch that is compressed with zstd, so that the client asks for that
    one next.

    Raises:
        ZstdBatchError: there is nothing before the first zstd batch.
        DecodeError: a batch cannot be read.
    """
    out, count = bytearray(), 0
    for position, header in iter_headers(batches):
        try:
            messages, records = _converted(batches, position, header, magic, first_offset, max_decompressed)
        except (DecodeError, ZstdBatchError):
            if out:
                break
            raise
        if not out:
            limit = max(limit, len(messages))
        out += messages
        count += records
        if len(out) >= limit:
            break
    del out[limit:]
    return MessageSet(out, count)


def _converted(
    batches: Buffer,
    position: int,
    header: BatchHeader,
    magic: int,
    first_offset: int,
    max_decompressed: int,
) -> MessageSet:
    if not crc_is_valid(batches, position, header):
        raise DecodeError(f"the batch at offset {header.base_offset} is corrupt")
    if header.is_control:
        return MessageSet(bytearray(), 0)
    codec = header.compression
    if codec is Compression.ZSTD:
        raise ZstdBatchError
    records = iter_records(batches, position, header, limit=max_decompressed)
    if not codec:
        records = (record for record in records if record.offset >= first_offset)
    counted = _Counted(records)
    messages = build_message_set(counted, magic, compression=codec, timestamp_type=header.timestamp_type)
    if offset_of(messages) < first_offset:
        return MessageSet(
            bytearray(), 0
        )  # compaction removed the rest: the client would ask for this offset forever
    return MessageSet(messages, counted.count)


class _Counted:
    """Counts records as they are converted."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = records
        self.count = 0

    def __iter__(self) -> Iterator[Record]:
        for record in self._records:
            self.count += 1
            yield record
