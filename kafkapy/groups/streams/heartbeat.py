"""StreamsGroupHeartbeat: members join, follow their target assignment, and leave.

A member joins with epoch 0 and its topology. Only the first one decides the group's topology: another one of
the same or a later epoch is refused, and a member with an older one is told so (STALE_TOPOLOGY). It gets
tasks all the same. A member that has lost an answer may repeat its last epoch, if it has only tasks that are
assigned to it.

Source: Apache Kafka's GroupMetadataManager (streamsGroupHeartbeat), GroupCoordinatorService.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kafkapy.groups.modern.heartbeats import JOIN_EPOCH, STATIC_LEAVE_EPOCH, UNSET, Client
from kafkapy.groups.modern.settings import HEARTBEAT_INTERVAL
from kafkapy.groups.streams import records, topology
from kafkapy.groups.streams.configured_topology import ConfiguredTopology, Status
from kafkapy.groups.streams.group import StreamsGroup, Transition
from kafkapy.groups.streams.member import Endpoint, StreamsMember
from kafkapy.groups.streams.progress import DELAYED_BY_FIRST, Progress
from kafkapy.groups.streams.tasks import TaskSet, read_tasks
from kafkapy.groups.streams.topology import InternalTopic, Topology
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages import streams_group_heartbeat as wire
from kafkapy.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

_ONE_NOT_NULL: Final = "If one task-type is non-null, all must be non-null."


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The answer to a heartbeat, and the internal topics that the group needs."""

    response: StreamsGroupHeartbeatResponse
    topics_to_create: tuple[InternalTopic, ...] = ()


class Heartbeats:
    """Handles the heartbeats of members."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def require_valid(self, request: StreamsGroupHeartbeatRequest) -> None:
        """Raise KafkaError if the request makes no sense.

        The error is INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY.
        """
        _require_served(request)
        for value, name in (
            (request.member_id, "MemberId"),
            (request.group_id, "GroupId"),
            (request.rack_id, "RackId"),
        ):
            if value is not None and not value.strip():
                raise _invalid(f"{name} can't be empty.")
        tasks = request.active_tasks, request.standby_tasks, request.warmup_tasks
        epoch = request.member_epoch
        if epoch == JOIN_EPOCH:
            if request.rebalance_timeout_ms == UNSET:
                raise _invalid("RebalanceTimeoutMs must be provided in first request.")
            for found, role in zip(tasks, ("Active", "Standby", "Warmup"), strict=True):
                if found is None or found:
                    raise _invalid(f"{role}Tasks must be empty when (re-)joining.")
            if request.topology is None:
                raise _invalid("Topology must be non-null when (re-)joining.")
            topology.require_valid(request.topology)
        elif epoch == STATIC_LEAVE_EPOCH:
            raise _invalid("InstanceId can't be null.")
        elif epoch < STATIC_LEAVE_EPOCH:
            raise _invalid(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
        if any(found is not None for found in tasks) and None in tasks:
            raise _invalid(_ONE_NOT_NULL)
        if epoch != JOIN_EPOCH and request.topology is not None:
            raise _invalid("Topology can only be provided when (re-)joining.")

    def heartbeat(
        self, transition: Transition, request: StreamsGroupHeartbeatRequest, client: Client
    ) -> HeartbeatAnswer:
        """Join, or stay a member.

        Raises:
            KafkaError: it is refused; the caller must undo the changes.
        """
        progress, group, member_id = self._progress, transition.group, request.member_id
        was_empty = not group.members
        owned = _owned(request)
        before = self._find(group, request, owned)
        member = replace(
            before, client_id=client.client_id, client_host=client.client_host, **_given(request)
        )
        is_new = member_id not in group.members
        if is_new or member != before:
            transition.apply(records.member_metadata(group.group_id, member))
        running = self._topology(transition, request)
        configured, metadata_hash = progress.update_topics(transition, running)
        if configured.is_ready:
            _require_tasks(configured, owned)
        progress.update_epoch(transition, configured, metadata_hash, bump=is_new or member != before)
        if group.first_assignment is not None or (was_empty and progress.delay_first_assignment(transition)):
            delay: str | None = DELAYED_BY_FIRST
        else:
            delay = progress.update_target(transition, configured)
        updated = progress.reconcile(transition, member_id, owned)
        transition.afterwards(lambda: progress.deadlines.expect_heartbeat(group, member_id))
        if request.shutdown_application and group.shutdown_member is None:
            group.shutdown_member = member_id
        response = StreamsGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=updated.epoch,
            heartbeat_interval_ms=progress.settings.of(group.group_id, HEARTBEAT_INTERVAL),
            status=_status(group, updated, configured, delay),
        )
        if request.member_epoch == JOIN_EPOCH or updated.assigned != before.assigned:
            response.active_tasks = _task_ids(updated.assigned.active)
            response.standby_tasks = _task_ids(updated.assigned.standby)
            response.warmup_tasks = _task_ids(updated.assigned.warmup)
            if updated.endpoint is not None:
                group.endpoints.epoch += 1
        response.endpoint_information_epoch = group.endpoints.epoch
        if group.endpoints.epoch != request.endpoint_information_epoch:
            response.partitions_by_user_endpoint = group.endpoints.of(
                group.members, configured, progress.partition_count
            )
        return HeartbeatAnswer(response, configured.missing)

    def leaving(self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> None:
        """Note that a member leaves; raises KafkaError UNKNOWN_MEMBER_ID."""
        if request.shutdown_application and group.shutdown_member is None:
            group.shutdown_member = request.member_id
        group.member(request.member_id)

    def _find(
        self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest, owned: TaskSet | None
    ) -> StreamsMember:
        """The member that the request speaks for; a new one is not added yet."""
        if request.member_epoch == JOIN_EPOCH:
            size = self._progress.settings.config.streams_max_size
            if len(group.members) >= size:
                raise KafkaError(
                    ErrorCode.GROUP_MAX_SIZE_REACHED,
                    f"The streams group has reached its maximum capacity of {size} members.",
                )
            return group.members.get(request.member_id) or StreamsMember(request.member_id)
        member = group.member(request.member_id)
        _require_epoch(member, request.member_epoch, owned)
        return member

    def _topology(self, transition: Transition, request: StreamsGroupHeartbeatRequest) -> Topology:
        """The group's topology, which is that of its first member.

        Raises:
            KafkaError: INVALID_REQUEST, the member has another one; UNKNOWN_MEMBER_ID, it has to send it.
        """
        group = transition.group
        if request.topology is None:
            if group.topology is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_MEMBER_ID, f"Group {group.group_id} has no topology: join again."
                )
            return group.topology
        found = Topology.read(request.topology)
        if group.topology is None:
            transition.apply(records.topology(group.group_id, found))
        elif group.topology.epoch <= found.epoch and group.topology != found:
            raise _invalid("Topology updates are not supported yet.")
        assert group.topology is not None
        return group.topology


def _require_served(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise KafkaError INVALID_REQUEST for what Apache Kafka 4.3 does not serve either."""
    if request.instance_id is not None:
        raise _invalid("Static membership is not yet supported.")
    if request.task_offsets is not None:
        raise _invalid("TaskOffsets are not supported yet.")
    if request.task_end_offsets is not None:
        raise _invalid("TaskEndOffsets are not supported yet.")
    if request.warmup_tasks:
        raise _invalid("WarmupTasks are not supported yet.")
    if request.topology is not None and any(
        subtopology.source_topic_regex for subtopology in request.topology.subtopologies
    ):
        raise _invalid("Regular expressions for source topics are not supported yet.")


