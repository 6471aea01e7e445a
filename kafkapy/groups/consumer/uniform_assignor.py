"""The uniform assignor: members get equal shares, and keep what they have.

Balance comes first: where all members subscribe to the same topics, their numbers of partitions differ by at
most one. Then stickiness: only the partitions move that must. Members who subscribe to different topics are
balanced as far as their subscriptions allow (`uneven_subscriptions.py`).

Source: Apache Kafka's UniformAssignor, UniformHomogeneousAssignmentBuilder.
"""

from __future__ import annotations

from kafkapy.assignors import Assignment, Assignor, GroupSpec, Topics
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
    owned: dict[Uuid, set[int]] = {topic: set() for topic in subscribed}
    for member in group.members.values():
        for topic, partitions in member.assigned.items():
            if topic in owned:
                owned[topic].update(partitions)
    free = [
        (topic, partition)
        for topic in sorted(subscribed)
        for partition in range(topics[topic].num_partitions)
        if partition not in owned[topic]
    ]
    total = sum(topics[topic].num_partitions for topic in subscribed)
    quota, extra = divmod(total, len(group.members))
    assignment: dict[str, dict[Uuid, set[int]]] = {}
    wanting: list[tuple[str, int]] = []
    for member_id, member in group.members.items():
        left = quota + (extra > 0)
        extra = max(extra - 1, 0)
        kept = assignment[member_id] = {}
        for topic in sorted(member.assigned):
            if topic not in owned:
                continue
            count = topics[topic].num_partitions
            before = sorted(each for each in member.assigned[topic] if each < count)
            kept[topic] = set(before[:left])
            free += [(topic, partition) for partition in before[left:]]
            left -= len(kept[topic])
        if left:
            wanting.append((member_id, left))
    given = 0
    for member_id, left in wanting:
        for topic, partition in free[given : given + left]:
            assignment[member_id].setdefault(topic, set()).add(partition)
        given += left
    return assignment
