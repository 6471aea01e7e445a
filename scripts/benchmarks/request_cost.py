"""The CPU time that a request costs a broker whose client waits for each answer."""

from __future__ import annotations

from kafkapy.protocol.message import TopMessage
from scripts.benchmarks.load import Target
from scripts.benchmarks.wire import ask, encoded


def request_cost(target: Target, request: TopMessage, version: int, times: int) -> float:
    """The microseconds of CPU time that a request costs the only server, over one connection."""
    frame = encoded(request, version)
    with target.connect() as connection:
        ask(connection, frame)  # what a new connection costs does not count
        watch = target.stopwatch()
        for _ in range(times):
            ask(connection, frame)
        return watch.cost().cpu_seconds / times * 1e6
