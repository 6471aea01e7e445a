"""Tells clients that asked the wrong broker which one leads (KIP-951).

They need not ask for metadata then. The leader is the one that this broker follows, if it has a replica;
otherwise it is the one in the metadata.

Source: KafkaApis.getCurrentLeader.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kafkapy.handlers.context import Node, RequestContext
from kafkapy.metadata.image import NO_LEADER
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.follower import Follower

WRONG_LEADER: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""The errors that say that another broker leads, or led the last time the client looked."""


class CurrentLeader(NamedTuple):
    """A leader, by its broker's id, and its leader epoch."""

    id: int
    epoch: int


def current_leader(context: RequestContext, topic: str, index: int) -> CurrentLeader | None:
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


def endpoints(context: RequestContext, brokers: Iterable[int]) -> list[Node]:
    """The addresses of brokers that have the client's listener."""
    wanted = set(brokers)
    return [node for node in context.nodes() if node.id in wanted]
