"""The pass of a follower's fetch request over its partitions.

A follower reads up to the end of the log, and its batches come as they are. Each request tells from which
offsets it fetches, and thus what it has, for every partition of its session. The leader notes the partitions
that the request names or that have changed. In the others the follower attends (remote_replica.py), or, if it
is not in sync, it is noted every NOTE_SECONDS. A fetch counts if the leader has that offset and the
follower's last epoch ends where the leader's does.

A broker that is not among the partition's replicas is refused: nobody can advance the high watermark by
pretending to be a follower (CVE-2018-1288). Throttled replicas that are not in sync get no records while the
leader's quota is exceeded (replicas/replication_quota.py).

Source: Partition.fetchRecords, updateFollowerFetchState; ReplicaManager.shouldLeaderThrottle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from kafkapy.fetch.read import FetchParts, FetchRead, diverging_epoch
from kafkapy.fetch.sessions import FetchContext, FetchSession, FetchTarget
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.leader import Leader
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.topic_traffic import TopicTraffic
from kafkapy.storage.log.log_config import LogConfig

NOTE_SECONDS: Final = 0.25
"""How often a follower is noted that has everything, but is not in the ISR."""


def replica_of(request: FetchRequest) -> tuple[int, int]:
    """The id and epoch of the broker that fetches, each -1 if the request has none."""
    state = request.replica_state
    if state.replica_id >= 0:
        return state.replica_id, state.replica_epoch
    return request.replica_id, -1


class FollowerRead(FetchRead):
    """A request of another broker."""

    __slots__ = ("_broker_epoch", "_broker_id", "_is_noted", "_is_over_quota", "_quota")

    passes_empty = False

    def __init__(
        self,
        broker: FetchParts,
        api_version: int,
        request: FetchRequest,
        fetch: FetchContext,
        may_read: Callable[[str], bool] | None = None,
    ) -> None:
        super().__init__(broker, api_version, request, fetch, may_read)
        self._broker_id, self._broker_epoch = replica_of(request)
        self._is_noted = False
        self._quota = broker.replicas.quotas.leader
        self._is_over_quota = False
        """Whether this pass holds back the records of throttled replicas that are not in sync."""
        self._of_leader = True
        self._read_committed = False
        self._rack = ""

    def run(self) -> Steps[None]:
        """Note what the follower has, then read."""
        self._is_over_quota = self._quota.is_exceeded
        if not self._is_noted:
            self._is_noted = True
            registered = self._broker.metadata.image.brokers.get(self._broker_id)
            self._fetch.epochs = self._broker_epoch, None if registered is None else registered.epoch
            if self._fetch.session is not None:
                yield from self._attend(self._fetch.session)
            for target in list(self._fetch.targets):
                yield
                try:
                    self._note(target)
                except KafkaError:
                    target.read_to_its_end = None  # the read meets the error too, and answers it
        yield from super().run()

    def _attend(self, session: FetchSession) -> Steps[None]:
        """Note the partitions that are not looked at, and add those that have to be."""
        again: Iterable[FetchTarget] = ()
        now = asyncio.get_running_loop().time()
        if session.epochs != self._fetch.epochs:
            # The broker was registered anew. What it fetches with its old epoch does not count any more.
            session.epochs = self._fetch.epochs
            again = list(session.targets.values())
        elif session.outside and now - session.noted_at >= NOTE_SECONDS:
            session.noted_at, again = now, session.outside
            session.outside = {}
        for target in again:
            yield
            if session.targets.get(target.key) is target:
                session.unsettle(target)
                self._fetch.place(target)
        if session.attendance is not None:
            session.attendance.note()

    def _note(self, target: FetchTarget) -> None:
        target.replica = None
        partition = self._partition(target)
        partition.require_leader_epoch(target.leader_epoch)
        log, leader = partition.log, partition.replication
        has_it = log.log_start_offset <= target.fetch_offset <= log.log_end_offset
        if isinstance(leader, Leader) and has_it and diverging_epoch(partition, target) is None:
            follower = leader.follower(
                self._broker_id, self._broker_epoch, knows_epoch=target.leader_epoch >= 0
            )
            leader.fetched(follower, target.fetch_offset, target.follower_start_offset, self._broker_epoch)
            target.replica = follower

    def _partition(self, target: FetchTarget) -> Partition:
        partition = super()._partition(target)
        leader = partition.replication
        if isinstance(leader, Leader):
            leader.follower(self._broker_id, self._broker_epoch, knows_epoch=target.leader_epoch >= 0)
        return partition

    def _is_throttled(self, partition: Partition) -> bool:
        if not self._is_over_quota or not self._quota.throttles(partition.topic_partition):
            return False
        leader = partition.replication
        return isinstance(leader, Leader) and self._broker_id not in leader.isr

    def _count_bytes(self, traffic: TopicTraffic, nbytes: int) -> None:
        traffic.replication_bytes_out += nbytes

    def _readable_end(self, partition: Partition) -> int:
        return 0 if self._is_throttled(partition) else partition.log.log_end_offset

    def response(self) -> Steps[FetchResponse]:
        """The answer; what it has of throttled replicas counts."""
        if self._quota.is_limited:
            self._quota.record(
                sum(
                    size
                    for target, size in zip(self._fetch.targets, self.sizes, strict=True)
                    if size and self._quota.throttles(TopicPartition(target.topic or "", target.partition))
                )
            )
        return (yield from super().response())

    def _require_format(self, config: LogConfig) -> None:
        """Do nothing: followers take every batch as it is."""
