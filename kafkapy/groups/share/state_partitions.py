"""The share partitions of a group that have a state, get one, or lose it.

    nothing ──► initializing ──► initialized ──► deleting ──► nothing

A partition is assigned to members when the share coordinator has initialized its state. One that is
initializing or deleting for long was left so by a coordinator that stopped, and is tried again. Source:
Apache Kafka's ShareGroupStatePartitionMetadataInfo.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kafkapy.protocol.types import Uuid


class StateTopic(NamedTuple):
    """A topic, and those of its partitions that have a state."""

    name: str
    partitions: frozenset[int]


StateTopics = Mapping[Uuid, StateTopic]


@dataclass(frozen=True, slots=True)
class StatePartitions:
    """The content of a record ShareGroupStatePartitionMetadata."""

    initializing: StateTopics = field(default_factory=dict)
    initialized: StateTopics = field(default_factory=dict)
    deleting: Mapping[Uuid, str] = field(default_factory=dict)
    """The names of topics by id."""

    def begin(self, topics: StateTopics) -> StatePartitions:
        """Let these partitions be initializing, also those that were to be deleted."""
        return replace(
            self,
            initializing=_with(self.initializing, topics),
            deleting={topic: name for topic, name in self.deleting.items() if topic not in topics},
        )

    def complete(self, topics: StateTopics) -> StatePartitions:
        """Let these partitions be initialized."""
        return replace(
            self,
            initializing=_without(self.initializing, topics),
            initialized=_with(self.initialized, topics),
        )

    def give_up(self, topics: StateTopics) -> StatePartitions:
        """Let these partitions be initializing no more."""
        return replace(self, initializing=_without(self.initializing, topics))

    def delete(self, topics: Mapping[Uuid, str]) -> StatePartitions:
        """Let these topics be deleting, and nothing else."""
        initialized = {topic: each for topic, each in self.initialized.items() if topic not in topics}
        return replace(self, initialized=initialized, deleting={**self.deleting, **topics})

    def forget(self, topics: Collection[Uuid]) -> StatePartitions:
        """Let nothing be known about these topics."""
        return StatePartitions(
            {topic: each for topic, each in self.initializing.items() if topic not in topics},
            {topic: each for topic, each in self.initialized.items() if topic not in topics},
            {topic: name for topic, name in self.deleting.items() if topic not in topics},
        )

    def check(self) -> None:
        """Assert the invariants."""
        for topics in (self.initializing, self.initialized):
            assert all(topic.partitions for topic in topics.values()), "no topic is named without partitions"
        assert not self.initialized.keys() & self.deleting.keys()


def _with(topics: StateTopics, more: StateTopics) -> StateTopics:
    merged = dict(topics)
    for topic, each in more.items():
        if topic in merged:
            merged[topic] = StateTopic(each.name, merged[topic].partitions | each.partitions)
        elif each.partitions:
            merged[topic] = each
    return merged


def _without(topics: StateTopics, fewer: StateTopics) -> StateTopics:
    left = {}
    for topic, each in topics.items():
        if topic not in fewer:
            left[topic] = each
        elif rest := each.partitions - fewer[topic].partitions:
            left[topic] = StateTopic(each.name, rest)
    return left
