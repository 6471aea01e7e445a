"""The CPU time that a request costs a broker whose client waits for each answer."""

from __future__ import annotations

import time
from typing import Final

from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.message import TopMessage
from tests.network.raw_client import RawClient

_SCHEDULED: Final = 2
"""With the process id it makes the clock of a process, which counts nanoseconds (clock_getcpuclockid(3)).

The times in /proc are ticks of 10 ms.
"""


def request_cost(pid: int, client: RawClient, request: TopMessage, version: int, times: int) -> float:
    """The microseconds of CPU time that a request costs the broker with this process id."""
    frame = encode_request(request, version, 7, "bench")
    clock = ~pid << 3 | _SCHEDULED
    before = time.clock_gettime_ns(clock)
    for _ in range(times):
        client.send(frame)
        client.receive_frame()
    return (time.clock_gettime_ns(clock) - before) / times / 1000
