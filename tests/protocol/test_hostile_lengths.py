"""False lengths and counts are refused before an allocation.

So are messages that would fill the memory.
"""

import struct
import sys

import pytest

from kafkapy.protocol import codec
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.frames import parse_request_header
from kafkapy.protocol.messages.create_topics import CreateTopicsRequest
from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkapy.protocol.messages.fetch import FetchRequest
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.produce import ProduceRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.primitives import encode_uvarint, read_uvarint


def refused(message_class: type, data: bytes, version: int, match: str = ".") -> None:
    with pytest.raises(DecodeError, match=match):
        codec.decode(message_class, data, version)


@pytest.mark.parametrize(
    "count", [b"\x7f\xff\xff\xff", b"\x00\x00\x00\x02", b"\x80\x00\x00\x00", b"\xff\xff\xff\xfe"]
)
def test_an_array_count_beyond_the_message_or_negative_is_refused(count: bytes) -> None:
    refused(MetadataRequest, count + b"\0\0\0", 8)


@pytest.mark.parametrize(
    "count", [b"\xff\xff\xff\xff\x07", b"\x7f", b"\xff\xff\xff\xff\x0f", b"\x80" * 5 + b"\x01"]
)
def test_a_compact_count_beyond_the_message_or_overlong_is_refused(count: bytes) -> None:
    refused(MetadataRequest, count + b"\0\0\0", 9)


def test_an_array_of_numbers_beyond_the_message_is_refused() -> None:
    head = struct.pack(">iiiibii", -1, 0, 0, 0, 0, 0, -1)
    topics = struct.pack(">i", 0)
    refused(FetchRequest, head + topics + struct.pack(">ih1si", 1, 1, b"t", 0x7FFFFFFF), 7, "do not fit")


@pytest.mark.parametrize("length", [-2, -32768, 32767])
def test_a_string_length_that_lies_is_refused(length: int) -> None:
    refused(MetadataRequest, struct.pack(">ih", 1, length) + b"abc", 1)


@pytest.mark.parametrize("length", [-1, -2, 0x7FFFFFFF])
def test_a_bytes_length_that_lies_is_refused(length: int) -> None:
    refused(SaslAuthenticateRequest, struct.pack(">i", length) + b"abc", 0)


def test_a_compact_string_may_not_be_longer_than_an_old_one() -> None:
    assert codec.decode(DeleteGroupsRequest, b"\x02" + encode_uvarint(32768) + b"a" * 32767 + b"\0", 2)
    refused(DeleteGroupsRequest, b"\x02" + encode_uvarint(32769) + b"a" * 32768 + b"\0", 2, "32767")


def test_null_is_refused_where_the_version_does_not_allow_it() -> None:
    refused(MetadataRequest, struct.pack(">i", -1), 0, "negative|null")
    assert codec.decode(MetadataRequest, struct.pack(">i", -1), 1).topics is None


@pytest.mark.parametrize(
    ("name", "text"),
    [(b"m\xfcller", "m\ufffdller"), (b"\xc0\x80", "\ufffd\ufffd"), (b"\xed\xa0\x80", "\ufffd")],
)
def test_invalid_utf_8_is_replaced_as_java_does(name: bytes, text: str) -> None:
    request = codec.decode(MetadataRequest, struct.pack(">ih", 1, len(name)) + name, 1)
    assert [topic.name for topic in request.topics or ()] == [text]
    header, _ = parse_request_header(struct.pack(">hhih", 3, 1, 7, len(name)) + name)
    assert header.client_id == text


def test_invalid_utf_8_is_refused_where_its_replacement_cannot_be_sent_back() -> None:
    name = b"\xff" * 0x7FFF
    refused(MetadataRequest, struct.pack(">ih", 1, len(name)) + name, 1, "UTF-8")


