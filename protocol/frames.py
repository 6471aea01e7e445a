"""Frames: the 4-byte size and the header around every request and response.

    request   size int32 | api key int16, api version int16, correlation id int32, client id, [tags] | body
    response  size int32 | correlation id int32, [tags] | body

Flexible versions of a body have the headers with tags: request header version 2 and response header
version 1. The client id has an int16 length in all of them. There are two exceptions. An ApiVersions response
always has header version 0, since the client may not know yet which versions the broker supports (KIP-511).
ControlledShutdown version 0 has request header version 0, without a client id.

Headers are read before the client is authenticated, so they may have only a few tagged fields. No Kafka
release defines any.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkapy.protocol import codec
from kafkapy.protocol.errors import DecodeError, EncodeError
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages import response_class
from kafkapy.protocol.messages.api_table import API_SCHEMAS
from kafkapy.protocol.primitives import Buffer, decode_invalid, read_uvarint, skip_tags
from kafkapy.protocol.types import ApiKey, Part

MAX_HEADER_TAGS = 32

MAX_PATCHED_BYTES = 16 << 10
"""The largest response that is decoded to set its throttle time."""

_HEADER = struct.Struct(">hhi")
_HEADER_AND_LENGTH = struct.Struct(">hhih")
_SIZE_AND_CORRELATION_ID = struct.Struct(">ii")
_SIZE_CORRELATION_ID_AND_NO_TAGS = struct.Struct(">iix")
_HEAD = _SIZE_AND_CORRELATION_ID.size
_HEAD_WITH_TAGS = _SIZE_CORRELATION_ID_AND_NO_TAGS.size

_CONTROLLED_SHUTDOWN = int(ApiKey.CONTROLLED_SHUTDOWN)
_API_VERSIONS = int(ApiKey.API_VERSIONS)
_NEVER = 1 << 15
_FLEXIBLE_FROM = {
    key: _NEVER if api.flexible_from is None else api.flexible_from for key, api in API_SCHEMAS.items()
}


@dataclass(slots=True)
class RequestHeader:
    """The header of a request.

    No named tuple: its fields are read a dozen times, which takes longer than to make it.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    """Empty if the client sent null, as in Kafka."""
    arrived_at: float = 0.0
    """When the request had arrived, by `time.monotonic`; set by its connection."""
    nbytes: int = 0
    """The size of the request without its size field; set by its connection."""
    spent: float = 0.0
    """The seconds of the event loop that it took until it waited last; kept while there are quotas."""
    resumed_at: float = 0.0
    """When its present step began, after it has waited; 0.0 between its steps."""
    is_exempt: bool = False
    """Whether quotas do not count it: another broker sent it, or it is counted already."""
    read_at: float = 0.0
    """When its bytes were received; this and what follows is set while metrics are on.

    See kafkapy/network/request_metrics.py.
    """
    started_at: float = 0.0
    handled_at: float = 0.0
    ready_at: float = 0.0
    is_of_follower: bool = False
    errors: Mapping[int, int] | None = None
    """The errors by code in an answer that was encoded in a thread; None if it was not."""
    shown: str = field(init=False, repr=False, compare=False)
    """The request as the log shows it; set only while all requests are logged (network/request_log.py)."""

    def busy_seconds(self, now: float) -> float:
        """The seconds of the event loop that it has taken."""
        if not self.spent:
            return now - self.arrived_at
        return self.spent + (now - self.resumed_at if self.resumed_at else 0.0)


