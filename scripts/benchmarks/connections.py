"""Two thousand connections at once: what they cost while they are open."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import time

from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.meter import percentile
from scripts.benchmarks.wire import API_VERSIONS, receive
from tests.servers.probe import brokers_alive

_CONNECTIONS = 2_000


def open_connections(target: Target, scale: float) -> Figures:
    """Load: open them, let each ask for ApiVersions, ask on one more, let each ask again."""
    count = int(_CONNECTIONS * scale)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, count + 500)), hard))
    before = target.meter.resident_mb()
    with contextlib.ExitStack() as stack:
        start = time.perf_counter()
        connections = [
            stack.enter_context(socket.create_connection(target.server.address, timeout=60))
            for _ in range(count)
        ]
        _ask_all(connections)
        opened = time.perf_counter() - start
        grown = target.meter.resident_mb() - before
        probes = []
        for _ in range(50):
            start = time.perf_counter()
            if not brokers_alive(target.server.address):
                raise RuntimeError("no answer while the connections are open")
            probes.append(time.perf_counter() - start)
        watch = target.stopwatch()
        for _ in range(5):
            _ask_all(connections)
        cost = watch.cost()
    return {
        "open and first answer, s": opened,
        "memory per connection, kB": grown * 1000 / count,
        "probe meanwhile p50 ms": percentile(probes, 0.5) * 1000,
        "requests/s": 5 * count / cost.seconds,
        "CPU µs/request": cost.cpu_seconds / (5 * count) * 1e6,
    }


def _ask_all(connections: list[socket.socket]) -> None:
    for connection in connections:
        connection.sendall(API_VERSIONS)
    for connection in connections:
        correlation_id, error = struct.unpack_from(">ih", receive(connection))
        if (correlation_id, error) != (7, 0):
            raise RuntimeError(f"correlation id {correlation_id}, error {error}")
