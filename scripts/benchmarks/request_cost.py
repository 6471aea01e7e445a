"""The CPU time that a request costs a broker whose client waits for each answer."""

from __future__ import annotations

from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.message import TopMessage
from scripts.benchmarks.meter import Meter
from tests.network.raw_client import RawClient


def request_cost(pid: int, client: RawClient, request: TopMessage, version: int, times: int) -> float:
    """The microseconds of CPU time that a request costs the broker with this process id."""
    frame = encode_request(request, version, 7, "bench")
    meter = Meter(pid)
    before = meter.cpu_seconds()
    for _ in range(times):
        client.send(frame)
        client.receive_frame()
    return (meter.cpu_seconds() - before) / times * 1e6
