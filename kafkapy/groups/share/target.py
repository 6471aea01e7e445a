"""Computes target assignments.

A target is computed from a snapshot of the group, so it may be computed in a worker thread. The snapshot has
the names of the members' subscriptions; which of the topics exist is found when it is computed. Only the
members whose partitions changed get a new record.

Source: Apache Kafka's TargetAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from kafkapy.groups.modern.target_computations import ComputedTarget, computed_target
from kafkapy.groups.modern.topics import TopicsView
from kafkapy.groups.share import records, simple_assignor
from kafkapy.groups.share.group import ShareGroup
from kafkapy.groups.share.member import Partitions
from kafkapy.groups.share.state_partitions import StateTopics
from kafkapy.protocol.types import Uuid

QUICK: Final = 1_000
"""The members, their topics and the partitions whose assignment takes a few milliseconds at most."""


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """The snapshot from which a target assignment is computed."""

    group_id: str
    epoch: int
    """The group epoch for which it is computed."""
    subscriptions: Mapping[str, frozenset[str]]
    """The topics of each member."""
    before: Mapping[str, Partitions]
    """The present target assignment."""
    initialized: StateTopics
    """The partitions that may be assigned."""
    topics: TopicsView

    @property
    def member_ids(self) -> Collection[str]:
        """The members that the group had."""
        return self.subscriptions.keys()

    @property
    def is_quick(self) -> bool:
        """Whether it may be computed on the event loop."""
        names = set(self.subscriptions.values())
        size = len(self.subscriptions) + sum(map(len, self.before.values()))
        size += sum(map(len, names if len(names) == 1 else self.subscriptions.values()))
        return size + sum(len(topic.partitions) for topic in self.initialized.values()) <= QUICK

    def compute(self) -> ComputedTarget[Partitions]:
        """The partitions of each member."""
        ids: dict[frozenset[str], frozenset[Uuid]] = {
            names: self.topics.ids(names) for names in set(self.subscriptions.values())
        }
        targets = simple_assignor.assign(
            {member_id: ids[names] for member_id, names in self.subscriptions.items()},
            self.before,
            {topic: partitions for topic, (_, partitions) in self.initialized.items()},
        )
        return computed_target(self.before, targets, partial(records.target_assignment, self.group_id))


def target_request(group: ShareGroup, topics: TopicsView) -> TargetRequest:
    """The snapshot for the group's next target assignment."""
    return TargetRequest(
        group.group_id,
        group.epoch,
        {member_id: member.topic_names for member_id, member in group.members.items()},
        dict(group.targets),
        group.state_partitions.initialized,
        topics,
    )
