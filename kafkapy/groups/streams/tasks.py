"""Sets of tasks, by their roles.

A task is a subtopology and a partition number. Its active task processes records. Standby tasks keep copies
of its state. Warm-up tasks, which Apache Kafka 4.3 does not assign yet, build a copy before an active task
moves. Sets are immutable, and leave out subtopologies of which they have no task.

Source: Apache Kafka's TasksTuple, TasksTupleWithEpochs, TaskRole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class Task(NamedTuple):
    """A subtopology and a partition number."""

    subtopology: str
    partition: int


Tasks = Mapping[str, frozenset[int]]
"""The partition numbers of tasks, by subtopology."""
TasksWithEpochs = Mapping[str, Mapping[int, int]]
"""Active tasks by subtopology and partition number, each with the epoch at which it was assigned."""


class TaskIds(Protocol):
    """Tasks of one subtopology in a message."""

    subtopology_id: str
    partitions: list[int]


def read_tasks(ids: Iterable[TaskIds]) -> dict[str, frozenset[int]]:
    """The tasks of a message."""
    return {each.subtopology_id: frozenset(each.partitions) for each in ids if each.partitions}


def each_task(tasks: Mapping[str, Iterable[int]]) -> Iterator[Task]:
    """Every task of a set."""
    for subtopology, partitions in tasks.items():
        for partition in partitions:
            yield Task(subtopology, partition)


@dataclass(frozen=True, slots=True)
class TaskSet:
    """The tasks of a target assignment, or those that a client says it has."""

    active: Tasks = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is no task."""
        return not (self.active or self.standby or self.warmup)


@dataclass(frozen=True, slots=True)
class MemberTasks:
    """Tasks of a member: those that it has, or those that it must give up."""

    active: TasksWithEpochs = field(default_factory=dict)
    standby: Tasks = field(default_factory=dict)
    warmup: Tasks = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is no task."""
        return not (self.active or self.standby or self.warmup)

    def meets(self, owned: TaskSet) -> bool:
        """Whether a client has any of these, in the same role."""
        return any(
            not mine[subtopology].keys().isdisjoint(partitions)
            for mine, theirs in ((self.active, owned.active),)
            for subtopology, partitions in theirs.items()
            if subtopology in mine
        ) or any(
            not mine[subtopology].isdisjoint(partitions)
            for mine, theirs in ((self.standby, owned.standby), (self.warmup, owned.warmup))
            for subtopology, partitions in theirs.items()
            if subtopology in mine
        )

    def has_all(self, owned: TaskSet) -> bool:
        """Whether these are all that a client has, each in the same role."""
        return all(
            partitions <= self.active.get(subtopology, {}).keys()
            for subtopology, partitions in owned.active.items()
        ) and all(
            partitions <= mine.get(subtopology, frozenset())
            for mine, theirs in ((self.standby, owned.standby), (self.warmup, owned.warmup))
            for subtopology, partitions in theirs.items()
        )
