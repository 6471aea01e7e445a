"""Records of coordinators: a type or a version, then a message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkapy.groups.classic.records import decode_group_value
from kafkapy.groups.consumer.records import CONSUMER_RECORDS
from kafkapy.groups.offsets.committed_offset import decode_offset
from kafkapy.protocol.coordinator_records import decode_key, decode_value, encode_key, encode_value, type_of
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.messages.consumer_group_records import ConsumerGroupMetadataKey
from kafkapy.protocol.messages.group_records import GroupMetadataKey
from kafkapy.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue
from kafkapy.share.state_records import SNAPSHOT, ShareKey, decode_record, encode_record
from kafkapy.transactions import records as transactions

SNAPSHOT_KEY, _ = encode_record(ShareKey("g", bytes(16), 0), None)


def test_a_key_is_its_type_and_a_message_in_version_0() -> None:
    key = encode_key(2, GroupMetadataKey(group="ab"))
    assert key == bytes.fromhex("0002 0002 6162")
    assert type_of(key) == 2
    assert decode_key(GroupMetadataKey, key) == GroupMetadataKey(group="ab")


def test_a_value_is_its_version_and_a_message_in_that_version() -> None:
    for version in (0, 1):
        value = TransactionLogValue(producer_id=7, transaction_status=0, transaction_partitions=None)
        encoded = encode_value(value, version)
        assert encoded[:2] == bytes((0, version))
        assert decode_value(TransactionLogValue, encoded) == (value, version)


@pytest.mark.parametrize("key", [b"", b"\0"])
def test_a_key_without_a_type_is_refused(key: bytes) -> None:
    with pytest.raises(DecodeError, match="the key is shorter than its type"):
        type_of(key)


def test_a_key_that_ends_too_early_is_refused() -> None:
    with pytest.raises(DecodeError, match="TransactionLogKey v0: "):
        decode_key(TransactionLogKey, bytes.fromhex("0000 0002 61"))


@pytest.mark.parametrize(
    "decode",
    [
        pytest.param(decode_group_value, id="a classic group"),
        pytest.param(decode_offset, id="a committed offset"),
        pytest.param(
            lambda value: CONSUMER_RECORDS.decode_change(ConsumerGroupMetadataKey(group_id="g"), value),
            id="a consumer group",
        ),
        pytest.param(lambda value: transactions.decode_value("x", value), id="a transaction"),
        pytest.param(lambda value: decode_record(SNAPSHOT_KEY, value), id="a share partition"),
    ],
)
def test_every_coordinator_refuses_a_value_without_a_version_or_of_an_unknown_one(
    decode: Callable[[bytes], object],
) -> None:
    with pytest.raises(DecodeError, match="the value is shorter than its version"):
        decode(b"\0")
    for version in (-1, 32_767):
        with pytest.raises(DecodeError, match=f" has no version {version}"):
            decode(version.to_bytes(2, "big", signed=True) + bytes(100))


def test_the_type_of_a_share_partitions_key_is_that_of_its_record() -> None:
    assert type_of(SNAPSHOT_KEY) == SNAPSHOT
