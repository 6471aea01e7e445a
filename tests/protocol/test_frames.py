"""Request and response frames.

An API version has its header version, and hostile headers are refused.
"""

import struct
import time

import pytest

from kafkapy.protocol import codec, frames
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.messages import response_class
from kafkapy.protocol.messages.api_table import API_SCHEMAS
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkapy.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from kafkapy.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkapy.protocol.types import ApiKey, Part


def test_a_request_header_is_read_back_with_the_place_of_the_body() -> None:
    for version in (0, 8, 9, 12):
        frame = frames.encode_request(MetadataRequest(), version, correlation_id=77, client_id="ж-client")
        assert struct.unpack(">i", frame[:4])[0] == len(frame) - 4
        header, body = frames.parse_request_header(memoryview(frame)[4:])
        assert header == frames.RequestHeader(ApiKey.METADATA, version, 77, "ж-client")
        assert codec.decode_from(MetadataRequest, frame[4:], body, version)[1] == len(frame) - 4


def test_the_client_id_keeps_its_two_byte_length_in_flexible_versions() -> None:
    frame = frames.encode_request(MetadataRequest(topics=[]), 9, correlation_id=1, client_id="me")
    assert frame[4:17] == struct.pack(">hhih", 3, 9, 1, 2) + b"me" + b"\0"


def test_a_null_client_id_is_an_empty_one() -> None:
    frame = frames.encode_request(MetadataRequest(), 9, client_id=None)
    assert frames.parse_request_header(frame[4:])[0].client_id == ""


def test_controlled_shutdown_version_0_has_no_client_id() -> None:
    frame = frames.encode_request(ControlledShutdownRequest(broker_id=5), 0, correlation_id=9)
    header, body = frames.parse_request_header(frame[4:])
    assert (header.correlation_id, body, len(frame)) == (9, 8, 16)


def test_a_version_that_does_not_exist_yet_still_has_a_readable_header() -> None:
    frame = frames.encode_request(ApiVersionsRequest(), 3, correlation_id=4, client_id="new")
    frame = frame[:6] + struct.pack(">h", 99) + frame[8:]
    assert frames.parse_request_header(frame[4:])[0] == frames.RequestHeader(
        ApiKey.API_VERSIONS, 99, 4, "new"
    )


def test_an_api_versions_response_never_has_header_tags() -> None:
    (part,) = frames.response_parts(ApiKey.API_VERSIONS, 3, 6, ApiVersionsResponse(error_code=35))
    assert isinstance(part, bytes)
    assert part[:10] == struct.pack(">iih", len(part) - 4, 6, 35)
    assert frames.decode_response(ApiKey.API_VERSIONS, 3, part[4:]) == (6, ApiVersionsResponse(error_code=35))


@pytest.mark.parametrize(("version", "header"), [(8, 8), (9, 9)])
def test_a_response_header_has_tags_in_flexible_versions(version: int, header: int) -> None:
    response = MetadataResponse(cluster_id="c")
    (part,) = frames.response_parts(ApiKey.METADATA, version, 3, response)
    assert isinstance(part, bytes)
    assert len(part) == header + len(codec.encode(response, version))
    assert frames.decode_response(ApiKey.METADATA, version, part[4:]) == (3, response)


@pytest.mark.parametrize(
    ("key", "version"), [(ApiKey.METADATA, 8), (ApiKey.METADATA, 9), (ApiKey.API_VERSIONS, 3)]
)
def test_a_response_that_is_encoded_already_has_the_same_frame(key: ApiKey, version: int) -> None:
    response = MetadataResponse(cluster_id="c") if key == ApiKey.METADATA else ApiVersionsResponse()
    body = codec.encode(response, version)
    assert [frames.response_frame(key, version, 3, body)] == frames.response_parts(key, version, 3, response)


