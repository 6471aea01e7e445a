"""StreamsGroupDescribe: show the state, topology and members of streams groups (KIP-1071).

Versions: 0. Apache Kafka 4.3 has no other one.

Behaviour:

- A group that does not exist, or is not a streams group, is GROUP_ID_NOT_FOUND.
- While topics are missing, the topology is shown as the members sent it. After that it has the numbers of
  partitions of its internal topics.
- A group that is named twice is described once.
- Members are in the order of Apache Kafka's hash tables (`hash_order.py`).
- Without `streams` in `group.coordinator.rebalance.protocols` each group is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter

from kafkapy.groups.streams.group import StreamsGroup
from kafkapy.groups.streams.member import StreamsMember
from kafkapy.groups.streams.tasks import MemberTasks, TaskSet
from kafkapy.groups.streams.topology import InternalTopic
from kafkapy.handlers import rebalance_protocols, topic_rights
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.hash_order import names_in_hash_order
from kafkapy.handlers.per_partition import answer_each, answer_in_steps
from kafkapy.loop.turns import Steps, counted
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kafkapy.security.acls.model import Operation, ResourceType


def handle(
    context: RequestContext, request: StreamsGroupDescribeRequest
) -> Steps[StreamsGroupDescribeResponse]:
    """Describe each group once."""
    named = yield from counted(request.group_ids)
    described = yield from answer_in_steps(named, lambda group_id: _describe(context, request, group_id))
    return StreamsGroupDescribeResponse(groups=described)


def _describe(
    context: RequestContext, request: StreamsGroupDescribeRequest, group_id: str
) -> Steps[DescribedGroup]:
    groups = context.broker.groups
    try:
        rebalance_protocols.require(context, "streams")
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        context.require(Operation.DESCRIBE, ResourceType.GROUP, group_id)
        groups.runtime.require_active(group_id)
        return (yield from _described(context, request, groups.streams.require_group(group_id)))
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)


def _described(
    context: RequestContext, request: StreamsGroupDescribeRequest, group: StreamsGroup
) -> Steps[DescribedGroup]:
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
    )
    if described.topology is not None:
        topic_rights.require_shown(
            context,
            (name for each in described.topology.subtopologies or () for name in _names(each)),
            "The described group uses topics that the client is not authorized to describe.",
        )
    members = dict(group.members)

    def describe(member_id: str) -> Member:
        member, target = members[member_id], group.target(member_id)
        values = sum(
            1 + len(numbers)
            for tasks in (member.assigned, target)
            for kind in (tasks.active, tasks.standby, tasks.warmup)
            for numbers in kind.values()
        )
        context.charge(values, member.nbytes, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return _member(member, target)

    described.members = yield from answer_each((yield from names_in_hash_order(members)), describe)
    if request.include_authorized_operations:
        described.authorized_operations = context.operations_on(ResourceType.GROUP, group.group_id)
    return described


def _topology(group: StreamsGroup) -> Topology | None:
    if group.topology is None:
        return None
    configured = group.configured
    counts = configured.num_partitions if configured is not None and configured.is_ready else {}
    subtopologies = group.topology.subtopologies
    return Topology(
        epoch=group.topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=subtopology.subtopology_id,
                source_topics=sorted(subtopology.source_topics),
                repartition_sink_topics=sorted(subtopology.repartition_sinks),
                state_changelog_topics=_topics(subtopology.changelogs, counts),
                repartition_source_topics=_topics(subtopology.repartition_sources, counts),
            )
            for subtopology in (subtopologies[key] for key in sorted(subtopologies))
        ],
    )


def _names(subtopology: Subtopology) -> Iterator[str]:
    """The topics of a subtopology."""
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
        yield topic.name


def _topics(topics: Iterable[InternalTopic], counts: Mapping[str, int]) -> list[TopicInfo]:
    """Internal topics, with their numbers of partitions where these are known."""
    return [
        TopicInfo(
            name=topic.name,
            partitions=counts.get(topic.name, topic.num_partitions),
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=key, value=value) for key, value in topic.configs],
        )
        for topic in sorted(topics, key=attrgetter("name"))
    ]


def _member(member: StreamsMember, target: TaskSet) -> Member:
    endpoint = member.endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.client_tags],
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(target),
    )


def _assignment(tasks: MemberTasks | TaskSet) -> Assignment:
    return Assignment(
        active_tasks=_task_ids(tasks.active),
        standby_tasks=_task_ids(tasks.standby),
        warmup_tasks=_task_ids(tasks.warmup),
    )


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=key, partitions=sorted(tasks[key])) for key in sorted(tasks)]