def parse_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Return the header of a frame (without its size) and where the body starts.

    The version may not exist, since an ApiVersions request with a newer version has to be answered.

    Raises:
        DecodeError: the API key does not exist, so that the end of the header is unknown, or the header is
            malformed.
    """
    try:
        api_key, api_version, correlation_id, length = _HEADER_AND_LENGTH.unpack_from(frame)
        flexible_from = _FLEXIBLE_FROM.get(api_key)
        if flexible_from is None:
            raise DecodeError(f"request header: no API has key {api_key}")
        if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
            return RequestHeader(api_key, api_version, correlation_id, ""), _HEADER.size
        position = _HEADER_AND_LENGTH.size
        client_id = ""
        if length > 0:
            end = position + length
            if end > len(frame):
                raise DecodeError("request header: client id longer than the frame")
            try:
                client_id = str(frame[position:end], "utf-8")
            except UnicodeDecodeError:
                client_id = decode_invalid(frame[position:end])
            position = end
        elif length < -1:
            raise DecodeError("request header: negative length of the client id")
        if api_version >= flexible_from:
            if frame[position] == 0:
                position += 1
            else:
                position, _ = skip_tags(frame, position, len(frame), MAX_HEADER_TAGS)
        return RequestHeader(api_key, api_version, correlation_id, client_id), position
    except (struct.error, IndexError):
        raise DecodeError("request header: ends too early") from None


def response_parts(api_key: int, api_version: int, correlation_id: int, response: TopMessage) -> list[Part]:
    """Return the complete frame, which starts with its size; records are separate parts."""
    first, parts = codec.encode_parts(response, api_version)
    size = len(first)
    if parts:
        size += sum(len(part) if isinstance(part, bytes) else part.nbytes for part in parts)
    return [_response_head(api_key, api_version, correlation_id, size) + first, *parts]


def response_frame(api_key: int, api_version: int, correlation_id: int, body: bytes) -> bytes:
    """Return the complete frame of a response that is encoded already."""
    return _response_head(api_key, api_version, correlation_id, len(body)) + body


def shared_response(api_key: int, api_version: int, correlation_id: int, body: bytes) -> list[Part]:
    """Return the complete frame of an encoded response whose `body` others send too.

    The body is a part of its own, and is not copied.
    """
    return [_response_head(api_key, api_version, correlation_id, len(body)), body]


def with_throttle_time(
    parts: list[Part], api_key: int, api_version: int, throttle_time_ms: int
) -> list[Part]:
    """Return the parts of an encoded response with another throttle time.

    If its version has none, it is left as it is. So is a large response whose throttle time is
    not its first field: it would have to be decoded.
    """
    schema = codec.schema_of(response_class(api_key))
    fields = [field for field in schema.root.fields if api_version in field.versions]
    if not any(field.name == "throttle_time_ms" for field in fields):
        return parts
    first, head = parts[0], _HEAD_WITH_TAGS if _has_tags(api_key, api_version) else _HEAD
    assert isinstance(first, bytes)
    if fields[0].name == "throttle_time_ms":
        if len(first) > head:
            return [_patched(first, head, throttle_time_ms), *parts[1:]]
        body = parts[1]
        assert isinstance(body, bytes)
        return [first, _patched(body, 0, throttle_time_ms), *parts[2:]]
    if len(first) > MAX_PATCHED_BYTES:
        return parts
    correlation_id, response = decode_response(api_key, api_version, first[4:])
    response.throttle_time_ms = throttle_time_ms  # type: ignore[attr-defined]
    return response_parts(api_key, api_version, correlation_id, response)


def _patched(data: bytes, position: int, number: int) -> bytes:
    return data[:position] + struct.pack(">i", number) + data[position + 4 :]


def _has_tags(api_key: int, api_version: int) -> bool:
    return api_version >= _FLEXIBLE_FROM[api_key] and api_key != _API_VERSIONS


def _response_head(api_key: int, api_version: int, correlation_id: int, nbytes: int) -> bytes:
    """The size and the header of a response whose body has so many bytes."""
    if _has_tags(api_key, api_version):
        return _SIZE_CORRELATION_ID_AND_NO_TAGS.pack(nbytes + 5, correlation_id)
    return _SIZE_AND_CORRELATION_ID.pack(nbytes + 4, correlation_id)


def encode_request(
    message: TopMessage, api_version: int, correlation_id: int = 0, client_id: str | None = None
) -> bytes:
    """Return a complete request frame with its size, as a client sends it."""
    api_key = message.KEY
    if api_key is None:
        raise EncodeError(f"{type(message).__name__} is not a request")
    if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
        head = _HEADER.pack(api_key, api_version, correlation_id)
    else:
        name = (client_id or "").encode()
        length = -1 if client_id is None else len(name)
        head = _HEADER_AND_LENGTH.pack(api_key, api_version, correlation_id, length) + name
        if api_version >= _FLEXIBLE_FROM[api_key]:
            head += b"\0"
    body = codec.encode(message, api_version)
    return struct.pack(">i", len(head) + len(body)) + head + body


def decode_response(
    api_key: int, api_version: int, frame: Buffer, *, budget: int = codec.DEFAULT_BUDGET
) -> tuple[int, TopMessage]:
    """Return correlation id and response of a frame (without its size), as a client reads it."""
    if len(frame) < 5:
        raise DecodeError("response header: ends too early")
    correlation_id: int = struct.unpack_from(">i", frame)[0]
    position = 4
    if _has_tags(api_key, api_version):
        try:
            tags, _ = read_uvarint(frame[:9], position)
            if tags > MAX_HEADER_TAGS:
                raise DecodeError("response header: too many tagged fields")
            position, _ = skip_tags(frame, position, len(frame), MAX_HEADER_TAGS)
        except IndexError:
            raise DecodeError("response header: ends too early") from None
    return correlation_id, codec.decode_from(
        response_class(api_key), frame, position, api_version, budget=budget
    )[0]