class Slice:
    """A stand-in for records that stay in a file."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


def test_records_are_parts_of_their_own_and_the_size_counts_them() -> None:
    records: list[Part | None] = [Slice(1000), memoryview(b"abc"), b"", None, Slice(5)]
    partitions = [PartitionData(partition_index=index, records=part) for index, part in enumerate(records)]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])
    for version in (4, 12):
        parts = frames.response_parts(ApiKey.FETCH, version, 1, response)
        assert [part for part in parts if not isinstance(part, bytes)] == [records[0], records[1], records[4]]
        assert isinstance(parts[0], bytes)
        sizes = [len(part) if isinstance(part, bytes) else part.nbytes for part in parts]
        assert struct.unpack(">i", parts[0][:4])[0] == sum(sizes) - 4
        whole = b"".join(
            part if isinstance(part, (bytes, memoryview)) else bytes(part.nbytes) for part in parts
        )
        _, found = frames.decode_response(ApiKey.FETCH, version, whole[4:])
        assert isinstance(found, FetchResponse)
        assert [part.records for part in found.responses[0].partitions] == [
            bytes(1000),
            b"abc",
            b"",
            None,
            bytes(5),
        ]


def test_records_of_a_decoded_message_are_a_view_of_the_received_bytes() -> None:
    response = FetchResponse(
        responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(records=b"abcd")])]
    )
    received = bytearray(codec.encode(response, 12))
    records = codec.decode(FetchResponse, received, 12).responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert not records.readonly
    records[:] = b"WXYZ"
    assert b"WXYZ" in received


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0",
        b"\0\3\0\x09",
        struct.pack(">hhih", 3, 9, 1, -2) + b"\0",
        struct.pack(">hhih", 3, 9, 1, 5) + b"ab",
        struct.pack(">hhih", 3, 9, 1, -1),
        struct.pack(">hhih", 3, 9, 1, -1) + b"\x01",
        struct.pack(">hhih", 3, 9, 1, -1) + b"\x01\x00\x05abc",
        struct.pack(">hhih", 3, 9, 1, -1) + b"\xff\xff\xff\xff\xff\x01",
        struct.pack(">hhih", 1234, 0, 1, -1),
        struct.pack(">hhih", -1, 0, 1, -1),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_a_broken_request_header_is_a_decode_error(frame: bytes) -> None:
    with pytest.raises(DecodeError):
        frames.parse_request_header(memoryview(frame))


def test_a_header_may_carry_a_few_unknown_tagged_fields() -> None:
    head = struct.pack(">hhih", 3, 9, 1, -1)
    frame = head + b"\x02" + b"\x00\x03abc" + b"\xff\x7f\x00"
    assert frames.parse_request_header(frame)[1] == len(frame)


def test_a_header_of_20_million_tagged_fields_is_refused_at_once() -> None:
    count = 20_000_000
    frame = memoryview(struct.pack(">hhih", 3, 9, 1, -1) + b"\x80\xda\xc4\x09" + b"\x00\x00" * count)
    started = time.perf_counter()
    with pytest.raises(DecodeError, match="more values"):
        frames.parse_request_header(frame)
    assert time.perf_counter() - started < 0.5


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\0\0\1",
        b"\0\0\0\1\x80",
        b"\0\0\0\1\x01",
        b"\0\0\0\1\x01\x05\xff",
        b"\0\0\0\1\xff\xff\xff\xff\xff",
        b"\0\0\0\1\x7f" + bytes(300),
    ],
)
def test_a_broken_response_header_is_a_decode_error(frame: bytes) -> None:
    with pytest.raises(DecodeError):
        frames.decode_response(ApiKey.METADATA, 9, frame)


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT])
def test_an_encoded_response_gets_another_throttle_time(key: ApiKey) -> None:
    told = 0
    for version in range(API_SCHEMAS[key].first_version, API_SCHEMAS[key].last_version + 1):
        parts = frames.response_parts(key, version, 7, response_class(key)())
        (whole,) = parts
        assert isinstance(whole, bytes)
        head = len(frames.response_frame(key, version, 7, b""))
        shared = frames.shared_response(key, version, 7, whole[head:])
        for form in (parts, shared) if key == ApiKey.METADATA else (parts,):
            patched = frames.with_throttle_time(form, key, version, 1234)
            frame = b"".join(part for part in patched if isinstance(part, bytes))
            correlation_id, decoded = frames.decode_response(key, version, frame[4:])
            assert (correlation_id, len(frame)) == (7, len(whole))
            told += decoded.throttle_time_ms == 1234  # type: ignore[attr-defined]
            assert (decoded.throttle_time_ms == 0) == (frame == whole)  # type: ignore[attr-defined]
    assert told >= 4
