"""Two thousand connections at once: what they cost while they are open."""

from __future__ import annotations

import resource
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import ExitStack

from scripts.benchmarks.load import Figures, Target
from scripts.benchmarks.meter import percentiles
from scripts.benchmarks.wire import API_VERSIONS, ask, receive

_CONNECTIONS = 2_000


def open_connections(target: Target, scale: float) -> Figures:
    """Load: open them, let each ask for ApiVersions, ask on one more, let each ask again."""
    count = int(_CONNECTIONS * scale)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, count + 500)), hard))
    before = target.meter.resident_mb()
    with ExitStack() as stack:
        start = time.perf_counter()
        connections = [stack.enter_context(target.connect()) for _ in range(count)]
        _ask_all(connections)
        opened = time.perf_counter() - start
        grown = target.meter.resident_mb() - before
        probes = [_probe(target) for _ in range(50)]
        watch = target.stopwatch()
        for _ in range(5):
            _ask_all(connections)
        cost = watch.cost()
    return {
        "open and first answer, s": opened,
        "memory per connection, kB": grown * 1000 / count,
        **percentiles(probes, " of a probe meanwhile"),
        "requests/s": 5 * count / cost.seconds,
        "CPU µs/request": cost.cpu_seconds / (5 * count) * 1e6,
    }


def _probe(target: Target) -> float:
    start = time.perf_counter()
    with target.connect() as connection:
        ask(connection, API_VERSIONS)
    return time.perf_counter() - start


def _ask_all(connections: Sequence[socket.socket]) -> None:
    for connection in connections:
        connection.sendall(API_VERSIONS)
    for connection in connections:
        correlation_id, error = struct.unpack_from(">ih", receive(connection))
        if (correlation_id, error) != (7, 0):
            raise RuntimeError(f"correlation id {correlation_id}, error {error}")
