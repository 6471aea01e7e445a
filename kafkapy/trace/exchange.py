"""A request and its answer, as frames with times, and the messages in them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Final

from kafkapy.protocol import codec
from kafkapy.protocol.errors import DecodeError, EncodeError, ErrorCode
from kafkapy.protocol.frames import (
    RequestHeader,
    decode_response,
    encode_request,
    parse_request_header,
    response_frame,
)
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages import request_class, response_class
from kafkapy.protocol.messages.api_table import API_SCHEMAS
from kafkapy.protocol.types import ApiKey
from kafkapy.trace.secrets import has_secrets, hide_secrets

BUDGET: Final = 10_000_000
"""The values of one message: both sides are trusted, and large clusters have large answers."""

CONNECTED: Final = "connected"
CLOSED: Final = "closed"
"""The notes of events that are no failures."""

_UNSUPPORTED: Final = struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION)


@dataclass(eq=False)
class Exchange:
    """A request, and its answer if there is one.

    Frames are without their size. `sent` and `answered` are seconds since 1970. `note` says why a frame
    cannot be decoded, or else what happened on the connection, for which there are no frames.
    """

    connection: int
    client: str
    broker: str
    sent: float
    request: bytes = b""
    answered: float | None = None
    response: bytes | None = None
    note: str = field(default="")

    @cached_property
    def header(self) -> RequestHeader | None:
        """The header of the request, None if it is none of a known API."""
        try:
            return parse_request_header(self.request)[0]
        except DecodeError:
            return None

    @property
    def api(self) -> str:
        """The name of the API, or "API 999" for an unknown one."""
        if len(self.request) < 2:
            return "-"
        key = int.from_bytes(self.request[:2], "big", signed=True)
        return API_SCHEMAS[key].name if key in API_SCHEMAS else f"API {key}"

    @cached_property
    def request_message(self) -> TopMessage | None:
        """The request; if it cannot be decoded None, and a note says why."""
        return self._decoded(self._decode_request) if self.request else None

    def _decode_request(self) -> TopMessage:
        header, position = parse_request_header(self.request)
        kind = request_class(header.api_key)
        return codec.decode_from(kind, self.request, position, header.api_version, budget=BUDGET)[0]

    def _decoded(self, decode: Callable[[], TopMessage]) -> TopMessage | None:
        try:
            return decode()
        except ModuleNotFoundError:
            self._add_note(f"{self.api} is not decoded")
        except DecodeError as error:
            self._add_note(str(error))
        return None

    @property
    def response_version(self) -> int:
        """The version of the answer: 0 for an ApiVersions request that the broker does not know."""
        assert self.header is not None
        response = self.response or b""
        if self.header.api_key == ApiKey.API_VERSIONS and response[4:6] == _UNSUPPORTED:
            return 0
        return self.header.api_version

    @cached_property
    def response_message(self) -> TopMessage | None:
        """The answer; if it cannot be decoded None, and a note says why."""
        response, header = self.response, self.header
        if response is None or header is None:
            return None
        return self._decoded(
            lambda: decode_response(header.api_key, self.response_version, response, budget=BUDGET)[1]
        )

    @property
    def wants_no_answer(self) -> bool:
        """Whether it is a Produce with acks=0, which no broker answers."""
        message: Any = self.request_message if self.request[:2] == b"\0\0" else None
        return message is not None and message.acks == 0

    @property
    def milliseconds(self) -> float | None:
        return None if self.answered is None else (self.answered - self.sent) * 1000

    def without_secrets(self) -> tuple[bytes, bytes | None]:
        """The frames with HIDDEN in place of secrets; what cannot be decoded may be one.

        Of a frame with such fields that cannot be decoded, only the header is left.
        """
        header = self.header
        if header is None or not _has_secrets(header.api_key):
            return self.request, self.response
        request, response = self.request[:8], self.response and self.response[:4]
        key, version, correlation_id = header.api_key, header.api_version, header.correlation_id
        try:
            if self.request_message is not None:
                hide_secrets(self.request_message)
                message = self.request_message
                request = encode_request(message, version, correlation_id, header.client_id)[4:]
            if self.response_message is not None:
                hide_secrets(self.response_message)
                body = codec.encode(self.response_message, self.response_version)
                response = response_frame(key, version, correlation_id, body)[4:]
        except EncodeError as error:
            self._add_note(str(error))
        return request, response

    def _add_note(self, text: str) -> None:
        if text not in self.note:
            self.note = f"{self.note}; {text}" if self.note else text


@cache
def _has_secrets(api_key: int) -> bool:
    """Whether the requests or the answers of an API have secrets."""
    try:
        return has_secrets(request_class(api_key)) or has_secrets(response_class(api_key))
    except ModuleNotFoundError:
        return False
