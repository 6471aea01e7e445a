"""The records of streams groups in `__consumer_offsets`.

    key                                        value, version 0
    17 StreamsGroupMetadata                    the group epoch, a hash of the topics, the validated topology
    19 StreamsGroupMemberMetadata              the metadata of a member
    20 StreamsGroupTargetAssignmentMetadata    the epoch of the target assignment
    21 StreamsGroupTargetAssignmentMember      the target assignment of a member
    22 StreamsGroupCurrentMemberAssignment     the epoch, state and tasks of a member
    23 StreamsGroupTopology                    the topology

A null value removes the thing that the key names.

Source: Apache Kafka's StreamsCoordinatorRecordHelpers and GroupCoordinatorRecordSerde.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from kafkapy.groups.modern.change import Change, RecordTypes
from kafkapy.groups.streams.member import Endpoint, MemberState, StreamsMember
from kafkapy.groups.streams.tasks import MemberTasks, Tasks, TaskSet, TasksWithEpochs, read_tasks
from kafkapy.groups.streams.topology import Topology
from kafkapy.protocol.messages import streams_group_records as stored
from kafkapy.protocol.messages.streams_group_records import (
    KeyValue,
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from kafkapy.protocol.messages.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentValueTaskIds as CurrentTaskIds,
)
from kafkapy.protocol.messages.streams_group_records import (
    StreamsGroupTargetAssignmentMemberValueTaskIds as TargetTaskIds,
)

StreamsGroupKey: TypeAlias = (
    StreamsGroupMetadataKey
    | StreamsGroupMemberMetadataKey
    | StreamsGroupTargetAssignmentMetadataKey
    | StreamsGroupTargetAssignmentMemberKey
    | StreamsGroupCurrentMemberAssignmentKey
    | StreamsGroupTopologyKey
)
StreamsChange: TypeAlias = Change[StreamsGroupKey]


STREAMS_RECORDS: Final = RecordTypes[StreamsGroupKey](
    (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
    (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
    (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
)


# --- changes ------------------------------------------------------------------------------------------


def group_epoch(
    group_id: str, epoch: int, metadata_hash: int, validated_topology: int, settings: Mapping[str, str]
) -> StreamsChange:
    """The group has this epoch.

    `validated_topology` is the epoch of the topology whose topics are all there, or -1. `settings` are those
    by which targets are computed.
    """
    value = StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology,
        last_assignment_configs=[
            LastAssignmentConfig(key=key, value=settings[key]) for key in sorted(settings)
        ],
    )
    return Change(StreamsGroupMetadataKey(group_id=group_id), value)


def topology(group_id: str, found: Topology) -> StreamsChange:
    """The group has this topology."""
    return Change(StreamsGroupTopologyKey(group_id=group_id), found.record())


def assignment_epoch(group_id: str, epoch: int, timestamp: int) -> StreamsChange:
    """The target assignment has this epoch.

    It was computed at `timestamp`, in wall clock milliseconds.
    """
    value = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp)
    return Change(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_assignment(group_id: str, member_id: str, target: TaskSet) -> StreamsChange:
    """The member is to get these tasks."""
    value = StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_target_ids(target.active),
        standby_tasks=_target_ids(target.standby),
        warmup_tasks=_target_ids(target.warmup),
    )
    return Change(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def member_metadata(group_id: str, member: StreamsMember) -> StreamsChange:
    """The member says this of itself."""
    endpoint = member.endpoint
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else stored.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=tag) for key, tag in member.client_tags],
    )
    return Change(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def current_assignment(group_id: str, member: StreamsMember) -> StreamsChange:
    """The member has this epoch, state and tasks."""
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        active_tasks=_active_ids(member.assigned.active),
        standby_tasks=_current_ids(member.assigned.standby),
        warmup_tasks=_current_ids(member.assigned.warmup),
        active_tasks_pending_revocation=_active_ids(member.revoking.active),
        standby_tasks_pending_revocation=_current_ids(member.revoking.standby),
        warmup_tasks_pending_revocation=_current_ids(member.revoking.warmup),
    )
    key = StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return Change(key, value)


def member_gone(group_id: str, member_id: str) -> tuple[StreamsChange, StreamsChange, StreamsChange]:
    """The member is gone, in the order in which Kafka expects its tombstones."""
    return (
        Change(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        Change(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        Change(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    )


def group_gone(group_id: str, member_ids: Collection[str]) -> Sequence[StreamsChange]:
    """The group is gone, in the order in which Kafka expects its tombstones."""
    current, targets, metadata = [], [], []
    for member_id in member_ids:
        first, second, third = member_gone(group_id, member_id)
        current.append(first)
        targets.append(second)
        metadata.append(third)
    return (
        *current,
        *targets,
        Change(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *metadata,
        Change(StreamsGroupMetadataKey(group_id=group_id), None),
        Change(StreamsGroupTopologyKey(group_id=group_id), None),
    )


# --- values -------------------------------------------------------------------------------------------


def read_settings(value: StreamsGroupMetadataValue) -> dict[str, str]:
    """The settings by which the last target was computed."""
    return {each.key: each.value for each in value.last_assignment_configs or ()}


def read_target(value: StreamsGroupTargetAssignmentMemberValue) -> TaskSet:
    """The tasks of a target assignment."""
    return TaskSet(
        read_tasks(value.active_tasks), read_tasks(value.standby_tasks), read_tasks(value.warmup_tasks)
    )


def read_assigned(value: StreamsGroupCurrentMemberAssignmentValue) -> MemberTasks:
    """The tasks that a member has."""
    return MemberTasks(
        _read_active(value.active_tasks, value.member_epoch),
        read_tasks(value.standby_tasks),
        read_tasks(value.warmup_tasks),
    )


def read_revoking(value: StreamsGroupCurrentMemberAssignmentValue) -> MemberTasks:
    """The tasks that a member must give up."""
    return MemberTasks(
        _read_active(value.active_tasks_pending_revocation, value.member_epoch),
        read_tasks(value.standby_tasks_pending_revocation),
        read_tasks(value.warmup_tasks_pending_revocation),
    )


def read_state(number: int) -> MemberState:
    """The state of a record; UNKNOWN for a number that this release does not know."""
    try:
        return MemberState(number)
    except ValueError:
        return MemberState.UNKNOWN


def read_endpoint(value: StreamsGroupMemberMetadataValue) -> Endpoint | None:
    """Where the state of a member can be queried."""
    found = value.user_endpoint
    return None if found is None else Endpoint(found.host, found.port)


def read_tags(tags: Sequence[Any]) -> tuple[tuple[str, str], ...]:
    """The tags of a member, sorted.

    Of two with the same name the last one counts.
    """
    return tuple(sorted({tag.key: tag.value for tag in tags}.items()))


def _read_active(ids: Sequence[CurrentTaskIds], epoch: int) -> dict[str, dict[int, int]]:
    """Active tasks with the epochs of their assignment; `epoch`, where the record has none."""
    tasks = {}
    for each in ids:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [epoch] * len(each.partitions)
        if each.partitions:
            tasks[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return tasks


def _target_ids(tasks: Tasks) -> list[TargetTaskIds]:
    return [TargetTaskIds(subtopology_id=key, partitions=sorted(tasks[key])) for key in sorted(tasks)]


def _current_ids(tasks: Tasks) -> list[CurrentTaskIds]:
    return [CurrentTaskIds(subtopology_id=key, partitions=sorted(tasks[key])) for key in sorted(tasks)]


def _active_ids(tasks: TasksWithEpochs) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(
            subtopology_id=key,
            partitions=sorted(tasks[key]),
            assignment_epochs=[tasks[key][partition] for partition in sorted(tasks[key])],
        )
        for key in sorted(tasks)
    ]
