"""The compiled codec against the reference.

Both get all messages and versions, and broken bytes.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkapy.protocol import codec
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.offset_commit import OffsetCommitRequest
from kafkapy.protocol.types import TopicPartition
from tests.protocol import reference
from tests.protocol.random_messages import message_classes, random_message, versions_of

ALL = message_classes()
every_message = pytest.mark.parametrize(
    "message_class", ALL, ids=lambda message_class: message_class.__name__
)
seeds = st.integers(0, 2**64 - 1)


def mutated(source: random.Random, data: bytes) -> bytes:
    """The same bytes after one to three random changes."""
    broken = bytearray(data)
    for _ in range(source.randint(1, 3)):
        position = source.randint(0, len(broken))
        match source.randint(0, 4):
            case 0:
                del broken[position:]
            case 1:
                broken[position : position + 1] = source.choice((b"\xff", b"\x80", b"\x00", b"\x7f"))
            case 2:
                broken[position : position + 4] = source.choice(
                    (b"\xff" * 4, b"\x7f\xff\xff\xff", b"\0\0\0\1")
                )
            case 3:
                del broken[position : position + source.randint(1, 9)]
            case 4:
                broken[position:position] = source.randbytes(source.randint(1, 9))
    return bytes(broken)


def outcome(decode: object, message_class: type[TopMessage], data: bytes, version: int) -> TopMessage | None:
    try:
        found = decode(message_class, data, version)  # type: ignore[operator]
    except DecodeError:
        return None
    assert isinstance(found, message_class)
    return found


@every_message
@settings(max_examples=8)
@given(seed=seeds)
def test_both_codecs_write_the_same_bytes_and_read_the_same_message(
    message_class: type[TopMessage], seed: int
) -> None:
    source = random.Random(seed)
    for version in versions_of(message_class):
        message = random_message(source, message_class, version)
        data = codec.encode(message, version)
        assert data == reference.encode(message, version)
        assert reference.decode(message_class, data, version) == message
        for form in (data, memoryview(data), bytearray(data)):
            assert codec.decode(message_class, form, version) == message


@every_message
@settings(max_examples=8)
@given(seed=seeds)
def test_broken_bytes_are_a_decode_error_or_the_message_that_the_reference_reads(
    message_class: type[TopMessage], seed: int
) -> None:
    source = random.Random(seed)
    for version in versions_of(message_class):
        data = mutated(source, codec.encode(random_message(source, message_class, version), version))
        found = outcome(codec.decode, message_class, data, version)
        expected = outcome(reference.decode, message_class, data, version)
        assert repr(found) == repr(expected)
        assert repr(outcome(codec.decode, message_class, memoryview(data), version)) == repr(expected)  # type: ignore[arg-type]


@every_message
@settings(max_examples=8)
@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_are_a_decode_error_or_the_message_that_the_reference_reads(
    message_class: type[TopMessage], data: bytes
) -> None:
    for version in versions_of(message_class):
        found = outcome(codec.decode, message_class, data, version)
        assert repr(found) == repr(outcome(reference.decode, message_class, data, version))


@every_message
def test_a_message_cut_anywhere_is_a_decode_error(message_class: type[TopMessage]) -> None:
    source = random.Random(7)
    for version in versions_of(message_class):
        data = codec.encode(random_message(source, message_class, version), version)
        for length in range(0, len(data), max(1, len(data) // 50)):
            with pytest.raises(DecodeError):
                codec.decode(message_class, data[:length], version)


@every_message
def test_a_fresh_message_can_be_written_in_every_version(message_class: type[TopMessage]) -> None:
    for version in versions_of(message_class):
        message = message_class()
        assert codec.decode(message_class, codec.encode(message, version), version) == message


BLANKS = [object.__new__] if codec.blank is object.__new__ else [object.__new__, codec.blank]


@pytest.mark.parametrize("blank", BLANKS)
def test_a_blank_message_has_no_field_until_it_is_set(blank: Callable[[type[object]], Any]) -> None:
    message = blank(OffsetCommitRequest)
    assert type(message) is OffsetCommitRequest
    assert not any(hasattr(message, name) for name in OffsetCommitRequest.__slots__)
    message.group_id = "g"
    assert message.group_id == "g"


LISTS = [codec.blanks_purely, *([] if codec.blanks is codec.blanks_purely else [codec.blanks])]


@pytest.mark.parametrize("blanks", LISTS)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_as_many_blank_messages_are_made_as_are_asked_for(
    blanks: Callable[[type[object], int], list[Any]], count: int
) -> None:
    messages = blanks(OffsetCommitRequest, count)
    assert [type(message) for message in messages] == [OffsetCommitRequest] * count
    assert len({id(message) for message in messages}) == count
    assert not any(hasattr(each, name) for each in messages for name in OffsetCommitRequest.__slots__)
    with pytest.raises(TypeError):
        blanks(dict, 1)


@pytest.mark.parametrize("blank", BLANKS)
@pytest.mark.parametrize("wrong", [dict, TopicPartition, OffsetCommitRequest(), 7], ids=repr)
def test_only_objects_that_python_builds_alone_can_be_blank(
    blank: Callable[[Any], object], wrong: object
) -> None:
    with pytest.raises(TypeError):
        blank(wrong)
