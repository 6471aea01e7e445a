"""Moves a member towards its target assignment, one step for each heartbeat.

1. Tasks that are not in the target, or there in another role, must be given up. While the client still has
   some of them, the member stays at its epoch (UNREVOKED_TASKS).
2. After that the member takes the epoch of the target, and those tasks of it that are free. An active task is
   free if nobody runs it, and the member's process has no other copy of its state. A standby task is free if
   the process has no copy.
3. While some are not, it waits for these (UNRELEASED_TASKS).

Source: Apache Kafka's CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kafkapy.groups.streams.group import StreamsGroup
from kafkapy.groups.streams.member import MemberState, StreamsMember
from kafkapy.groups.streams.tasks import MemberTasks, Task, Tasks, TaskSet
from kafkapy.protocol.errors import ErrorCode, KafkaError


class Reconciliation:
    """The next step of one member of a group."""

    def __init__(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        *,
        target_epoch: int,
        target: TaskSet,
        owned: TaskSet | None,
    ) -> None:
        """`owned` are the tasks that the client says it has, or None if it does not say."""
        self._group = group
        self._member = member
        self._target_epoch = target_epoch
        self._target = target
        self._owned = owned
        self._waits = False
        """Whether a task of the target is not free."""

    def next(self) -> StreamsMember:
        """The member after the step: the same object if there is none.

        Raises:
            KafkaError: FENCED_MEMBER_EPOCH, the member has to start again.
        """
        member = self._member
        if member.is_reconciled_to(self._target_epoch):
            return member
        if member.state is MemberState.UNREVOKED_TASKS:
            if self._still_has(member.revoking):
                return member
            return self._towards_target(member.epoch + 1)
        if member.state is MemberState.UNKNOWN:
            if self._owned is None or not self._owned.is_empty:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The streams group member is in a unknown state. "
                    "The member must abandon all its tasks and rejoin.",
                )
            return self._towards_target(self._target_epoch)
        return self._towards_target(member.epoch)

    def _still_has(self, tasks: MemberTasks) -> bool:
        """Whether the client has any of these, as far as it is known."""
        return self._owned is None or tasks.meets(self._owned)

    def _towards_target(self, epoch: int) -> StreamsMember:
        """The member after it gave up its surplus tasks: at `epoch` if more must go."""
        member, target = self._member, self._target
        active, given_up = _divided(member.assigned.active, target.active)
        standby, standby_given_up = _kept(member.assigned.standby, target.standby)
        warmup, warmup_given_up = _kept(member.assigned.warmup, target.warmup)
        revoking = MemberTasks(given_up, standby_given_up, warmup_given_up)
        if not revoking.is_empty and self._still_has(revoking):
            return replace(
                member.at_epoch(epoch),
                state=MemberState.UNREVOKED_TASKS,
                assigned=MemberTasks(active, standby, warmup),
                revoking=revoking,
            )
        for subtopology, partitions in self._free(target.active, active, is_active=True).items():
            epochs = dict.fromkeys(partitions, self._target_epoch)
            active[subtopology] = {**active.get(subtopology, {}), **epochs}
        for tasks, kept in ((target.standby, standby), (target.warmup, warmup)):
            for subtopology, partitions in self._free(tasks, kept, is_active=False).items():
                kept[subtopology] = kept.get(subtopology, frozenset()) | frozenset(partitions)
        return replace(
            member.at_epoch(self._target_epoch),
            state=MemberState.UNRELEASED_TASKS if self._waits else MemberState.STABLE,
            assigned=MemberTasks(active, standby, warmup),
            revoking=MemberTasks(),
        )

    def _free(
        self, target: Tasks, kept: Mapping[str, Iterable[int]], *, is_active: bool
    ) -> dict[str, list[int]]:
        """The tasks of the target that the member does not have, and can have now."""
        group, process = self._group, self._member.process_id
        found: dict[str, list[int]] = {}
        for subtopology, partitions in target.items():
            for partition in partitions - frozenset(kept.get(subtopology, ())):
                task = Task(subtopology, partition)
                running = group.active_processes(task)
                if (running if is_active else process in running) or process in group.copy_processes(task):
                    self._waits = True
                else:
                    found.setdefault(subtopology, []).append(partition)
        return found


def _divided(
    assigned: Mapping[str, Mapping[int, int]], target: Tasks
) -> tuple[dict[str, Mapping[int, int]], dict[str, Mapping[int, int]]]:
    """The active tasks that a member keeps, and those that it must give up."""
    kept: dict[str, Mapping[int, int]] = {}
    given_up: dict[str, Mapping[int, int]] = {}
    for subtopology, epochs in assigned.items():
        wanted = target.get(subtopology, frozenset())
        for found, tasks in (
            (kept, {each: epoch for each, epoch in epochs.items() if each in wanted}),
            (given_up, {each: epoch for each, epoch in epochs.items() if each not in wanted}),
        ):
            if tasks:
                found[subtopology] = tasks
    return kept, given_up


def _kept(assigned: Tasks, target: Tasks) -> tuple[dict[str, frozenset[int]], dict[str, frozenset[int]]]:
    """The copies that a member keeps, and those that it must give up."""
    kept, given_up = {}, {}
    for subtopology, partitions in assigned.items():
        wanted = target.get(subtopology, frozenset())
        if partitions & wanted:
            kept[subtopology] = partitions & wanted
        if partitions - wanted:
            given_up[subtopology] = partitions - wanted
    return kept, given_up
