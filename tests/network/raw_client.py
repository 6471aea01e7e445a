"""A client without a client library: frames written and read byte by byte."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from kafkapy.protocol.frames import decode_response, encode_request
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.network.known_errors import unknown_errors

DEADLINE = 60.0


class RawClient:
    """One connection to a broker."""

    def __init__(self, bootstrap_servers: str, *, source: str | None = None) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self.socket = socket.create_connection(
            (host.strip("[]"), int(port)),
            timeout=DEADLINE,
            source_address=None if source is None else (source, 0),
        )
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def encrypt(self, context: ssl.SSLContext) -> None:
        """Do the handshake of TLS; the broker's certificate must be for 127.0.0.1."""
        self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")

    def log_in(self, user: str, password: str) -> bool:
        """Log in by PLAIN; whether that succeeds."""
        assert self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        words = f"\0{user}\0{password}".encode()
        return bool(self.ask(SaslAuthenticateRequest(auth_bytes=words), 2).error_code == 0)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self, nbytes: int) -> bytes:
        data = b""
        while len(data) < nbytes:
            more = self.socket.recv(nbytes - len(data))
            if not more:
                raise ConnectionError(f"closed after {len(data)} of {nbytes} bytes")
            data += more
        return data

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self.receive(4))
        return self.receive(size)

    def ask(self, request: TopMessage, version: int, correlation_id: int = 7) -> Any:
        """Send a request and return its response."""
        assert request.KEY is not None
        self.send(encode_request(request, version, correlation_id, "raw"))
        answered, response = decode_response(request.KEY, version, self.receive_frame())
        assert answered == correlation_id
        name = type(response).__name__.removesuffix("Response")
        assert unknown_errors(name, version, response) == []
        return response

    def is_closed(self) -> bool:
        """Return whether the broker closes the connection in time; its last answers are dropped."""
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except (ConnectionError, ssl.SSLError):
            return True
        return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def api_versions(correlation_id: int = 7, version: int = 3) -> bytes:
    """The bytes of an ApiVersions request."""
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    return encode_request(request, version, correlation_id, "raw")


def correlation_ids(client: RawClient, count: int) -> list[int]:
    """The correlation ids of the next answers."""
    return [struct.unpack_from(">i", client.receive_frame())[0] for _ in range(count)]


def eventually(condition: Callable[[], bool], what: str, seconds: float = DEADLINE) -> None:
    """Wait until `condition()`; fail with `what` at the deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.005)
