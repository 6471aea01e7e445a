"""The sticky assignor: processes get equal loads, and members keep their tasks.

The load of a process is its number of tasks for each of its members. Active tasks go first to the member that
has them, then to one that has a standby task of them, as long as it has fewer than its share, and the rest to
the process with the least load. Standby tasks follow in the same way, to processes without another copy. If
there are too few processes, some standby tasks are assigned to nobody.

It computes no warm-up tasks, as in Apache Kafka 4.3. Source: Apache Kafka's StickyTaskAssignor, ProcessState.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafkapy.groups.streams.tasks import Task, TaskSet, each_task


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member: its process, and its present target assignment."""

    process_id: str
    target: TaskSet = field(default_factory=TaskSet)


@dataclass(frozen=True, slots=True)
class SubtopologySpec:
    """A subtopology: its number of tasks, and whether they have state."""

    num_tasks: int
    is_stateful: bool


class _Process:
    """The tasks of a process so far."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.tasks: set[Task] = set()
        self.count = 0
        """The number of tasks of all members."""
        self._fewest: list[tuple[int, int, _Member]] = []
        """A heap of the members by their numbers of tasks, which may have become larger since."""

    def add_member(self, member: _Member) -> None:
        """Add a member, which has no tasks yet."""
        self._fewest.append((0, len(self._fewest), member))

    @property
    def load(self) -> float:
        return self.count / len(self._fewest)

    def least_loaded(self) -> _Member:
        while True:
            count, number, member = self._fewest[0]
            if count == member.count:
                return member
            heapq.heapreplace(self._fewest, (member.count, number, member))


class _Member:
    """The tasks of a member so far."""

    def __init__(self, member_id: str, process: _Process) -> None:
        self.member_id = member_id
        self.process = process
        self.active: list[Task] = []
        self.standby: list[Task] = []

    @property
    def count(self) -> int:
        return len(self.active) + len(self.standby)

    def target(self) -> TaskSet:
        return TaskSet(_by_subtopology(self.active), _by_subtopology(self.standby))


class _Quota:
    """The largest share of a member, which becomes smaller when members have reached it."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.share = -(-tasks // members)

    def note(self, count: int) -> None:
        """Note that a member has so many tasks now."""
        if count == self.share:
            self._members -= 1
            self._tasks -= count
            self.share = -(-self._tasks // self._members) if self._members else 0


class StickyAssignor:
    """Assigns tasks to members."""

    name = "sticky"

    def assign(
        self,
        members: Mapping[str, MemberSpec],
        subtopologies: Mapping[str, SubtopologySpec],
        num_standby_replicas: int,
    ) -> dict[str, TaskSet]:
        """The tasks of each member."""
        if not members:
            return {}
        return _Assignment(members, subtopologies, num_standby_replicas).compute()


class _Assignment:
    """The computation of one target assignment."""

    def __init__(
        self,
        members: Mapping[str, MemberSpec],
        subtopologies: Mapping[str, SubtopologySpec],
        num_standby_replicas: int,
    ) -> None:
        self._standbys = num_standby_replicas
        self._active = [
            Task(name, partition)
            for name, spec in subtopologies.items()
            for partition in range(spec.num_tasks)
        ]
        self._stateful = [task for task in self._active if subtopologies[task.subtopology].is_stateful]
        total = len(self._active) + len(self._stateful) * num_standby_replicas
        self._active_quota = _Quota(len(self._active), len(members))
        self._quota = _Quota(total, len(members))
        self._processes: dict[str, _Process] = {}
        self._members: dict[str, _Member] = {}
        self._had_active: dict[Task, _Member] = {}
        self._had_standby: dict[Task, list[_Member]] = {}
        for member_id, spec in members.items():
            process = self._processes.setdefault(spec.process_id, _Process(len(self._processes)))
            member = self._members[member_id] = _Member(member_id, process)
            process.add_member(member)
            for task in each_task(spec.target.active):
                self._had_active[task] = member
            for task in each_task(spec.target.standby):
                self._had_standby.setdefault(task, []).append(member)

    def compute(self) -> dict[str, TaskSet]:
        """The tasks of each member."""
        self._assign_active()
        if self._standbys:
            self._assign_standby()
        return {member_id: member.target() for member_id, member in self._members.items()}

    def _add_active(self, member: _Member, task: Task) -> None:
        member.active.append(task)
        member.process.tasks.add(task)
        member.process.count += 1
        self._active_quota.note(member.count)
        self._quota.note(member.count)

    def _add_standby(self, member: _Member, task: Task) -> None:
        member.standby.append(task)
        member.process.tasks.add(task)
        member.process.count += 1
        self._quota.note(member.count)

    def _assign_active(self) -> None:
        left: Iterable[Task] = sorted(self._active, key=lambda task: (task.partition, task.subtopology))
        left = [task for task in left if not self._gave(task, self._had_active.get(task))]
        left = [task for task in left if not self._gave(task, self._least_loaded_standby(task))]
        queue = self._queue()
        for task in sorted(left):
            _, number, process = heapq.heappop(queue)
            self._add_active(process.least_loaded(), task)
            heapq.heappush(queue, (process.load, number, process))

    def _gave(self, task: Task, member: _Member | None) -> bool:
        """Assign an active task to the member, unless it has its share already."""
        if member is None or member.count >= self._active_quota.share:
            return False
        self._add_active(member, task)
        return True

    def _assign_standby(self) -> None:
        left: list[tuple[Task, int]] = []
        for task in sorted(self._stateful, key=lambda each: (each.partition, each.subtopology), reverse=True):
            for number in range(self._standbys):
                member = self._had_active.get(task)
                if member is None or not self._can_copy(member, task):
                    member = self._least_loaded_standby(task)
                    if member is None or not self._can_copy(member, task):
                        left.append((task, self._standbys - number))
                        break
                self._add_standby(member, task)
        queue = self._queue()
        for task, count in sorted(left, reverse=True):
            for _ in range(count):
                if not self._copied(queue, task):
                    break

    def _copied(self, queue: list[tuple[float, int, _Process]], task: Task) -> bool:
        """Assign a standby task to the process with the least load that has no copy.

        Return whether there is one.
        """
        passed = []
        found = False
        while queue and not found:
            _, number, process = heapq.heappop(queue)
            if task not in process.tasks:
                self._add_standby(process.least_loaded(), task)
                found = True
            passed.append((process.load, number, process))
        for each in passed:
            heapq.heappush(queue, each)
        return found

    def _can_copy(self, member: _Member, task: Task) -> bool:
        return task not in member.process.tasks and member.count < self._quota.share

    def _least_loaded_standby(self, task: Task) -> _Member | None:
        """Of the members that had a standby task, the one with the least load.

        Those whose processes have a copy already are left out.
        """
        return min(
            (member for member in self._had_standby.get(task, ()) if task not in member.process.tasks),
            key=lambda member: (member.process.load, member.count),
            default=None,
        )

    def _queue(self) -> list[tuple[float, int, _Process]]:
        queue = [(process.load, process.number, process) for process in self._processes.values()]
        heapq.heapify(queue)
        return queue


def _by_subtopology(tasks: Iterable[Task]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for subtopology, partition in tasks:
        found.setdefault(subtopology, set()).add(partition)
    return {subtopology: frozenset(partitions) for subtopology, partitions in found.items()}
