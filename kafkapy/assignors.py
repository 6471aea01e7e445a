"""Assignors: they divide partitions among the members of consumer groups (KIP-848).

An assignor is a subclass of `Assignor` in a module that the broker can import. The setting
`group.consumer.assignors` names it as `module:Class`, beside the built-in `uniform` and `range`. The first is
the default. A member asks for another one by its name (`group.remote.assignor` of a Java consumer).

    from kafkapy.assignors import Assignment, Assignor, GroupSpec, Topics

    class AllToTheFirst(Assignor):
        name = "all-to-the-first"

        def assign(self, group: GroupSpec, topics: Topics) -> Assignment:
            first = min(group.members)
            return {first: {topic.id: range(topic.num_partitions) for topic in topics.values()}}

A broker makes one object of each class when it starts. `assign` is called in a worker thread, and by several
threads at once if several groups need an assignment. Its result must give each partition to one member, which
must subscribe to the topic; a partition that it leaves out is assigned to nobody.

Source: Apache Kafka's ConsumerGroupPartitionAssignor, GroupSpec, SubscribedTopicDescriber.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from kafkapy.protocol.types import Uuid


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic that a member subscribes to."""

    id: Uuid
    name: str
    num_partitions: int
    racks: tuple[frozenset[str], ...] = ()
    """For each partition, the racks of its replicas; empty if no broker has a rack."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member: what it subscribes to and what was assigned to it before."""

    instance_id: str | None
    rack_id: str | None
    topic_ids: frozenset[Uuid]
    """The topics that it subscribes to, and that exist."""
    assigned: Mapping[Uuid, frozenset[int]] = field(default_factory=dict)
    """The partitions of its present target assignment, by topic id."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The members of a group, by member id."""

    members: Mapping[str, MemberSpec]
    is_homogeneous: bool
    """Whether all members subscribe to the same topics."""


Topics = Mapping[Uuid, TopicSpec]
"""The topics that members subscribe to, by id."""
Assignment = Mapping[str, Mapping[Uuid, Collection[int]]]
"""The partitions of each member, by topic id. A member that is left out has none."""


class AssignorError(Exception):
    """There is no assignment: members keep the present one, and the next heartbeat asks again."""


class Assignor(ABC):
    """Divides the partitions of subscribed topics among the members of a group."""

    name: str
    """The name by which members ask for this assignor."""

    @abstractmethod
    def assign(self, group: GroupSpec, topics: Topics) -> Assignment:
        """The new target assignment of the group.

        Raises:
            AssignorError: there is none.
        """
