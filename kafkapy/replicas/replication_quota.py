"""How fast throttled partitions are replicated, as leader and as follower.

    quota                    a rate in bytes per second: `leader.replication.throttled.rate`, `follower. …`
    throttled replicas       the replicas it is for: `leader.replication.throttled.replicas`, `follower. …`,
                             settings of topics; a list of `partition:broker`, or `*`

What is transferred of throttled replicas counts, whether they are in sync or not, so that all of it together
keeps to the quota. But only replicas that are not in sync are held back, so that none is expelled from the
ISR by its throttle. A leader answers without their records while the quota is exceeded, and a follower does
not ask for them.

The rate is that of the last `replication.quota.window.num` windows of `replication.quota.window.size.seconds`
each. There is no I/O here: the clock is an argument.

Source: ReplicationQuotaManager, SimpleRate, SampledStat (KIP-73).
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kafkapy.protocol.types import TopicPartition

UNLIMITED: Final = 2**63 - 1
EVERY_PARTITION: Final = "*"

MAX_LIST_BYTES: Final = 16 << 20
"""The most bytes that the lists of throttled replicas take, once they are read."""
_LIST_BYTES: Final = 400
"""The bytes of a list without its text and its partitions."""
_NUMBER_BYTES: Final = 32


class WindowedRate:
    """The rate of something over some windows of time."""

    def __init__(self, windows: int, seconds: float) -> None:
        """Measure over `windows` windows of `seconds` each."""
        self._windows = windows
        self._seconds = seconds
        self._samples: deque[list[float]] = deque()
        """The start and the amount of each window in which something was recorded, the oldest first."""
        self._total = 0.0

    def record(self, amount: float, now: float) -> None:
        """Note an amount."""
        self._drop_old(now)
        if not self._samples or now - self._samples[-1][0] >= self._seconds:
            self._samples.append([now, 0.0])
        self._samples[-1][1] += amount
        self._total += amount

    def per_second(self, now: float) -> float:
        """The rate since the oldest window began; the first window counts as a full one."""
        self._drop_old(now)
        if not self._samples:
            return 0.0
        return self._total / max(now - self._samples[0][0], self._seconds)

    def _drop_old(self, now: float) -> None:
        while self._samples and now - self._samples[0][0] >= self._windows * self._seconds:
            self._total -= self._samples.popleft()[1]
        if not self._samples:
            self._total = 0.0


class QuotaParts(NamedTuple):
    """The settings of a broker for its quotas."""

    rate: Callable[[str], int]
    """A broker's setting, in bytes per second."""
    topic_configs: Callable[[str], Mapping[str, str]]
    """The settings of a topic."""
    now: Callable[[], float]
    """Seconds."""
    node_id: int


class ReplicationQuota:
    """The quota of a broker as leader, or as follower."""

    def __init__(
        self, rate_setting: str, replicas_setting: str, measured: WindowedRate, parts: QuotaParts
    ) -> None:
        """`rate_setting` is a broker's, `replicas_setting` a topic's."""
        self._rate_setting = rate_setting
        self._replicas_setting = replicas_setting
        self._measured = measured
        self._parts = parts

    @property
    def is_limited(self) -> bool:
        """Whether there is a quota at all."""
        return self._parts.rate(self._rate_setting) < UNLIMITED

    @property
    def is_exceeded(self) -> bool:
        """Whether more was transferred than the quota allows."""
        limit = self._parts.rate(self._rate_setting)
        return limit < UNLIMITED and self._measured.per_second(self._parts.now()) > limit

    def throttles(self, partition: TopicPartition) -> bool:
        """Whether the replica of a partition on this broker is throttled."""
        text = self._parts.topic_configs(partition.topic).get(self._replicas_setting)
        if not text:
            return False
        throttled = _throttled_lists[text, self._parts.node_id]
        return throttled is None or partition.partition in throttled

    def record(self, nbytes: int) -> None:
        """Note so many bytes of throttled replicas, whether the quota allowed them or not."""
        self._measured.record(nbytes, self._parts.now())


class _ThrottledLists(dict[tuple[str, int], frozenset[int] | None]):
    """The partitions that lists name of brokers; None: all partitions.

    They are kept, since each fetch asks for them. Clients choose the lists, which have up to a megabyte.
    When those that were read take too many bytes, all are forgotten.
    """

    def __init__(self) -> None:
        self.nbytes = 0
        """The bytes that the lists take."""

    def __missing__(self, asked: tuple[str, int]) -> frozenset[int] | None:
        text, broker = asked
        partitions = _partitions(text, broker)
        nbytes = _LIST_BYTES + sys.getsizeof(text)
        if partitions is not None:
            nbytes += sys.getsizeof(partitions) + _NUMBER_BYTES * len(partitions)
        if self.nbytes + nbytes > MAX_LIST_BYTES:
            self.clear()
            self.nbytes = 0
        self.nbytes += nbytes
        self[asked] = partitions
        return partitions


_throttled_lists: Final = _ThrottledLists()


def _partitions(text: str, broker: int) -> frozenset[int] | None:
    """The partitions that a list names of a broker; None: all partitions."""
    if text.strip() == EVERY_PARTITION:
        return None
    pairs = [pair.strip().partition(":") for pair in text.split(",")]
    return frozenset(
        int(partition)
        for partition, _, replica in pairs
        if partition.isdecimal() and replica.isdecimal() and int(replica) == broker
    )


class ReplicationQuotas:
    """The two quotas of a broker."""

    def __init__(self, windows: int, seconds: int, parts: QuotaParts) -> None:
        """Measure over `windows` windows of `seconds` each."""
        self.leader = ReplicationQuota(
            "leader.replication.throttled.rate",
            "leader.replication.throttled.replicas",
            WindowedRate(windows, seconds),
            parts,
        )
        self.follower = ReplicationQuota(
            "follower.replication.throttled.rate",
            "follower.replication.throttled.replicas",
            WindowedRate(windows, seconds),
            parts,
        )

    @classmethod
    def unlimited(cls) -> ReplicationQuotas:
        """Quotas that hold nothing back."""
        nothing = QuotaParts(lambda setting: UNLIMITED, lambda topic: {}, lambda: 0.0, -1)
        return cls(1, 1, nothing)