def test_unknown_tagged_fields_are_skipped() -> None:
    plain = codec.encode(MetadataRequest(topics=[]), 9)
    tagged = plain[:-1] + b"\x02" + b"\x05\x03abc" + b"\xff\xff\x7f\x00"
    assert codec.decode(MetadataRequest, tagged, 9) == MetadataRequest(topics=[])


def test_a_tagged_field_must_have_the_size_that_it_claims() -> None:
    plain = codec.encode(FetchRequest(), 12)
    assert codec.decode(FetchRequest, plain[:-1] + b"\x01\x00\x03\x03me", 12).cluster_id == "me"
    refused(FetchRequest, plain[:-1] + b"\x01\x00\x04\x03me!", 12, "size")
    refused(FetchRequest, plain[:-1] + b"\x01\x00\x02\x03me", 12, "size")


def test_a_repeated_tag_counts_as_its_last_value_as_in_kafka() -> None:
    plain = codec.encode(FetchRequest(), 12)
    twice = plain[:-1] + b"\x02" + b"\x00\x03\x03me" + b"\x00\x04\x04you"
    assert codec.decode(FetchRequest, twice, 12).cluster_id == "you"


def test_bytes_after_the_message_are_ignored_as_in_kafka() -> None:
    message, end = codec.decode_from(MetadataRequest, b"##" + struct.pack(">i", -1) + b"rest", 2, 1)
    assert (message.topics, end) == (None, 6)


def test_a_version_that_does_not_exist_is_refused() -> None:
    for version in (-1, 14, 32767):
        refused(MetadataRequest, bytes(100), version, "no version")


def test_millions_of_empty_elements_cost_nothing() -> None:
    data = encode_uvarint(5_000_001) + b"\x01\x00" * 5_000_000
    refused(MetadataRequest, data, 9, "more values")
    before = sys.getallocatedblocks()
    refused(MetadataRequest, data, 9, "more values")
    assert sys.getallocatedblocks() - before < 1000


def test_nested_counts_share_one_budget() -> None:
    topic = struct.pack(">hihi", 0, 1, 1, 1000) + struct.pack(">ii", 0, 0) * 1000 + struct.pack(">i", 0)
    request = struct.pack(">i", 300) + topic * 300 + struct.pack(">i?", 0, False)
    refused(CreateTopicsRequest, request, 2, "more values")
    request = struct.pack(">i", 30) + topic * 30 + struct.pack(">i?", 0, False)
    assert len(codec.decode(CreateTopicsRequest, request, 2).topics) == 30


def test_millions_of_tagged_fields_are_refused() -> None:
    plain = codec.encode(MetadataRequest(topics=[]), 9)
    refused(
        MetadataRequest, plain[:-1] + encode_uvarint(3_000_000) + b"\x09\x00" * 3_000_000, 9, "more values"
    )
    known = codec.encode(ProduceRequest(acks=1), 9)
    refused(
        ProduceRequest, known[:-1] + encode_uvarint(3_000_000) + b"\x09\x00" * 3_000_000, 9, "more values"
    )


def test_a_caller_that_trusts_its_peer_may_allow_more() -> None:
    data = encode_uvarint(250_001) + b"\x02a" * 250_000 + b"\x00"
    refused(DeleteGroupsRequest, data, 2, "more values")
    assert len(codec.decode(DeleteGroupsRequest, data, 2, budget=1_000_000).groups_names) == 250_000


def test_varints_of_up_to_five_bytes_are_read_as_kafka_reads_them() -> None:
    for value in (0, 1, 127, 128, 16383, 16384, 2**21, 2**28 - 1, 2**28, 2**31 - 1):
        assert read_uvarint(encode_uvarint(value), 0) == (value, len(encode_uvarint(value)))
    assert read_uvarint(b"\x80\x80\x00", 0) == (0, 3)
    for overlong in (b"\x80\x80\x80\x80\x80\x00", b"\xff\xff\xff\xff\x08", b"\xff\xff\xff\xff\x7f"):
        with pytest.raises(DecodeError):
            read_uvarint(overlong, 0)
