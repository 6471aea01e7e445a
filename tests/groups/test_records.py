"""The format of `__consumer_offsets`."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.coordination.partitioning import java_hash, partition_of
from kafkapy.groups.classic.metadata import group_metadata, restore_group
from kafkapy.groups.offsets import CommittedOffset
from kafkapy.groups.records import (
    GroupKey,
    OffsetKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
    decode_offset_value_by_codec,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
    offset_key_parts,
)
from kafkapy.protocol.codec import encode
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkapy.protocol.types import ZERO_UUID, TopicPartition
from tests.groups.group_world import World

int64s = st.integers(-(2**63), 2**63 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
offsets = st.builds(
    CommittedOffset,
    int64s,
    int32s,
    st.text(max_size=200),
    int64s,
    st.just(-1) | st.integers(0, 2**63 - 1),
    st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16),
)


@given(st.text(), st.text(), int32s)
def test_an_offset_key_is_what_the_codec_makes_of_it(group: str, topic: str, partition: int) -> None:
    key = encode_offset_key(group, TopicPartition(topic, partition))
    assert key == b"\x00\x01" + encode(OffsetCommitKey(group=group, topic=topic, partition=partition), 0)
    assert decode_key(key) == OffsetKey(group, TopicPartition(topic, partition))


@given(offsets)
def test_an_offset_value_is_what_the_codec_makes_of_it(committed: CommittedOffset) -> None:
    encoded = encode_offset_value(committed)
    version = 4 if committed.expire_timestamp == -1 else 1
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp,
        expire_timestamp=committed.expire_timestamp,
        topic_id=committed.topic_id,
    )
    assert encoded == struct.pack(">h", version) + encode(value, version)


@given(offsets)
def test_what_is_written_of_an_offset_is_read_again(committed: CommittedOffset) -> None:
    read = decode_offset_value(encode_offset_value(committed))
    if committed.expire_timestamp == -1:
        assert read == committed
    else:
        assert read == committed._replace(leader_epoch=-1, topic_id=ZERO_UUID)


changes = st.tuples(st.integers(0, 79), st.none() | st.binary(max_size=3))
"""At a place that may be in the bytes, they end there, or others come between."""


def changed(data: bytes, change: tuple[int, bytes | None]) -> bytes:
    place, inserted = change
    return data[:place] if inserted is None else data[:place] + inserted + data[place + len(inserted) :]


@given(offsets, changes)
def test_bytes_of_an_offset_are_read_as_the_codec_reads_them(
    committed: CommittedOffset, change: tuple[int, bytes | None]
) -> None:
    data = changed(encode_offset_value(committed), change)

    def outcome(decode: Callable[[bytes], CommittedOffset]) -> CommittedOffset | None:
        try:
            return decode(data)
        except DecodeError:
            return None

    assert outcome(decode_offset_value) == outcome(decode_offset_value_by_codec)


@given(st.text(max_size=20), st.text(max_size=20), int32s, changes)
def test_the_parts_of_an_offset_key_are_those_that_the_codec_finds(
    group: str, topic: str, partition: int, change: tuple[int, bytes | None]
) -> None:
    key = encode_offset_key(group, TopicPartition(topic, partition))
    for data in (key, changed(key, change)):
        parts = offset_key_parts(data)
        if parts is None:
            assert data != key
            continue
        try:
            found = decode_key(data)
        except DecodeError:
            continue  # the bytes of the partition are broken: whoever needs them asks the codec
        assert isinstance(found, OffsetKey)
        assert (found.group_id, encode_offset_key("", found.partition)[4:]) == parts


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_every_version_of_an_offset_is_understood(version: int) -> None:
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=6)
    read = decode_offset_value(struct.pack(">h", version) + encode(value, version))
    assert (read.offset, read.metadata, read.commit_timestamp, read.expire_timestamp) == (5, "m", 6, -1)


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
    key = encode_offset_key("g", TopicPartition("t", 1))
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
        decode_offset_value(broken)
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
