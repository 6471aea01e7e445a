"""The simple assignor: members have equal shares, and no more sharers than needed.

With fewer members than partitions, each partition has one member. With more, partitions are shared: every
partition has `ceil(members / partitions)` members at most, and members have equal numbers of partitions, give
or take one. Members keep their partitions, as far as that allows. If members subscribe to different topics,
each topic is divided for itself.

The time is linear in the subscriptions of all members and the partitions that are assigned, before and after.

Source: Apache Kafka's SimpleAssignor and its two builders.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from kafkapy.groups.share.member import Partitions
from kafkapy.protocol.types import Uuid

NAME: Final = "simple"

_Partition = tuple[Uuid, int]


def assign(
    subscriptions: Mapping[str, Collection[Uuid]],
    before: Mapping[str, Partitions],
    assignable: Partitions,
) -> dict[str, Partitions]:
    """The partitions of each member.

    Args:
        subscriptions: the topics of each member.
        before: the previous assignment.
        assignable: the partitions that may be assigned; no others are.
    """
    found: dict[str, dict[Uuid, set[int]]] = {member_id: {} for member_id in subscriptions}
    subscribers: dict[Uuid, list[str]] = {}
    for member_id, own in subscriptions.items():
        for topic in own:
            subscribers.setdefault(topic, []).append(member_id)
    topics = sorted(subscribers)
    if len({frozenset(each) for each in subscriptions.values()}) == 1:
        parts: list[Sequence[Uuid]] = [topics]
    else:
        parts = [(topic,) for topic in topics]
    for part in parts:
        partitions = [(topic, each) for topic in part for each in sorted(assignable.get(topic, ()))]
        members = subscribers[part[0]] if part else ()
        for member_id, shares in _divide(part, partitions, members, before).items():
            for topic, each in shares:
                found[member_id].setdefault(topic, set()).add(each)
    shared: dict[frozenset[int], frozenset[int]] = {}  # most topics have the same partitions as others
    return {
        member_id: {
            topic: shared.setdefault(numbers := frozenset(own), numbers) for topic, own in topics_of.items()
        }
        for member_id, topics_of in found.items()
    }


def _divide(
    topics: Sequence[Uuid],
    partitions: Sequence[_Partition],
    members: Sequence[str],
    before: Mapping[str, Partitions],
) -> dict[str, set[_Partition]]:
    """Divide the partitions of topics among members, each of whom may have any of them."""
    shares: dict[str, set[_Partition]] = {member_id: set() for member_id in members}
    if not partitions:
        return shares
    sharing = -(-len(members) // len(partitions))
    total = sharing * len(partitions)
    quotas = {
        member_id: -(-total * (index + 1) // len(members)) + (-total * index // len(members))
        for index, member_id in enumerate(members)
    }
    sharers: dict[_Partition, int] = dict.fromkeys(partitions, 0)
    for member_id in members:
        kept, former = shares[member_id], before.get(member_id, {})
        for topic in topics if len(topics) < len(former) else former:
            for each in sorted(former.get(topic, ())):
                partition = topic, each
                if len(kept) < quotas[member_id] and sharers.get(partition, sharing) < sharing:
                    kept.add(partition)
                    sharers[partition] += 1
    unfilled = deque(member_id for member_id in members if len(shares[member_id]) < quotas[member_id])
    for partition in sorted(partitions, key=sharers.__getitem__):  # first those without any member
        passed, taken = [], []
        while sharers[partition] < sharing and unfilled:
            taker = unfilled.popleft()
            if partition in shares[taker]:  # no more than `sharing` members have it
                passed.append(taker)
                continue
            shares[taker].add(partition)
            sharers[partition] += 1
            if len(shares[taker]) < quotas[taker]:
                taken.append(taker)
        unfilled.extendleft(reversed(passed))
        unfilled.extend(taken)  # the others come first
    return shares
