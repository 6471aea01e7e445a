"""Record batches as message sets: what clients that know no magic 2 are sent instead.

A batch without a codec becomes one message a record; one with a codec becomes a wrapper with the same codec,
which is compressed anew. What message sets cannot say is left out: headers, producers, and control batches
whole. The records of transactions stay, decided or not, as for every reader of uncommitted records.

A client that asks for an offset within a batch without a codec gets the messages from that offset on, as some
librdkafka versions rely on; within a wrapper it skips what is before by itself.

Messages get checksums of their own, so those of the batches are looked at first: damage must not become
content.

Source: Kafka's `RecordsUtil.downConvert`, `LazyDownConversionRecords`; KIP-283.
"""

from __future__ import annotations

from kafkapy.protocol.compression import MAX_DECOMPRESSED, Buffer, Compression
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.legacy_records import build_message_set, offset_of
from kafkapy.protocol.records import BatchHeader, crc_is_valid, iter_headers, iter_records


class ZstdBatchError(Exception):
    """The first batch to convert is compressed with zstd, which messages of magic 0 and 1 cannot be."""


def down_convert(
    batches: Buffer, magic: int, first_offset: int, *, limit: int, max_decompressed: int = MAX_DECOMPRESSED
) -> bytearray:
    """The message set of whole batches of magic 2: empty where nothing in them can be said in one.

    It may end within a message: it has at most `limit` bytes, except that the first batch is converted whole.
    A batch that is compressed with zstd ends it, so that the client asks for that one next.

    Raises:
        ZstdBatchError: there is nothing before the first zstd batch.
        DecodeError: a batch cannot be read.
    """
    out = bytearray()
    for position, header in iter_headers(batches):
        try:
            messages = _converted(batches, position, header, magic, first_offset, max_decompressed)
        except (DecodeError, ZstdBatchError):
            if out:
                break
            raise
        if not out:
            limit = max(limit, len(messages))
        out += messages
        if len(out) >= limit:
            break
    del out[limit:]
    return out


def _converted(
    batches: Buffer,
    position: int,
    header: BatchHeader,
    magic: int,
    first_offset: int,
    max_decompressed: int,
) -> bytearray:
    if not crc_is_valid(batches, position, header):
        raise DecodeError(f"the batch at offset {header.base_offset} is corrupt")
    if header.is_control:
        return bytearray()
    codec = header.compression
    if codec is Compression.ZSTD:
        raise ZstdBatchError
    records = iter_records(batches, position, header, limit=max_decompressed)
    if not codec:
        records = (record for record in records if record.offset >= first_offset)
    messages = build_message_set(records, magic, compression=codec, timestamp_type=header.timestamp_type)
    if offset_of(messages) < first_offset:
        return bytearray()  # compaction took what was behind, and the client would never get on
    return messages
