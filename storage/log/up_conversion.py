"""Converts message sets, of clients before Kafka 0.11, to record batches.

The log stores only record batches.

All messages for one partition of a Produce request become one batch, with the codec of the messages or that
of the topic. Its records have no headers. Messages of magic 0 have no timestamps (-1). Each message is
checked first: its size, its CRC, and that a compressed message is the only one. Then the batch is checked
like any other (validate.py).

A message set that is empty, or ends within its first message, stores nothing and is no error.

Source: LogValidator.convertAndAssignOffsetsNonCompressed, validateMessagesAndAssignOffsetsCompressed.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkapy.protocol.compression import (
    CODEC_MASK,
    MAX_DECOMPRESSED,
    Buffer,
    Compression,
    DecompressedSizeError,
)
from kafkapy.protocol.errors import DecodeError, ErrorCode, KafkaError
from kafkapy.protocol.legacy_records import CorruptMessageError, Message, iter_messages, unwrap
from kafkapy.protocol.records import MAGIC, MAGIC_AT, NO_TIMESTAMP, Record, TimestampType, build_batch
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.validate import (
    DecompressedTooLargeError,
    PreparedBatches,
    check_claimed_append_time,
    prepare_converted,
    too_large,
)

_ATTRIBUTES_AT = 17
_HEAVY = 8 * 1024
"""Above this size, a message set is converted in a worker thread.

Converting takes some five microseconds per message, and a message has at least 26 bytes.
"""


def holds_messages(records: Buffer) -> bool:
    """Whether this is a message set, or too short for a record batch."""
    return len(records) <= MAGIC_AT or records[MAGIC_AT] != MAGIC


def is_heavy_message_set(records: Buffer) -> bool:
    """Whether `prepare_messages` may take long enough to be worth a worker thread."""
    if len(records) <= _ATTRIBUTES_AT:
        return False
    return len(records) > _HEAVY or records[_ATTRIBUTES_AT] & CODEC_MASK != 0


def prepare_messages(
    records: Buffer,
    *,
    config: LogConfig,
    now_ms: int,
    max_decompressed: int = MAX_DECOMPRESSED,
) -> PreparedBatches | None:
    """The batch of a message set, ready for the log; None if the set has no complete message.

    Raises:
        KafkaError: CORRUPT_MESSAGE for a message that the client should send again, INVALID_RECORD,
            UNSUPPORTED_COMPRESSION_TYPE, INVALID_TIMESTAMP for a message from before 1970, which only a batch
            can have, and as `prepare_batches`.
    """
    data = bytes(records)
    try:
        first = next(iter_messages(data), None)
        if first is None:
            return None
        compression = _compression(first)
        batch = build_batch(_records(data, config, compression, max_decompressed))
    except CorruptMessageError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"The message set cannot be read: {error}.") from None
    except DecompressedSizeError:
        raise DecompressedTooLargeError(max_decompressed) from None
    except DecodeError as error:
        raise _invalid(f"The message set cannot be read: {error}.") from None
    return prepare_converted(batch, compression=compression, config=config, now_ms=now_ms)


def _records(
    data: bytes, config: LogConfig, compression: Compression, max_decompressed: int
) -> Iterator[Record]:
    """The records of a set whose first message has this codec.

    They are yielded one by one, as there may be millions.
    """
    magic = data[MAGIC_AT]
    for index, message in enumerate(iter_messages(data)):
        if message.size > config.max_message_bytes:
            raise too_large(message.size, config)
        if message.magic != magic:
            raise _invalid("All messages for a partition must have the same magic.")
        if message.timestamp_type is TimestampType.LOG_APPEND_TIME:
            check_claimed_append_time(message.timestamp, config)
        if index and (compression or _compression(message)):
            raise _invalid("A compressed message must be the only one for its partition.")
        for each in unwrap(message, limit=max_decompressed) if compression else (message,):
            if each.timestamp < NO_TIMESTAMP:
                raise KafkaError(
                    ErrorCode.INVALID_TIMESTAMP, f"A message must not be from before 1970 ({each.timestamp})."
                )
            yield Record(-1, each.timestamp, each.key, each.value)


def _compression(message: Message) -> Compression:
    try:
        return message.compression
    except DecodeError as error:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from None


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
