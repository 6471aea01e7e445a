"""The format of the records of `__transaction_state`.

    key                                        value
    int16 0, TransactionLogKey                 int16 version, TransactionLogValue; null: the id has expired

As in Apache Kafka, values have version 1, with tagged fields, if the cluster's transaction version is at
least 1, and otherwise version 0; both are read. Other keys are ignored. An EMPTY state has null partitions.

Source: Apache Kafka's TransactionLog.
"""

from __future__ import annotations

from typing import Final

from kafkapy.protocol import coordinator_records
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.messages.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from kafkapy.protocol.types import TopicPartition
from kafkapy.transactions.metadata import TransactionMetadata, TransactionState

KEY_TYPE: Final = 0
FIRST_VERSION_WITH_TAGS: Final = 1


def encode_key(transactional_id: str) -> bytes:
    """`int16 0, TransactionLogKey`."""
    return coordinator_records.encode_key(KEY_TYPE, TransactionLogKey(transactional_id=transactional_id))


def encode_value(metadata: TransactionMetadata, transaction_version: int) -> bytes:
    """`int16 version, TransactionLogValue`; `transaction_version` is that of the cluster."""
    version = FIRST_VERSION_WITH_TAGS if transaction_version else 0
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=_encoded_partitions(metadata),
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
    )
    if version >= FIRST_VERSION_WITH_TAGS:
        value.previous_producer_id = metadata.previous_producer_id
        value.next_producer_id = metadata.next_producer_id
        value.client_transaction_version = metadata.client_version
    return coordinator_records.encode_value(value, version)


def _encoded_partitions(metadata: TransactionMetadata) -> list[PartitionsSchema] | None:
    if metadata.state is TransactionState.EMPTY:
        return None
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(metadata.partitions):
        by_topic.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=numbers) for topic, numbers in by_topic.items()]


def decode_key(key: bytes) -> str | None:
    """The transactional id; None for a key that is ignored.

    Raises:
        DecodeError: it is broken.
    """
    if coordinator_records.type_of(key) != KEY_TYPE:
        return None
    return coordinator_records.decode_key(TransactionLogKey, key).transactional_id


def decode_value(transactional_id: str, value: bytes) -> TransactionMetadata:
    """The state of a transactional id.

    Raises:
        DecodeError: it is broken, or of an unknown version.
    """
    decoded, _ = coordinator_records.decode_value(TransactionLogValue, value)
    try:
        state = TransactionState(decoded.transaction_status)
    except ValueError:
        raise DecodeError(f"there is no state {decoded.transaction_status}") from None
    return TransactionMetadata(
        transactional_id,
        producer_id=decoded.producer_id,
        timeout_ms=decoded.transaction_timeout_ms,
        last_update_ms=decoded.transaction_last_update_timestamp_ms,
        producer_epoch=decoded.producer_epoch,
        previous_producer_id=decoded.previous_producer_id,
        next_producer_id=decoded.next_producer_id,
        state=state,
        partitions=frozenset(
            TopicPartition(each.topic, number)
            for each in decoded.transaction_partitions or ()
            for number in each.partition_ids
        ),
        start_ms=decoded.transaction_start_timestamp_ms,
        client_version=decoded.client_transaction_version,
    )