def _require_epoch(member: StreamsMember, epoch: int, owned: TaskSet | None) -> None:
    if epoch == member.epoch:
        return
    if (
        epoch == member.previous_epoch
        and epoch < member.epoch
        and owned is not None
        and member.assigned.has_all(owned)
    ):
        return  # the answer with the new epoch may have been lost
    than = "greater" if epoch > member.epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {than} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _require_tasks(configured: ConfiguredTopology, owned: TaskSet | None) -> None:
    """Raise KafkaError INVALID_REQUEST if a client has tasks that do not exist."""
    if owned is None:
        return
    for tasks in (owned.active, owned.standby, owned.warmup):
        for subtopology, partitions in tasks.items():
            count = configured.num_tasks.get(subtopology)
            if count is None:
                raise _invalid(f"Subtopology {subtopology} does not exist in the topology.")
            for partition in partitions:
                if not 0 <= partition < count:
                    raise _invalid(
                        f"Task {partition} for subtopology {subtopology} is invalid. "
                        f"Number of tasks for this subtopology: {count}"
                    )


def _owned(request: StreamsGroupHeartbeatRequest) -> TaskSet | None:
    """The tasks that the client has; None if it does not say."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return TaskSet(read_tasks(active), read_tasks(standby), read_tasks(warmup))


def _given(request: StreamsGroupHeartbeatRequest) -> dict[str, Any]:
    """The fields of a member that the request gives."""
    given: dict[str, Any] = {}
    if request.rack_id is not None:
        given["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != UNSET:
        given["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.topology is not None:
        given["topology_epoch"] = request.topology.epoch
    if request.process_id is not None:
        given["process_id"] = request.process_id
    if request.user_endpoint is not None:
        given["endpoint"] = Endpoint(request.user_endpoint.host, request.user_endpoint.port)
    if request.client_tags is not None:
        given["client_tags"] = records.read_tags(request.client_tags)
    return given


def _status(
    group: StreamsGroup, member: StreamsMember, configured: ConfiguredTopology, delay: str | None
) -> list[wire.Status]:
    """What keeps the member from running, in Kafka's order."""
    found: list[tuple[Status, str]] = []
    epoch = configured.topology.epoch
    if member.topology_epoch < epoch:
        found.append(
            (
                Status.STALE_TOPOLOGY,
                f"The member's topology epoch {member.topology_epoch} is behind "
                f"the group's topology epoch {epoch}.",
            )
        )
    if delay is not None:
        found.append((Status.ASSIGNMENT_DELAYED, delay))
    if configured.problem is not None:
        found.append((configured.problem.status, configured.problem.detail))
    if group.shutdown_member is not None:
        found.append(
            (
                Status.SHUTDOWN_APPLICATION,
                f"Streams group member {group.shutdown_member} encountered a fatal error and requested "
                "a shutdown for the entire application.",
            )
        )
    return [wire.Status(status_code=status, status_detail=detail) for status, detail in found]


def _task_ids(tasks: Mapping[str, Any]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=key, partitions=sorted(tasks[key])) for key in sorted(tasks)]


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
