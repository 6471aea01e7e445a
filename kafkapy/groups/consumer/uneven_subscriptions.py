"""Balances partitions among members that subscribe to different topics.

1. Each member keeps its partitions of the topics that it still subscribes to.
2. The free partitions of each topic go to the subscriber that has the fewest. The topics with the most
   partitions for each subscriber come first.
3. Topic after topic, partitions move from the subscribers with the most to those with the fewest, until no
   move helps, or MOST_ROUNDS rounds are over: then the assignment is nearly balanced.

A topic's subscribers are kept in a heap for each end of the scale, so a move costs O(log members).

Source: Apache Kafka's UniformHeterogeneousAssignmentBuilder.
"""

from __future__ import annotations

import heapq
from typing import Final

from kafkapy.assignors import Assignment, GroupSpec, Topics
from kafkapy.protocol.types import Uuid

MOST_ROUNDS: Final = 16


def assign_uneven(group: GroupSpec, topics: Topics) -> Assignment:
    """The balanced assignment."""
    return _Balance(group, topics).assign()


class _Balance:
    def __init__(self, group: GroupSpec, topics: Topics) -> None:
        self._group = group
        self._topics = topics
        self._rank = {member_id: index for index, member_id in enumerate(group.members)}
        self._subscribers: dict[Uuid, list[str]] = {}
        for member_id, member in group.members.items():
            for topic in member.topic_ids:
                self._subscribers.setdefault(topic, []).append(member_id)
        self._order = sorted(
            self._subscribers,
            key=lambda topic: (
                -topics[topic].num_partitions / len(self._subscribers[topic]),
                len(self._subscribers[topic]),
                topic,
            ),
        )
        self._assigned: dict[str, dict[Uuid, set[int]]] = {member_id: {} for member_id in group.members}
        self._load = dict.fromkeys(group.members, 0)

    def assign(self) -> Assignment:
        self._keep()
        for topic in self._order:
            self._hand_out(topic)
        last_moved = -1
        for _ in range(MOST_ROUNDS):
            for index, topic in enumerate(self._order):
                if index == last_moved:
                    return self._assigned
                if self._level(topic) or last_moved < 0:
                    last_moved = index
        return self._assigned

    def _keep(self) -> None:
        for member_id, member in self._group.members.items():
            for topic, partitions in member.assigned.items():
                if topic in member.topic_ids:
                    count = self._topics[topic].num_partitions
                    kept = {each for each in partitions if each < count}
                    if kept:
                        self._assigned[member_id][topic] = kept
                        self._load[member_id] += len(kept)

    def _hand_out(self, topic: Uuid) -> None:
        """Give the free partitions of a topic to its least loaded subscribers."""
        owned: set[int] = set().union(
            *(self._assigned[member_id].get(topic, ()) for member_id in self._subscribers[topic])
        )
        fewest = self._heap(topic, 1)
        for partition in range(self._topics[topic].num_partitions):
            if partition not in owned:
                load, rank, member_id = fewest[0]
                self._assigned[member_id].setdefault(topic, set()).add(partition)
                self._load[member_id] += 1
                heapq.heapreplace(fewest, (load + 1, rank, member_id))

    def _level(self, topic: Uuid) -> bool:
        """Move a topic's partitions to its less loaded subscribers; return whether any moved."""
        fewest, most = self._heap(topic, 1), self._heap(topic, -1)
        moved = False
        while most:
            load, rank, giver = most[0]
            if -load != self._load[giver]:
                heapq.heapreplace(most, (-self._load[giver], rank, giver))
                continue
            own = self._assigned[giver].get(topic)
            if not own:
                heapq.heappop(most)
                continue
            least, rank, taker = fewest[0]
            if least != self._load[taker]:
                heapq.heapreplace(fewest, (self._load[taker], rank, taker))
                continue
            if self._load[giver] - least <= 1:
                break
            partition = max(own)
            own.remove(partition)
            if not own:
                del self._assigned[giver][topic]
            self._assigned[taker].setdefault(topic, set()).add(partition)
            self._load[giver] -= 1
            self._load[taker] += 1
            moved = True
        return moved

    def _heap(self, topic: Uuid, sign: int) -> list[tuple[int, int, str]]:
        heap = [
            (sign * self._load[member_id], sign * self._rank[member_id], member_id)
            for member_id in self._subscribers[topic]
        ]
        heapq.heapify(heap)
        return heap
