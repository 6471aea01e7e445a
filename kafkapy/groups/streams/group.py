"""A streams group: its members, their topology, epochs, target assignment.

    Empty        no members
    NotReady     topics of the topology are missing, or have the wrong number of partitions
    Assigning    the group epoch is ahead of the target assignment
    Reconciling  members are on their way to the target assignment
    Stable       every member has reached it

The state changes by `replay` only, one record at a time: when an event changes the group, and when its
partition is read. The order of the records of different keys does not matter. `value_of` is the opposite: the
record that brings back the present state of a key. Some state is in no record, and is lost with the
coordinator: the configured topology, that a member asked for a shutdown, and the epoch of the endpoints.

This module does no I/O and has no clock. `check()` asserts the invariants between any two events. Source:
Apache Kafka's StreamsGroup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any, Final, TypeAlias

from kafkapy.coordination.timers import Cancellable
from kafkapy.groups.group import CommitCheck, GroupType
from kafkapy.groups.member_total import identity_bytes
from kafkapy.groups.modern.event_records import EventRecords
from kafkapy.groups.modern.group import NO_EPOCH, ModernGroup
from kafkapy.groups.modern.heartbeats import FIRST_COMMIT_VERSION
from kafkapy.groups.streams import records
from kafkapy.groups.streams.configured_topology import ConfiguredTopology
from kafkapy.groups.streams.endpoints import Endpoints
from kafkapy.groups.streams.member import MemberState, StreamsMember, metadata_bytes
from kafkapy.groups.streams.records import StreamsChange, StreamsGroupKey
from kafkapy.groups.streams.tasks import MemberTasks, Task, TaskSet, each_task
from kafkapy.groups.streams.topology import Topology
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
)
from kafkapy.protocol.types import Uuid

STREAMS_PROTOCOL_TYPE: Final = "streams"


class StreamsGroupState(Enum):
    """Kafka's names, as StreamsGroupDescribe and ListGroups show them."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class StreamsGroup(ModernGroup[StreamsMember, TaskSet]):
    """One streams group."""

    type = GroupType.STREAMS
    target_key = StreamsGroupTargetAssignmentMemberKey
    protocol_type: str | None = STREAMS_PROTOCOL_TYPE

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.validated_topology = NO_EPOCH
        """The epoch of the topology whose topics are all there; -1 if some are not."""
        self.assignment_settings: Mapping[str, str] = {}
        """The settings by which targets are computed, as of the last change of the epoch."""
        self.topology: Topology | None = None
        """None only before the first member has joined."""
        self.configured: ConfiguredTopology | None = None
        """The configured topology; None until a heartbeat needs it."""
        self.must_look_at_topics = True
        """Whether the topics are to be looked at again."""
        self.shutdown_member: str | None = None
        """The member that asked for a shutdown of the application."""
        self.endpoints = Endpoints()
        self.first_assignment: Cancellable | None = None
        """The timer that ends the initial rebalance delay, while it runs."""
        self._active: dict[Task, Counter[str]] = {}
        """For each active task, the processes whose members have it: one, except between two records."""
        self._copies: dict[Task, Counter[str]] = {}
        """For each task, the processes whose members have standby or warm-up tasks of it."""

    # --- records --------------------------------------------------------------------------------------

    def replay(self, change: StreamsChange) -> None:
        """Apply a record."""
        key, value = change
        if isinstance(key, StreamsGroupCurrentMemberAssignmentKey):
            self._replay_current_assignment(key.member_id, value)
        elif isinstance(key, StreamsGroupTargetAssignmentMemberKey):
            if value is None:
                self.targets.pop(key.member_id, None)
            else:
                self.targets[key.member_id] = records.read_target(value)
        elif isinstance(key, StreamsGroupMemberMetadataKey):
            self._replay_member(key.member_id, value)
        elif isinstance(key, StreamsGroupMetadataKey):
            self._replay_epoch(value)
            self.validated_topology = NO_EPOCH if value is None else value.validated_topology_epoch
            self.assignment_settings = {} if value is None else records.read_settings(value)
        elif isinstance(key, StreamsGroupTargetAssignmentMetadataKey):
            self._replay_assignment_epoch(value)
        else:
            self.memory.add(-self.topology_bytes)
            self.topology = None if value is None else Topology.read(value)
            self.memory.add(self.topology_bytes)
            self.configured = None

    def value_of(self, key: StreamsGroupKey) -> Any:
        """The value of the group's own record of this key; None if there is none."""
        group_id = self.group_id
        if isinstance(key, StreamsGroupMetadataKey):
            return records.group_epoch(
                group_id,
                self.epoch,
                self.metadata_hash,
                self.validated_topology,
                settings=self.assignment_settings,
            ).value
        if isinstance(key, StreamsGroupTargetAssignmentMetadataKey):
            change = records.assignment_epoch(group_id, self.assignment_epoch, self.assignment_timestamp)
            return change.value
        return None if self.topology is None else self.topology.record()

    def _replay_member(self, member_id: str, value: Any) -> None:
        if value is None:
            self._put(member_id, None)
            return
        endpoint, tags = records.read_endpoint(value), records.read_tags(value.client_tags)
        self._put(
            member_id,
            replace(
                self.members.get(member_id, StreamsMember(member_id)),
                instance_id=value.instance_id,
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                topology_epoch=value.topology_epoch,
                process_id=value.process_id,
                endpoint=endpoint,
                client_tags=tags,
                nbytes=metadata_bytes(value.process_id, "" if endpoint is None else endpoint.host, tags)
                + identity_bytes(
                    member_id, value.instance_id, value.rack_id, value.client_id, value.client_host
                ),
            ),
        )

    def _replay_current_assignment(self, member_id: str, value: Any) -> None:
        member = self.members.get(member_id)
        if value is None:
            if member is not None:
                empty = MemberTasks()
                self._put(member_id, replace(member, epoch=NO_EPOCH, assigned=empty, revoking=empty))
            return
        self._put(
            member_id,
            replace(
                member or StreamsMember(member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=records.read_state(value.state),
                assigned=records.read_assigned(value),
                revoking=records.read_revoking(value),
            ),
        )

    def _put(self, member_id: str, new: StreamsMember | None) -> None:
        """Add, replace or remove a member, and update the tasks of all."""
        old = self.members.pop(member_id, None) if new is None else self.members.get(member_id)
        if old is not None:
            self._count(old, -1)
        if new is not None:
            self.members[member_id] = new
            self._count(new, 1)
        else:
            self.endpoints.forget(member_id)
        if not self.members:
            self.shutdown_member = None

    def _count(self, member: StreamsMember, by: int) -> None:
        self.memory.add(by * member.nbytes)
        process = member.process_id
        for tasks in (member.assigned, member.revoking):
            for task in each_task(tasks.active):
                _add(self._active, task, process, by)
            for copies in (tasks.standby, tasks.warmup):
                for task in each_task(copies):
                    _add(self._copies, task, process, by)

    # --- members --------------------------------------------------------------------------------------

    def target(self, member_id: str) -> TaskSet:
        """The target assignment of a member."""
        return self.targets.get(member_id, TaskSet())

    @property
    def topology_bytes(self) -> int:
        """The part of `memory` that the topology takes."""
        return 0 if self.topology is None else self.topology.nbytes

    def active_processes(self, task: Task) -> Collection[str]:
        """The processes that have the active task, or have not given it up yet."""
        return self._active.get(task, ())

    def copy_processes(self, task: Task) -> Collection[str]:
        """The processes that have a standby or warm-up task, or have not given it up yet."""
        return self._copies.get(task, ())

    # --- the interface of any group -------------------------------------------------------------------

    def bytes_of_member(self, member_id: str) -> int:
        """The part of `memory` that one member takes."""
        member = self.members.get(member_id)
        return 0 if member is None else member.nbytes

    @property
    def state(self) -> StreamsGroupState:
        """The state."""
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        """The state's name, as tools show it."""
        return self.state.value

    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        version: int | None = None,
        *,
        in_transaction: bool = False,
    ) -> CommitCheck | None:
        """Check that a member may commit offsets, or a client that is not a member.

        A member whose epoch rose meanwhile may commit for those tasks that it has had since (KIP-1251). The
        returned function checks one partition.

        Raises:
            KafkaError: the commit is refused.
        """
        if generation < 0 and not self.members:
            return None
        if in_transaction and generation == NO_EPOCH and not member_id and group_instance_id is None:
            return None  # a transactional producer need not say which member it works for
        member = self.member(member_id)
        if version is not None and version < FIRST_COMMIT_VERSION:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the streams group protocol",
            )
        if generation == member.epoch:
            return None
        if generation > member.epoch:
            raise _stale(
                f"Received member epoch {generation} is newer than current member epoch {member.epoch}."
            )
        if self.topology is None:
            raise _stale("Topology is not available for offset commit validation.")
        return partial(_check_partition, member, self.topology, generation)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise KafkaError if this is not a member, or its epoch is another one."""
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.epoch:
            raise _stale(
                f"The received member epoch {member_epoch} does not match "
                f"the expected member epoch {member.epoch}."
            )

    def validate_offset_delete(self) -> None:
        """Accept: the topology is known."""

    def is_concerned_by(self, topic: str) -> bool:
        """Whether the topology needs the topic."""
        return self.topology is not None and topic in self.topology.required_topics

    def topics_changed(self, names: Collection[str] | None) -> None:
        """Look at all topics again at the next event."""
        self.must_look_at_topics = True

    def is_subscribed(self, topic: str) -> bool:
        """Whether the members' topology reads the topic."""
        return bool(self.members) and self.topology is not None and topic in self.topology.subtopology_of

    def retention_start(self, commit_timestamp: int) -> int | None:
        """The commit's own time: offsets of topics that nobody reads expire."""
        return commit_timestamp

    def tombstones(self) -> Sequence[StreamsChange]:
        """The records that remove the group, apart from its offsets."""
        return records.group_gone(self.group_id, self.members)

    def close(self, error: ErrorCode, now_ms: int) -> None:
        """Cancel all timers: the group is deleted, converted or unloaded."""
        super().close(error, now_ms)
        if self.first_assignment is not None:
            self.first_assignment.cancel()
            self.first_assignment = None

    # --- invariants -----------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert the invariants that hold between any two events."""
        active: Counter[Task] = Counter()
        held: Counter[tuple[str, Task]] = Counter()
        for member_id, member in self.members.items():
            assert member_id == member.member_id
            assert member.epoch <= self.assignment_epoch <= self.epoch, "no epoch is ahead of what it is of"
            for tasks in (member.assigned, member.revoking):
                active.update(each_task(tasks.active))
                for role in (tasks.active, tasks.standby, tasks.warmup):
                    held.update((member.process_id, task) for task in each_task(role))
            if member.state is MemberState.UNREVOKED_TASKS:
                assert not member.revoking.is_empty, "there is something to give up"
            else:
                assert member.revoking.is_empty
            if member.state is MemberState.STABLE and member.epoch == self.assignment_epoch:
                target, assigned = self.target(member_id), member.assigned
                assert {*each_task(assigned.active)} == {*each_task(target.active)}, "it has its target"
                assert (assigned.standby, assigned.warmup) == (target.standby, target.warmup)
        assert all(count == 1 for count in active.values()), "an active task has one owner"
        assert all(count == 1 for count in held.values()), "a process has a task in one role only"
        assert active.keys() == self._active.keys()
        nbytes = sum(each.nbytes for each in self.members.values())
        assert self.memory.nbytes == nbytes + self.topology_bytes
        targets: Counter[Task] = Counter()
        planned: Counter[tuple[str, Task]] = Counter()
        for member_id, target in self.targets.items():
            process = self.members[member_id].process_id
            targets.update(each_task(target.active))
            for tasks_of_role in (target.active, target.standby, target.warmup):
                planned.update((process, task) for task in each_task(tasks_of_role))
        assert all(count == 1 for count in targets.values()), "an active task is in one target"
        assert all(count == 1 for count in planned.values()), "copies of a task are in different processes"


def _add(index: dict[Task, Counter[str]], task: Task, process: str, by: int) -> None:
    counts = index.setdefault(task, Counter())
    counts[process] += by
    if not counts[process]:
        del counts[process]
        if not counts:
            del index[task]


def _stale(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, message)


def _check_partition(
    member: StreamsMember, topology: Topology, epoch: int, topic: str, topic_id: Uuid, partition: int
) -> None:
    """Raise KafkaError unless the member has had the task of the partition since this epoch."""
    subtopology = topology.subtopology_of.get(topic)
    if subtopology is None:
        raise _stale(f"Topic {topic} is not in the topology.")
    since = member.assigned.active.get(subtopology, {}).get(partition)
    if since is None:
        since = member.revoking.active.get(subtopology, {}).get(partition)
    if since is None:
        raise _stale(f"Task {subtopology}-{partition} is not assigned or pending revocation for member.")
    if epoch < since:
        raise _stale(
            f"Received member epoch {epoch} is older than assignment epoch {since} "
            f"for task {subtopology}-{partition}."
        )


Transition: TypeAlias = EventRecords[StreamsGroup, StreamsGroupKey]
"""The records of one event of a group."""
