"""The format of `__consumer_offsets`."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.coordination.partitioning import java_hash, partition_of
from kafkapy.groups.classic.metadata import group_metadata, restore_group
from kafkapy.groups.classic.records import decode_group_value, encode_group_key, encode_group_value
from kafkapy.groups.offsets.records import MAX_PARTITION_KEYS, offset_records
from kafkapy.groups.records import GroupKey, OffsetKey, decode_key
from kafkapy.protocol.codec import encode
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
)
from kafkapy.protocol.types import TopicPartition
from tests.groups.group_world import World

int32s = st.integers(-(2**31), 2**31 - 1)


@given(st.text(), st.text(), int32s)
def test_an_offset_key_is_what_the_codec_makes_of_it(group: str, topic: str, partition: int) -> None:
    names = [TopicPartition(topic, partition), TopicPartition(topic, 0), TopicPartition("t", partition)]
    offsets = {name: None if name.partition else b"value" for name in names}
    for name, (key, value) in zip(offsets, offset_records(group, offsets), strict=True):
        expected = OffsetCommitKey(group=group, topic=name.topic, partition=name.partition)
        assert key == b"\x00\x01" + encode(expected, 0)
        assert decode_key(key) == OffsetKey(group, name)
        assert value is offsets[name]


def test_keys_are_right_for_more_partitions_than_are_remembered() -> None:
    names = [TopicPartition("t", number) for number in range(MAX_PARTITION_KEYS + 1)]
    for _ in range(2):
        records = offset_records("g", dict.fromkeys(names))
        assert [decode_key(key) for key, _ in records] == [OffsetKey("g", name) for name in names]


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_every_version_of_a_group_is_understood(version: int) -> None:
    value = GroupMetadataValue(protocol_type="consumer", generation=3, protocol=None, leader=None)
    assert decode_group_value(struct.pack(">h", version) + encode(value, version)).generation == 3


def test_a_group_is_restored_as_it_was_stored() -> None:
    world = World()
    ids = world.stable(3)
    group = world.group
    assignments = {key: member.assignment for key, member in group.members.items()}
    restored = restore_group("g", decode_group_value(encode_group_value(group_metadata(group, assignments))))
    assert restored.generation == group.generation
    assert restored.leader == ids[0]
    assert restored.state_timestamp == group.state_timestamp
    assert restored.subscribed == group.subscribed
    assert list(restored.members) == list(group.members)
    for key, member in restored.members.items():
        assert member.assignment == key.encode()
        assert member.protocols == group.members[key].protocols


def test_a_group_key_is_of_type_2() -> None:
    assert encode_group_key("g") == b"\x00\x02" + encode(GroupMetadataKey(group="g"), 0)
    assert decode_key(encode_group_key("g")) == GroupKey("g")


def test_the_first_key_type_is_understood_too() -> None:
    ((key, _),) = offset_records("g", {TopicPartition("t", 1): None})
    assert decode_key(b"\x00\x00" + key[2:]) == OffsetKey("g", TopicPartition("t", 1))


@pytest.mark.parametrize("kind", [9, 18, 99])
def test_records_of_other_kinds_of_groups_are_left_alone(kind: int) -> None:
    assert decode_key(struct.pack(">h", kind) + b"anything") is None


@pytest.mark.parametrize("broken", [b"", b"\x00", b"\x00\x01\x00\x09g", b"\x00\x02\xff\xff"])
def test_a_broken_key_is_a_decode_error(broken: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_key(broken)


@pytest.mark.parametrize("broken", [b"", b"\x00\x05", b"\xff\xff", b"\x00\x03\x00"])
def test_a_broken_value_is_a_decode_error(broken: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_group_value(broken)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("g", 103),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("\U0001d11e", 55348 * 31 + 56606),
    ],
)
def test_a_string_has_javas_hash_code(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_a_groups_partition_is_kafkas() -> None:
    assert partition_of("hello", 50) == 22
    assert partition_of("polygenelubricants", 50) == 0  # Utils.abs of the smallest int
    assert all(0 <= partition_of(f"group-{n}", 50) < 50 for n in range(1000))
