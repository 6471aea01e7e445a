"""Connections that are encrypted and log in, one after the other on each of a few threads.

The clients are a process of their own. The key of SCRAM is derived once, so that they cost little.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final

from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.security.sasl.scram_credential import ScramMechanism
from scripts.benchmarks.load import Figures
from scripts.benchmarks.other_process import AtWork, running
from scripts.benchmarks.secure_target import PASSWORD, USER, SecureTarget
from scripts.benchmarks.wire import API_VERSIONS, ask, exchange
from tests.security.scram_client import ScramClient, salted
from tests.servers.probe import parse_address

_CONNECTIONS: Final = 2_000
_THREADS: Final = 4

_salted = cache(salted)


def logins(protocol: str, mechanism: str = "") -> Callable[[SecureTarget, float], Figures]:
    """Load: connect, log in by the mechanism, if there is one, ask for ApiVersions, and close."""

    def run(target: SecureTarget, scale: float) -> Figures:
        secure = target.by(protocol)
        count = max(int(_CONNECTIONS * scale), _THREADS)
        authority = str(secure.authority) if secure.context is not None else ""
        watch = target.stopwatch()
        with running(_log_in, secure.address, authority, mechanism, count) as process:
            seconds = process.result()
        cost = watch.cost().cpu_seconds
        return {"connections/s": count / seconds, "CPU ms/connection": cost / count * 1000}

    return run


# --- in a process of its own --------------------------------------------------------------------------------


def _log_in(at_work: AtWork, address: str, authority: str, mechanism: str, count: int) -> float:
    """Make so many connections; the seconds that it took."""
    context = ssl.create_default_context(cafile=authority) if authority else None
    at_work.set()

    def connect(times: int) -> None:
        for _ in range(times):
            _connect(address, context, mechanism)

    started = time.perf_counter()
    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(connect, [count // _THREADS] * _THREADS))
    return time.perf_counter() - started


def _connect(address: str, context: ssl.SSLContext | None, mechanism: str) -> None:
    connection = socket.create_connection(parse_address(address), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if context is not None:
        connection = context.wrap_socket(connection, server_hostname="127.0.0.1")
    with connection:
        if mechanism:
            exchange(connection, SaslHandshakeRequest(mechanism=mechanism), 1)
        if mechanism == "PLAIN":
            _authenticate(connection, f"\0{USER}\0{PASSWORD}".encode())
        elif mechanism:
            client = ScramClient(ScramMechanism.SCRAM_SHA_256, USER, PASSWORD)
            client.salted = _salted
            _authenticate(connection, client.final(_authenticate(connection, client.first())))
        ask(connection, API_VERSIONS)


def _authenticate(connection: socket.socket, data: bytes) -> bytes:
    answer = exchange(connection, SaslAuthenticateRequest(auth_bytes=data), 2)
    if answer.error_code:
        raise RuntimeError(answer.error_message)
    return bytes(answer.auth_bytes)
