"""Tells clients that asked the wrong broker which one leads (KIP-951).

They need not ask for metadata then. The leader is the one that this broker follows, if it has a replica;
otherwise it is the one in the metadata. Answers of Produce, Fetch, ShareFetch and ShareAcknowledge have the
leader of each such partition, and the addresses of the leaders.

Source: KafkaApis.getCurrentLeader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from kafkapy.handlers.context import RequestContext
from kafkapy.metadata.image import NO_LEADER
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.follower import Follower

WRONG_LEADER: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""The errors that say that another broker leads, or led the last time the client looked."""

E = TypeVar("E")


class PartitionAnswer(Protocol):
    """The answer for one partition, which may name its leader."""

    error_code: int
    current_leader: Any


class CurrentLeader(NamedTuple):
    """A leader, by its broker's id, and its leader epoch."""

    id: int
    epoch: int


class LeaderHints(Generic[E]):
    """The leaders that one answer names; `leader` and `endpoint` are its message classes."""

    def __init__(
        self, context: RequestContext, leader: Callable[..., object], endpoint: Callable[..., E]
    ) -> None:
        self._context = context
        self._leader_class = leader
        self._endpoint_class = endpoint
        self._leaders: set[int] = set()

    def add(self, answer: PartitionAnswer, topic: str | None, index: int) -> None:
        """Name the leader in the answer for a partition that this broker does not lead."""
        if answer.error_code in WRONG_LEADER and topic is not None:
            leader = _current_leader(self._context, topic, index)
            if leader is not None:
                answer.current_leader = self._leader_class(leader_id=leader.id, leader_epoch=leader.epoch)
                self._leaders.add(leader.id)

    def endpoints(self) -> list[E]:
        """The addresses of these leaders, where they have the client's listener."""
        if not self._leaders:
            return []
        return [
            self._endpoint_class(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in self._context.nodes()
            if node.id in self._leaders
        ]


def _current_leader(context: RequestContext, topic: str, index: int) -> CurrentLeader | None:
    """The leader of a partition; None if it has none or is not known."""
    broker = context.broker
    partition = broker.replicas.find(TopicPartition(topic, index))
    if partition is not None:
        role = partition.replication
        if isinstance(role, Follower):
            return None if role.leader == NO_LEADER else CurrentLeader(role.leader, role.leader_epoch)
        if role.leads:
            return CurrentLeader(broker.node_id, role.leader_epoch)
    state = broker.metadata.image.partition(topic, index)
    if state is None or state.leader == NO_LEADER:
        return None
    return CurrentLeader(state.leader, state.leader_epoch)
