"""A client that offers twenty times its quota gets no more than its quota."""

from __future__ import annotations

import heapq

import pytest

from kafkapy.loop.turns import at_once
from kafkapy.metadata.quotas import ClientQuotas, quota_entity
from kafkapy.protocol.frames import RequestHeader
from kafkapy.protocol.messages.produce import ProduceResponse
from kafkapy.protocol.types import ApiKey
from kafkapy.quotas.managers import QuotaManagers, Windows

RATE = 1_000_000
TIMES = 20
PERIODS = 3
"""How often all windows of a quota pass: it allows a burst in each, so that parts of one show little."""


def accepted(windows: int, connections: int, nbytes: int) -> int:
    """The bytes that the broker takes in PERIODS of windows of a second.

    Each connection offers its part of TIMES the quota, and is muted for its throttle times.
    """
    now = 1000.0
    managers = QuotaManagers(Windows(windows, 1, 11, 1), now=lambda: now)
    quota = {quota_entity({"client-id": "abuser"}): {"producer_byte_rate": str(RATE)}}
    at_once(managers.follow(ClientQuotas(), ClientQuotas().with_changes(quota)))
    pause = connections * nbytes / (TIMES * RATE)
    due = [(now + number * pause / connections, number) for number in range(connections)]
    total = 0
    while due[0][0] < 1000 + PERIODS * windows:
        now, number = heapq.heappop(due)
        header = RequestHeader(ApiKey.PRODUCE, 9, 7, "abuser", nbytes=nbytes, arrived_at=now)
        throttle_ms = managers.throttle_ms("User:ANONYMOUS", header, ProduceResponse())
        total += nbytes
        heapq.heappush(due, (now + max(pause, throttle_ms / 1000), number))
    return total


@pytest.mark.parametrize("windows", [5, 10, 11])
@pytest.mark.parametrize(("connections", "nbytes"), [(1, 20_000), (4, 20_000), (1, 200_000)])
def test_an_abuser_stays_within_a_tenth_of_its_quota(windows: int, connections: int, nbytes: int) -> None:
    share = accepted(windows, connections, nbytes) / (RATE * PERIODS * windows)
    print(f"share of the quota: {share:.3f}")
    assert 0.9 < share < 1.1
