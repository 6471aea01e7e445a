"""The records of `__transaction_state`, compared with bytes as Apache Kafka writes them."""

from __future__ import annotations

import pytest

from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.types import TopicPartition
from kafkapy.transactions.metadata import TransactionMetadata, TransactionState
from kafkapy.transactions.records import decode_key, decode_value, encode_key, encode_value

METADATA = TransactionMetadata(
    "x",
    producer_id=7,
    timeout_ms=60_000,
    last_update_ms=258,
    producer_epoch=3,
    previous_producer_id=6,
    next_producer_id=8,
    state=TransactionState.PREPARE_COMMIT,
    partitions=frozenset({TopicPartition("t", 1), TopicPartition("t", 0), TopicPartition("u", 0)}),
    start_ms=257,
    client_version=2,
)


def test_a_key_is_its_type_and_the_transactional_id() -> None:
    assert encode_key("ab") == bytes.fromhex("0000 0002 6162")
    assert decode_key(encode_key("ab")) == "ab"
    assert decode_key(bytes.fromhex("0001 0002 6162")) is None


def test_a_value_of_version_0_has_no_tagged_fields() -> None:
    assert encode_value(METADATA, 0) == bytes.fromhex(
        "0000"  # version
        "0000000000000007 0003 0000ea60 02"  # producer id, epoch, timeout, state
        "00000002 0001 74 00000002 00000000 00000001 0001 75 00000001 00000000"  # partitions
        "0000000000000102 0000000000000101"  # last update, start
    )
    expected = METADATA._replace(previous_producer_id=-1, next_producer_id=-1, client_version=0)
    assert decode_value("x", encode_value(METADATA, 0)) == expected


def test_a_value_of_version_1_has_the_producer_ids_around_it_and_the_clients_version() -> None:
    assert encode_value(METADATA, 2) == bytes.fromhex(
        "0001"
        "0000000000000007 0003 0000ea60 02"
        "03 02 74 03 00000000 00000001 00 02 75 02 00000000 00"
        "0000000000000102 0000000000000101"
        "03 00 08 0000000000000006 01 08 0000000000000008 02 02 0002"  # tagged fields
    )
    assert decode_value("x", encode_value(METADATA, 2)) == METADATA


def test_an_empty_state_has_null_partitions() -> None:
    empty = TransactionMetadata("x", 7, 60_000, 258, producer_epoch=0)
    assert encode_value(empty, 0) == bytes.fromhex(
        "0000 0000000000000007 0000 0000ea60 00 ffffffff 0000000000000102 ffffffffffffffff"
    )
    assert decode_value("x", encode_value(empty, 2)) == empty


@pytest.mark.parametrize(
    "value", ["", "00", "0002 00", "0000 0000000000000007 0000 0000ea60 09 ffffffff" + "00" * 16, "0000 00"]
)
def test_a_broken_value_is_refused(value: str) -> None:
    with pytest.raises(DecodeError):
        decode_value("x", bytes.fromhex(value))
