"""Checks incoming record batches, and prepares them for the log.

There are two steps, so that the costly one can run in a worker thread:

    prepare_batches    checks the framing, the CRC, every record and the timestamps, and compresses again if
                       the topic has another codec. It uses no log, so any thread may call it.
    PreparedBatches.assign    sets offsets, leader epoch and LogAppendTime in place. It is called on the event
                       loop, just before the write.

Every consumer can read the stored batches: record counts, lengths, offset deltas and header keys are right,
in compressed batches too. Decompression is streamed and bounded, so that a small batch cannot fill the
memory.

A batch that breaks a rule is refused as a unit, with Apache Kafka's error code: MESSAGE_TOO_LARGE,
RECORD_LIST_TOO_LARGE, CORRUPT_MESSAGE (the CRC, which a client retries), INVALID_TIMESTAMP,
UNSUPPORTED_COMPRESSION_TYPE, and INVALID_RECORD for the rest.

Source: LogValidator, UnifiedLog.analyzeAndValidateRecords, ProduceRequest.validateRecords; KIP-467 (record
errors).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from kafkapy.protocol import record_walker
from kafkapy.protocol.compression import CODEC_MASK, MAX_DECOMPRESSED, Compression, DecompressedSizeError
from kafkapy.protocol.crc import crc32c
from kafkapy.protocol.errors import DecodeError, ErrorCode, KafkaError
from kafkapy.protocol.plain_batch import read_plain_batch
from kafkapy.protocol.record_walker import BatchSummary, PureWalker, walk_batch
from kafkapy.protocol.records import (
    CODEC_AT,
    CRC_FROM,
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Record,
    TimestampType,
    crc_is_valid,
    decode_records,
    header_of,
    read_header,
    recompress_batch,
    set_max_timestamp,
    stamp_batch,
)
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.markers import TransactionMarker, read_marker

_HEAVY_RECOMPRESSED: Final = 16 * 1024
_HEAVY: Final = (4 * 1024 * 1024, 4 * 1024, 64 * 1024, 64 * 1024, 64 * 1024)
"""The sizes, by codec, above which a batch is checked in a worker thread.

An ordinary batch of such a size takes a millisecond. One that decompresses to as much as it can takes some 25
milliseconds. gzip is the slowest codec.
"""

SLOW_AT_ONCE: Final = 16 << 10
"""If a request has more slow bytes (`effort`), all of it is checked in a worker thread."""

_DECOMPRESSED_AT_ONCE: Final = 256 << 10
_DECOMPRESSED_AT_ONCE_PURELY: Final = 32 << 10

_EXPLAINED_RECORDS: Final = 1000
_EXPLAINED_BYTES: Final = 1024 * 1024
"""A batch up to these sizes gets an error for each bad record, and a larger one gets one error."""

_CODECS: Final = {codec.name.lower(): codec for codec in Compression} | {"uncompressed": Compression.NONE}
_KEEP_CODEC: Final = "producer"
_LEAVES_PLAIN: Final = frozenset({_KEEP_CODEC, "uncompressed"})
"""The topic's settings with which an uncompressed batch is stored as it is."""


class AppendOrigin(Enum):
    """The kind of writer that appends.

    Clients must obey every rule. The broker's coordinators may write control batches. Replication writes the
    leader's batches as they are.
    """

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


# To look up a member in its Enum takes longer than to call a function (CPython 3.11).
CLIENT: Final = AppendOrigin.CLIENT
COORDINATOR: Final = AppendOrigin.COORDINATOR
REPLICATION: Final = AppendOrigin.REPLICATION


