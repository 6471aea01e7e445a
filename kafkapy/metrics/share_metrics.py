"""The metrics of share groups (KIP-932): records, share partitions, sessions, states.

A share partition is shown by the broker that leads its partition, while it is loaded there. Clients choose
the ids of groups, so only those with a length that is shown elsewhere have series, and MOST in all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafkapy.coordination.runtime import PartitionState
from kafkapy.loop.turns import Steps
from kafkapy.metrics.page import Page, labels
from kafkapy.metrics.quantiles import quantiles
from kafkapy.share.led_partitions import LedPartition, LedState
from kafkapy.share.share_partition import ACCEPT, REJECT, RELEASE, RENEW
from kafkapy.share.share_parts import ShareParts

MOST: Final = 20_000
"""The most share partitions that are shown."""
LONGEST_GROUP_ID: Final = 255
"""The longest id of a group that is shown: clients choose them."""

_TYPES: Final = {ACCEPT: "Accept", RELEASE: "Release", REJECT: "Reject", RENEW: "Renew"}
_STATES: Final = (PartitionState.ACTIVE, PartitionState.LOADING, PartitionState.FAILED)


class SharePartitionFacts(NamedTuple):
    """One share partition."""

    labels: str
    lock_timeouts: int
    records: int
    batches: int


@dataclass(slots=True)
class ShareFacts:
    """The numbers of all share groups."""

    acknowledged: Mapping[int, int]
    loads: int
    load_seconds: list[float]
    expired_fetches: int
    writes: int
    write_seconds: list[float]
    coordinated: Counter[PartitionState]
    """The partitions of `__share_group_state`, by state."""
    rebalances: int
    sessions: int
    session_partitions: int = 0
    partitions: list[SharePartitionFacts] = field(default_factory=list)


def take(shares: ShareParts, rebalances: int, now: float) -> Steps[ShareFacts]:
    """Take the numbers, in steps."""
    led, coordinator = shares.led, shares.coordinator
    counts = led.counts
    found = ShareFacts(
        dict(counts.acknowledged),
        counts.loads,
        counts.load_times.durations(now),
        counts.expired_fetches,
        coordinator.writes,
        coordinator.write_times.durations(now),
        coordinator.runtime.partition_states(),
        rebalances,
        len(shares.sessions),
    )
    for session in shares.sessions.sessions():
        yield
        found.session_partitions += len(session.keys)
    for each in led.partitions():
        yield
        if len(found.partitions) >= MOST:
            break
        if each.state is LedState.ACTIVE and len(each.key.group_id) <= LONGEST_GROUP_ID:
            found.partitions.append(_facts(each))
    return found


def _facts(led: LedPartition) -> SharePartitionFacts:
    topic, index = led.partition.topic_partition
    text = f'{labels({"group": led.key.group_id})},topic="{topic}",partition="{index}"'
    machine = led.machine
    return SharePartitionFacts(text, led.lock_timeouts, machine.records_in_flight, machine.in_flight.batches)


def write(page: Page, found: ShareFacts) -> None:
    """Write the metrics."""
    page.add(
        "ShareGroupMetrics.RecordAcknowledgementsPerSec",
        [(f'ackType="{name}"', found.acknowledged.get(kind, 0)) for kind, name in _TYPES.items()],
    )
    page.add_timer(
        "ShareGroupMetrics.PartitionLoadTimeMs", [("", found.loads)], quantiles(found.load_seconds)
    )
    page.add_one("DelayedShareFetchMetrics.ExpiresPerSec", found.expired_fetches)
    page.add_one("ShareSessionCache.ShareSessionsCount", found.sessions)
    page.add_one("ShareSessionCache.SharePartitionsCount", found.session_partitions)
    page.add_one("group-coordinator-metrics.share-group-rebalance-count", found.rebalances)
    times = found.write_seconds
    page.add_one("share-coordinator-metrics.write-total", found.writes)
    average = sum(times) / len(times) if times else 0.0
    page.add_one("share-coordinator-metrics.write-latency-avg", round(average * 1000, 3))
    page.add_one("share-coordinator-metrics.write-latency-max", round(max(times, default=0.0) * 1000, 3))
    page.add(
        "share-coordinator-metrics.num-partitions",
        [(f'state="{state.value}"', found.coordinated[state]) for state in _STATES],
    )
    partitions = found.partitions
    timeouts = [(each.labels, each.lock_timeouts) for each in partitions]
    page.add("SharePartitionMetrics.AcquisitionLockTimeoutPerSec", timeouts)
    page.add(
        "SharePartitionMetrics.InFlightMessageCount", [(each.labels, each.records) for each in partitions]
    )
    page.add("SharePartitionMetrics.InFlightBatchCount", [(each.labels, each.batches) for each in partitions])
