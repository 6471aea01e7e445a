"""The smallest Kafka client: is a broker there, and does it answer?

It sends one Metadata v4 request for all topics, which is written by hand: the result depends neither on a
client library nor on kafkapy's own codec.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable

_METADATA, _VERSION = 3, 4
_CLIENT_ID = b"probe"
_REQUEST = (
    struct.pack(">hhih", _METADATA, _VERSION, 1, len(_CLIENT_ID)) + _CLIENT_ID + struct.pack(">i?", -1, False)
)


def parse_address(bootstrap_servers: str) -> tuple[str, int]:
    host, _, port = bootstrap_servers.partition(",")[0].rpartition(":")
    return host.strip("[]"), int(port)


def brokers_alive(address: tuple[str, int], timeout: float = 5.0) -> int:
    """Return how many live brokers the broker at `address` knows; 0 if it does not answer."""
    try:
        with socket.create_connection(address, timeout=timeout) as connection:
            connection.sendall(struct.pack(">i", len(_REQUEST)) + _REQUEST)
            answer = connection.makefile("rb")
            size = struct.unpack(">i", _exactly(answer.read(4), 4))[0]
            body = _exactly(answer.read(size), size)
    except (OSError, EOFError):
        return 0
    _correlation_id, _throttle_time_ms, brokers = struct.unpack_from(">iii", body)
    return int(brokers)


def wait_until_it_answers(
    address: tuple[str, int], *, deadline: float, still_running: Callable[[], bool], pause: float = 0.05
) -> bool:
    """Wait until the broker lists itself; False if it ended, or at `deadline` (monotonic)."""
    while time.monotonic() < deadline and still_running():
        if brokers_alive(address):
            return True
        time.sleep(pause)
    return False


def _exactly(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise EOFError
    return data