class InvalidRecordsError(KafkaError):
    """A batch is refused because some of its records are invalid."""

    def __init__(self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors
        """(index in the batch, message) for each bad record; may be empty."""


class DecompressedTooLargeError(KafkaError):
    """A batch decompresses to more than the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE, f"The records of the batch decompress to more than {limit} bytes."
        )


class PreparedBatch:
    """A batch that may be stored."""

    __slots__ = ("buffer", "header", "marker")

    def __init__(self, header: BatchHeader, buffer: memoryview, marker: TransactionMarker | None) -> None:
        self.header = header
        """The header in `buffer`. `PreparedBatches.assign` sets its base offset."""
        self.buffer = buffer
        """The bytes of the batch, writable."""
        self.marker = marker
        """The marker, if it is a control batch that ends a transaction."""


class PreparedBatches:
    """The batches of one append, in order."""

    __slots__ = ("batches", "nbytes", "record_count")

    def __init__(self, batches: list[PreparedBatch], nbytes: int, record_count: int) -> None:
        self.batches = batches
        self.nbytes = nbytes
        self.record_count = record_count

    def assign(self, next_offset: int, *, leader_epoch: int, log_append_time: int = NO_TIMESTAMP) -> int:
        """Give the batches the offsets from `next_offset` on; return the offset after them.

        They get `log_append_time` too, if it is set. This can be repeated.
        """
        for batch in self.batches:
            header = batch.header = stamp_batch(batch.buffer, next_offset, leader_epoch)
            if log_append_time != NO_TIMESTAMP:
                set_max_timestamp(batch.buffer, 0, TimestampType.LOG_APPEND_TIME, log_append_time)
                batch.header = read_header(batch.buffer)
            next_offset += header.last_offset_delta + 1
        return next_offset


def codec_of(records: memoryview | bytes) -> int:
    """The codec number of the first batch, which may be unknown; 0 if there are too few bytes."""
    return records[CODEC_AT] & CODEC_MASK if len(records) >= HEADER_SIZE else 0


def is_transactional(records: memoryview) -> bool:
    """Whether the first batch is part of a transaction; False for a message set."""
    return (
        len(records) >= HEADER_SIZE and records[MAGIC_AT] == MAGIC and bool(records[CODEC_AT] & TRANSACTIONAL)
    )


def decompressed_at_once() -> int:
    """The most bytes to which the batches of a request may decompress on the event loop.

    They take some milliseconds.
    """
    compiled = record_walker.Walker is not PureWalker
    return _DECOMPRESSED_AT_ONCE if compiled else _DECOMPRESSED_AT_ONCE_PURELY


def effort(records: memoryview, config: LogConfig) -> tuple[bool, int]:
    """Whether `prepare_batches` is worth a worker thread, and how many bytes are slow.

    All bytes are slow if they have to be decompressed, or if the walker is not compiled.
    """
    size = len(records)
    if size < HEADER_SIZE:
        return False, size if record_walker.Walker is PureWalker else 0
    codec = records[CODEC_AT] & CODEC_MASK
    slow = size if codec or record_walker.Walker is PureWalker else 0
    if records[MAGIC_AT] != MAGIC:
        return False, slow
    if codec >= len(_HEAVY) or size > _HEAVY[codec]:
        return True, slow
    if size > _HEAVY_RECOMPRESSED and config.compression_type != _KEEP_CODEC:
        return _CODECS[config.compression_type] != codec, slow
    return False, slow


def prepare_batches(
    records: memoryview | bytes | bytearray,
    *,
    config: LogConfig,
    origin: AppendOrigin,
    now_ms: int,
    max_decompressed: int = MAX_DECOMPRESSED,
) -> PreparedBatches:
    """Check record batches, and compress them again if the topic wants another codec.

    `records` is changed in place, later by `assign` too, unless it is read-only: then it is copied.

    Raises:
        InvalidRecordsError: some records are invalid.
        DecompressedTooLargeError: a batch decompresses to more than `max_decompressed` bytes.
        KafkaError: a batch is invalid.
    """
    data = memoryview(records)
    if data.readonly:
        data = memoryview(bytearray(data))
    if origin is CLIENT:
        plain = _prepare_plain(data, config, now_ms)
        if plain is not None:
            return plain
    end = len(data)
    batches: list[PreparedBatch] = []
    position = nbytes = record_count = 0
    while position < end:
        if batches and origin is CLIENT:
            raise _invalid("A produce request may hold one record batch for each partition, not more.")
        header, buffer = _next_batch(data, position)
        size = len(buffer)
        position += size
        if origin is not REPLICATION and size > config.max_message_bytes:
            raise too_large(size, config)
        if not crc_is_valid(buffer, 0, header):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"The record batch is corrupt (stored CRC {header.crc})."
            )
        if origin is not REPLICATION:
            codec = _CODECS.get(config.compression_type)
            header, buffer = _validate(header, buffer, config, origin, now_ms, max_decompressed, codec)
        batches.append(PreparedBatch(header, buffer, _marker(header, buffer) if header.is_control else None))
        nbytes += len(buffer)
        record_count += header.record_count
    if not batches:
        raise _invalid("A produce request must hold a record batch for each partition.")
    if origin is not REPLICATION:
        _check_segment_size(nbytes, config)
    return PreparedBatches(batches, nbytes, record_count)


def _prepare_plain(data: memoryview, config: LogConfig, now_ms: int) -> PreparedBatches | None:
    """Prepare a client's batch, if it is plain and nothing is against it.

    Most batches are plain (protocol/plain_batch.py). For any other one, None: the general way tells what is
    against it, or changes it as the topic wants it.
    """
    plain = read_plain_batch(data)
    if plain is None:
        return None
    fields, min_timestamp, first_null_key = plain
    header, size = header_of(fields), len(data)
    if size > config.max_message_bytes or size > config.segment_bytes:
        return None
    if crc32c(data[CRC_FROM:]) != header.crc:
        return None
    if header.producer_id < 0:
        if header.attributes:  # it is transactional
            return None
    elif header.base_sequence < 0 or header.producer_epoch < 0:
        return None
    if first_null_key >= 0 and config.is_compacted:
        return None
    if config.message_timestamp_type == "CreateTime":
        earliest, latest = _accepted_times(config, now_ms)
        if header.max_timestamp > latest or NO_TIMESTAMP != min_timestamp < earliest:
            return None
    if config.compression_type not in _LEAVES_PLAIN:
        return None
    return PreparedBatches([PreparedBatch(header, data, None)], size, header.record_count)


def prepare_built(
    header: BatchHeader, batch: memoryview, *, config: LogConfig, now_ms: int
) -> PreparedBatches:
    """Prepare a batch that this broker has just built, of records with keys.

    Only its size is checked. Topics that want another codec take the way of `prepare_batches`, whose result
    is the same. See `build_plain_batch`.

    Raises:
        KafkaError: it is too large.
    """
    if config.compression_type not in _LEAVES_PLAIN:
        origin = COORDINATOR
        return prepare_batches(batch, config=config, origin=origin, now_ms=now_ms)
    size = len(batch)
    if size > config.max_message_bytes:
        raise too_large(size, config)
    if size > config.segment_bytes:
        _check_segment_size(size, config)
    return PreparedBatches([PreparedBatch(header, batch, None)], size, header.record_count)


def prepare_converted(
    batch: bytearray, *, compression: Compression, config: LogConfig, now_ms: int
) -> PreparedBatches:
    """Check and compress the uncompressed batch that a message set was converted to.

    Args:
        compression: the client's codec, which the topic may keep.

    Raises: as `prepare_batches`.
    """
    header, buffer = _validate(
        read_header(batch),
        memoryview(batch),
        config,
        CLIENT,
        now_ms,
        len(batch),
        _CODECS.get(config.compression_type, compression),
    )
    if header.size > config.max_message_bytes:
        raise too_large(header.size, config)
    _check_segment_size(header.size, config)
    return PreparedBatches([PreparedBatch(header, buffer, None)], header.size, header.record_count)


def _check_segment_size(nbytes: int, config: LogConfig) -> None:
    if nbytes > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{nbytes} bytes of record batches are more than a segment may hold ({config.segment_bytes}).",
        )


def _next_batch(data: memoryview, position: int) -> tuple[BatchHeader, memoryview]:
    """The header and bytes of the batch at `position`."""
    try:
        header = read_header(data, position)
    except DecodeError as error:
        raise _invalid(f"No record batch: {error}.") from None
    if header.magic != MAGIC:
        raise _invalid(f"Record batches must have magic 2, not {header.magic}.")
    size, left = header.size, len(data) - position
    if size > left:
        raise _invalid(f"A record batch of {size} bytes ends after {left} bytes.")
    return header, data if size == len(data) else data[position : position + size]


def _validate(
    header: BatchHeader,
    buffer: memoryview,
    config: LogConfig,
    origin: AppendOrigin,
    now_ms: int,
    max_decompressed: int,
    codec: Compression | None,
) -> tuple[BatchHeader, memoryview]:
    """Check a batch and its records; return the header and bytes of the batch to store.

    It is compressed with `codec`, if one is given.
    """
    _check_header(header, origin)
    claims_append_time = header.timestamp_type == TimestampType.LOG_APPEND_TIME
    if claims_append_time:
        check_claimed_append_time(header.max_timestamp, config)
    try:
        summary = walk_batch(buffer, 0, header, max_decompressed=max_decompressed)
    except DecompressedSizeError:
        raise DecompressedTooLargeError(max_decompressed) from None
    except DecodeError as error:
        raise _invalid(f"The record batch cannot be read: {error}.") from None
    if summary.first_null_key >= 0 and config.is_compacted:
        raise _null_keys(header, buffer, summary)
    if config.message_timestamp_type == "CreateTime":
        _check_timestamps(header, buffer, summary, config, now_ms)
        if claims_append_time or summary.max_timestamp != header.max_timestamp:
            set_max_timestamp(buffer, 0, TimestampType.CREATE_TIME, summary.max_timestamp)
            header = read_header(buffer)
    if codec is None or codec == header.compression or header.is_control:
        return header, buffer
    level = _level(codec, config)
    limit = max(max_decompressed, header.size)  # an uncompressed batch may be larger than the limit
    buffer = memoryview(recompress_batch(buffer, 0, header, codec, level=level, limit=limit))
    if len(buffer) > config.max_message_bytes:
        raise too_large(len(buffer), config)
    return read_header(buffer), buffer


def _check_header(header: BatchHeader, origin: AppendOrigin) -> None:
    """Check the header of a batch (LogValidator.validateBatch)."""
    try:
        _ = header.compression
    except DecodeError as error:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from None
    if header.base_offset != 0:
        raise _invalid(f"The base offset of the record batch must be 0, but it is {header.base_offset}.")
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        raise _invalid(
            f"The batch's last offset delta {header.last_offset_delta} and its record count "
            f"{header.record_count} do not fit."
        )
    if origin is CLIENT:
        if header.is_control:
            raise _invalid("Clients are not allowed to write control records.")
        if header.producer_id >= 0:
            if header.base_sequence < 0 or header.producer_epoch < 0:
                raise _invalid(
                    f"Sequence number {header.base_sequence} and epoch {header.producer_epoch} of producer "
                    f"{header.producer_id} must not be negative."
                )
        elif header.is_transactional:
            raise _invalid("A transactional record batch must have a producer id.")


def check_claimed_append_time(timestamp: int, config: LogConfig) -> None:
    """Check a claim of a producer that its records have LogAppendTime.

    As in Apache Kafka, a topic with CreateTime takes it for the CreateTime of the records, if it is one.

    Raises:
        KafkaError: INVALID_TIMESTAMP.
    """
    if config.message_timestamp_type != "CreateTime" or timestamp == NO_TIMESTAMP:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP, "A producer must not set the timestamp type to LogAppendTime."
        )


def _check_timestamps(
    header: BatchHeader, buffer: memoryview, summary: BatchSummary, config: LogConfig, now_ms: int
) -> None:
    """Check that each record's timestamp is near the broker's time, or is -1."""
    earliest, latest = _accepted_times(config, now_ms)
    if summary.max_timestamp <= latest and (
        summary.min_timestamp >= earliest or summary.min_timestamp == NO_TIMESTAMP
    ):
        return
    errors = [
        (index, f"Timestamp {record.timestamp} is not within {earliest} and {latest}.")
        for index, record in enumerate(_explained(header, buffer))
        if record.timestamp != NO_TIMESTAMP and not earliest <= record.timestamp <= latest
    ]
    raise InvalidRecordsError(
        ErrorCode.INVALID_TIMESTAMP,
        f"Records have timestamps that are not within {earliest} and {latest}, as "
        "message.timestamp.before.max.ms and message.timestamp.after.max.ms demand.",
        errors,
    )


def _accepted_times(config: LogConfig, now_ms: int) -> tuple[int, int]:
    """The earliest and the latest timestamp of a record; those before 1970 are negative."""
    return now_ms - config.message_timestamp_before_max_ms, now_ms + config.message_timestamp_after_max_ms


def _null_keys(header: BatchHeader, buffer: memoryview, summary: BatchSummary) -> InvalidRecordsError:
    why = "A compacted topic cannot accept a record without a key."
    errors = [(i, why) for i, record in enumerate(_explained(header, buffer)) if record.key is None]
    return InvalidRecordsError(ErrorCode.INVALID_RECORD, why, errors or [(summary.first_null_key, why)])


def _explained(header: BatchHeader, buffer: memoryview) -> list[Record]:
    """The records of a batch to refuse; none if there are too many to explain each error."""
    if header.record_count > _EXPLAINED_RECORDS:
        return []
    try:
        return decode_records(buffer, 0, header, limit=_EXPLAINED_BYTES)
    except DecompressedSizeError:
        return []


def _marker(header: BatchHeader, buffer: memoryview) -> TransactionMarker | None:
    try:
        return read_marker(header, buffer)
    except DecodeError as error:
        raise _invalid(f"The control batch cannot be read: {error}.") from None


def _level(codec: Compression, config: LogConfig) -> int | None:
    """The topic's compression level for a codec; None if the codec has none."""
    if codec == Compression.GZIP:
        return config.compression_gzip_level
    if codec == Compression.LZ4:
        return config.compression_lz4_level
    return config.compression_zstd_level if codec == Compression.ZSTD else None


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)


def too_large(size: int, config: LogConfig) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch has {size} bytes, more than max.message.bytes ({config.max_message_bytes}).",
    )
