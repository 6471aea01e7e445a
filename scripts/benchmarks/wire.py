"""Requests as bytes on a socket: for loads whose client must cost next to nothing."""

from __future__ import annotations

import socket
import ssl
import struct
from typing import Any

from kafkapy.protocol.frames import decode_response, encode_request
from kafkapy.protocol.message import TopMessage

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)
"""Version 0, correlation id 7, no client id."""

_MANY_FIELDS = 10_000_000
"""For the metadata of thousands of partitions."""


def exchange(connection: socket.socket, request: TopMessage, version: int) -> Any:
    """The response to a request."""
    frame = ask(connection, encoded(request, version))
    return decoded(frame, type(request), version)


def ask(connection: socket.socket, request: bytes) -> bytes:
    """The answer to a request."""
    connection.sendall(request)
    return receive(connection)


def encoded(request: TopMessage, version: int, client_id: str = "bench") -> bytes:
    """A request."""
    return encode_request(request, version, 7, client_id)


def decoded(frame: bytes, request: type[TopMessage], version: int) -> Any:
    """The response to a request of this type."""
    assert request.KEY is not None
    return decode_response(request.KEY, version, frame, budget=_MANY_FIELDS)[1]


def receive(connection: socket.socket) -> bytes:
    """The next answer, without its size."""
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    flags = 0 if isinstance(connection, ssl.SSLSocket) else socket.MSG_WAITALL
    data = connection.recv(size, flags)
    while len(data) < size:  # a socket with a timeout, or with TLS, does not wait for all
        more = connection.recv(size - len(data), flags)
        if not more:
            raise RuntimeError("the server closed the connection")
        data += more
    return data
