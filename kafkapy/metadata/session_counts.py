"""What is counted of a session with ZooKeeper, for the metrics.

The meaning of each number is that of Apache Kafka's ZooKeeperClientMetrics and SessionExpireListener.
"""

from __future__ import annotations

from kafkapy.loop.latency_sample import LatencySample


class SessionCounts:
    """The numbers of one session, and of those that follow it; they belong to the event loop."""

    def __init__(self, now: float) -> None:
        """`now` is the time of the event loop."""
        self.requests = 0
        self.times: LatencySample[float] = LatencySample(now)
        """How many seconds requests took, with their wait for those before."""
        self.connects = 0
        self.disconnects = 0
        self.expires = 0
        """Sessions that ZooKeeper has ended."""
        self.refusals = 0
        """Logins that ZooKeeper has refused."""

    def answered(self, seconds: float, now: float) -> None:
        """Count a request that was answered, or refused."""
        self.requests += 1
        self.times.count(seconds, now)
