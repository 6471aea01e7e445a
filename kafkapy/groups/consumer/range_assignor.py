"""The range assignor: each member gets a contiguous range of each of its topics.

Static members come first, by group.instance.id, and the others follow by member id. So topics with the same
number of partitions and the same subscribers are divided in the same way, and their partitions can be joined.
The ranges are computed anew each time: the partitions that a member has now do not count.

Source: Apache Kafka's RangeAssignor.
"""

from __future__ import annotations

from collections import Counter

from kafkapy.assignors import Assignment, Assignor, GroupSpec, Topics
from kafkapy.protocol.types import Uuid


class RangeAssignor(Assignor):
    """Assigns ranges."""

    name = "range"

    def assign(self, group: GroupSpec, topics: Topics) -> Assignment:
        """The ranges of all members."""
        subscribers = Counter(topic for member in group.members.values() for topic in member.topic_ids)
        next_start: dict[Uuid, int] = dict.fromkeys(subscribers, 0)
        extra = {topic: topics[topic].num_partitions % count for topic, count in subscribers.items()}
        assignment: dict[str, dict[Uuid, range]] = {}
        for member_id in _ordered(group):
            own = assignment[member_id] = {}
            for topic in group.members[member_id].topic_ids:
                size = topics[topic].num_partitions // subscribers[topic]
                if extra[topic]:
                    extra[topic] -= 1
                    size += 1
                start = next_start[topic]
                next_start[topic] = start + size
                if size:
                    own[topic] = range(start, start + size)
        return assignment


def _ordered(group: GroupSpec) -> list[str]:
    def key(member_id: str) -> tuple[bool, str]:
        instance_id = group.members[member_id].instance_id
        return (True, member_id) if instance_id is None else (False, instance_id)

    return sorted(group.members, key=key)
