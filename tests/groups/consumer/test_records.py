"""The records of consumer groups, as Apache Kafka reads them."""

from __future__ import annotations

import pytest

from kafkapy.groups.consumer.member import ClassicProtocol, ConsumerMember
from kafkapy.groups.consumer.records import (
    CONSUMER_RECORDS,
    member_metadata,
    read_classic,
)
from kafkapy.groups.modern.change import encode_change
from kafkapy.protocol.messages.consumer_group_records import ConsumerGroupMemberMetadataValue

NULL_CLASSIC_METADATA = bytes.fromhex("01 00 01 00")
"""One tagged field: tag 0, one byte, null. Without it, Kafka reads an empty struct: a classic member."""


@pytest.mark.parametrize("classic", [None, ClassicProtocol(6_000, (("range", b"subscription"),))])
def test_a_member_says_whether_it_uses_the_classic_protocol(classic: ClassicProtocol | None) -> None:
    change = member_metadata("group", ConsumerMember("member", classic=classic))
    _, value = encode_change(change)
    assert value is not None
    assert value.endswith(NULL_CLASSIC_METADATA) == (classic is None)
    read = CONSUMER_RECORDS.decode_change(change.key, value).value
    assert isinstance(read, ConsumerGroupMemberMetadataValue)
    assert read_classic(read.classic_member_metadata) == classic
