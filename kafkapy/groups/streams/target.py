"""Computes target assignments.

A target is computed from a snapshot of the group, so it may be computed in a worker thread. Only the members
whose tasks changed get a new record.

Source: Apache Kafka's streams TargetAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from kafkapy.groups.modern.target_computations import ComputedTarget, computed_target
from kafkapy.groups.streams import records
from kafkapy.groups.streams.configured_topology import ConfiguredTopology
from kafkapy.groups.streams.group import StreamsGroup
from kafkapy.groups.streams.sticky_assignor import MemberSpec, StickyAssignor, SubtopologySpec
from kafkapy.groups.streams.tasks import TaskSet

NUM_STANDBY_REPLICAS: Final = "num.standby.replicas"
"""The one setting by which targets are computed."""
QUICK: Final = 1_000
"""The members and tasks whose assignment takes a few milliseconds at most."""


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """The snapshot from which a target assignment is computed."""

    group_id: str
    epoch: int
    """The group epoch for which it is computed."""
    members: Mapping[str, MemberSpec]
    subtopologies: Mapping[str, SubtopologySpec]
    """Empty if topics are missing: then there are no tasks."""
    num_standby_replicas: int

    @property
    def member_ids(self) -> Collection[str]:
        """The members that the group had."""
        return self.members.keys()

    @property
    def is_quick(self) -> bool:
        """Whether it may be computed on the event loop."""
        active = sum(spec.num_tasks for spec in self.subtopologies.values())
        return len(self.members) + active + self.num_standby_tasks <= QUICK

    @property
    def num_standby_tasks(self) -> int:
        """The number of standby tasks that there are to be."""
        stateful = sum(spec.num_tasks for spec in self.subtopologies.values() if spec.is_stateful)
        return stateful * self.num_standby_replicas

    def compute(self) -> ComputedTarget[TaskSet]:
        """The tasks of each member."""
        targets = StickyAssignor().assign(self.members, self.subtopologies, self.num_standby_replicas)
        before = {member_id: member.target for member_id, member in self.members.items()}
        return computed_target(before, targets, partial(records.target_assignment, self.group_id))


def target_request(group: StreamsGroup, configured: ConfiguredTopology) -> TargetRequest:
    """The snapshot for the group's next target assignment."""
    return TargetRequest(
        group.group_id,
        group.epoch,
        {
            member_id: MemberSpec(member.process_id, group.target(member_id))
            for member_id, member in group.members.items()
        },
        {
            subtopology_id: SubtopologySpec(
                configured.num_tasks[subtopology_id],
                configured.topology.subtopologies[subtopology_id].is_stateful,
            )
            for subtopology_id in (sorted(configured.num_tasks) if configured.is_ready else ())
        },
        int(group.assignment_settings.get(NUM_STANDBY_REPLICAS, 0)),
    )
