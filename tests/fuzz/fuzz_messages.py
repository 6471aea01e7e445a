"""Fuzz targets: every message in every version, and the headers of requests and responses.

What decodes must encode again to something that decodes to the same message.
"""

import random
from collections.abc import Sequence

from kafkapy.protocol import codec, frames
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages import request_class, response_class
from kafkapy.protocol.messages.api_table import API_SCHEMAS
from kafkapy.protocol.types import ApiKey
from tests.fuzz.fuzzing import Target
from tests.protocol.random_messages import message_classes, random_message, versions_of


def message_target(message_class: type[TopMessage], version: int) -> Target:
    def seeds(source: random.Random) -> Sequence[bytes]:
        return [codec.encode(random_message(source, message_class, version), version) for _ in range(8)]

    def run(data: bytes) -> None:
        try:
            message = codec.decode(message_class, data, version)
        except DecodeError:
            return
        again = codec.decode(message_class, memoryview(codec.encode(message, version)), version)
        if again != message and repr(again) != repr(message):  # NaN differs from itself
            raise AssertionError(f"not the same after encoding: {message} and {again}")

    return Target(f"{message_class.__name__}-v{version}", seeds, run)


def header_target(api_key: ApiKey, version: int, name: str) -> Target:
    def seeds(source: random.Random) -> Sequence[bytes]:
        request = random_message(source, request_class(api_key), version)
        clients = [None, "", "client", "ж" * 100]
        return [frames.encode_request(request, version, 7, client)[4:] for client in clients]

    def run(data: bytes) -> None:
        try:
            header, position = frames.parse_request_header(memoryview(data))
        except DecodeError:
            return
        assert header.api_key in API_SCHEMAS
        assert 0 < position <= len(data)

    return Target(name, seeds, run)


def response_target(api_key: ApiKey, version: int) -> Target:
    def seeds(source: random.Random) -> Sequence[bytes]:
        response = random_message(source, response_class(api_key), version)
        parts = frames.response_parts(api_key, version, 7, response)
        return [b"".join(part for part in parts if isinstance(part, bytes | memoryview))[4:]]

    def run(data: bytes) -> None:
        try:
            frames.decode_response(api_key, version, data)
        except DecodeError:
            return

    return Target(f"response-header-{api_key.name}-v{version}", seeds, run)


TARGETS = [
    header_target(ApiKey.CONTROLLED_SHUTDOWN, 0, "request-header-v0"),
    header_target(ApiKey.METADATA, 1, "request-header-v1"),
    header_target(ApiKey.METADATA, 12, "request-header-v2"),
    response_target(ApiKey.METADATA, 1),
    response_target(ApiKey.METADATA, 12),
    response_target(ApiKey.API_VERSIONS, 3),
    *(message_target(found, version) for found in message_classes() for version in versions_of(found)),
]
