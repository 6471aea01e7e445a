"""The uniform assignor: members get equal shares, and keep their partitions.

Balance comes first: where all members subscribe to the same topics, their numbers of partitions differ by at
most one. Then stickiness: only the partitions move that must, and members that keep theirs are left alone.
Members that subscribe to different topics are balanced as far as their subscriptions allow
(`uneven_subscriptions.py`).

Source: Apache Kafka's UniformAssignor, UniformHomogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

from kafkapy.assignors import Assignment, Assignor, GroupSpec, MemberSpec, Topics
from kafkapy.groups.consumer.uneven_subscriptions import assign_uneven
from kafkapy.protocol.types import Uuid


class UniformAssignor(Assignor):
    """Assigns equal shares."""

    name = "uniform"

    def assign(self, group: GroupSpec, topics: Topics) -> Assignment:
        """The shares of all members."""
        if not group.members:
            return {}
        if group.is_homogeneous:
            return _assign_even(group, topics)
        return assign_uneven(group, topics)


def _assign_even(group: GroupSpec, topics: Topics) -> Assignment:
    subscribed = next(iter(group.members.values())).topic_ids
    total = sum(topics[topic].num_partitions for topic in subscribed)
    quota, extra = divmod(total, len(group.members))
    assignment: dict[str, Mapping[Uuid, Collection[int]]] = {}
    wanting: list[tuple[str, int]] = []
    for member_id, member in group.members.items():
        share = quota + (extra > 0)
        extra = max(extra - 1, 0)
        kept = assignment[member_id] = _kept(member, share, topics)
        if left := share - sum(map(len, kept.values())):
            wanting.append((member_id, left))
    free = _free(assignment, sorted(subscribed), topics)
    for member_id, left in wanting:
        own = {topic: set(partitions) for topic, partitions in assignment[member_id].items()}
        for topic, partition in islice(free, left):
            own.setdefault(topic, set()).add(partition)
        assignment[member_id] = own
    return assignment


def _kept(member: MemberSpec, share: int, topics: Topics) -> Mapping[Uuid, frozenset[int]]:
    """The partitions that a member keeps: the same object, unless it must give some up."""
    assigned = member.assigned
    if sum(map(len, assigned.values())) <= share and all(
        topic in member.topic_ids and max(partitions, default=-1) < topics[topic].num_partitions
        for topic, partitions in assigned.items()
    ):
        return assigned
    kept: dict[Uuid, frozenset[int]] = {}
    for topic in sorted(member.topic_ids & assigned.keys()):
        existing = sorted(each for each in assigned[topic] if each < topics[topic].num_partitions)
        kept[topic] = frozenset(existing[:share])
        share -= len(kept[topic])
    return kept


def _free(
    assignment: Mapping[str, Mapping[Uuid, Collection[int]]], order: Iterable[Uuid], topics: Topics
) -> Iterator[tuple[Uuid, int]]:
    """The partitions that nobody has, found when the first one is wanted."""
    taken: dict[Uuid, set[int]] = {topic: set() for topic in order}
    for assigned in assignment.values():
        for topic, partitions in assigned.items():
            taken[topic].update(partitions)
    for topic, owned in taken.items():
        yield from ((topic, each) for each in range(topics[topic].num_partitions) if each not in owned)
