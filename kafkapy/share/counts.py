"""What is counted of share groups on one broker, for its metrics.

An increment costs next to nothing, so all is counted whether metrics are on or not. The meaning of each
number is that of Apache Kafka's ShareGroupMetrics and DelayedShareFetchMetrics (KIP-932).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kafkapy.loop.latency_sample import LatencySample
from kafkapy.share.share_partition import Acknowledgement


class ShareCounts:
    """The numbers of all share groups; they belong to the event loop."""

    def __init__(self, now: float) -> None:
        """`now` is the time in seconds of a monotonic clock."""
        self.acknowledged: Counter[int] = Counter()
        """The records that were acknowledged, by type; those of renewals too."""
        self.expired_fetches = 0
        """The fetches whose time was over before there was enough."""
        self.loads = 0
        """The share partitions that were loaded."""
        self.load_times: LatencySample[float] = LatencySample(now)
        """How many seconds that took."""

    def acknowledge(self, acknowledgements: Iterable[Acknowledgement]) -> None:
        """Count the records of some acknowledgements, which are stored."""
        for first, last, types in acknowledgements:
            if len(types) == 1:
                self.acknowledged[types[0]] += last - first + 1
            else:
                self.acknowledged.update(types)

    def load(self, seconds: float, now: float) -> None:
        """Count a share partition that was loaded."""
        self.loads += 1
        self.load_times.count(seconds, now)
