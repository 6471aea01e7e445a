"""StreamsGroupHeartbeat: join a streams group, and follow its tasks (KIP-1071).

Versions: 0. Apache Kafka 4.3 has no other one.

Behaviour:

- `kafkapy.groups.streams` says how a group gets from one assignment to the next.
- The answer waits until what the heartbeat changed is committed.
- Tasks are answered when the member joins, or gets others.
- Internal topics that are missing are created in the background, with the settings that the topology names.
  If some could not be created, the status MISSING_INTERNAL_TOPICS says why.
- Without `streams` in `group.coordinator.rebalance.protocols` every heartbeat is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import Final

from kafkapy.controller.topic_plans import DEFAULT, NewTopic
from kafkapy.groups.streams.configured_topology import Status
from kafkapy.groups.streams.heartbeat import HeartbeatAnswer
from kafkapy.handlers import rebalance_protocols
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.topic_rights import client_of, with_rights
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.messages.streams_group_heartbeat import Status as StatusMessage
from kafkapy.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)
from kafkapy.protocol.topic_names import is_internal, is_valid
from kafkapy.security.acls.model import Operation, ResourceType

SHOWN: Final = 3
"""The topics that could not be created and that a status names."""
PAUSE_HEARTBEATS: Final = 2
"""After so many heartbeats a topic that was refused is tried again."""


def handle(
    context: RequestContext, request: StreamsGroupHeartbeatRequest
) -> (
    StreamsGroupHeartbeatResponse
    | Awaitable[StreamsGroupHeartbeatResponse]
    | Steps[StreamsGroupHeartbeatResponse | Awaitable[StreamsGroupHeartbeatResponse]]
):
    """Note the heartbeat, and answer what has changed."""
    names = None if request.topology is None else _topics_of(request.topology)
    return with_rights(context, request, names, _beat, StreamsGroupHeartbeatResponse)


def _topics_of(topology: Topology) -> Iterator[str]:
    """The topics of a topology that are not refused for their names."""
    for each in topology.subtopologies:
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in each.repartition_source_topics),
            *(topic.name for topic in each.state_changelog_topics),
        ):
            if is_valid(name) and not is_internal(name):
                yield name


def _beat(
    context: RequestContext, request: StreamsGroupHeartbeatRequest
) -> StreamsGroupHeartbeatResponse | Awaitable[StreamsGroupHeartbeatResponse]:
    client = client_of(context)
    try:
        rebalance_protocols.require(context, "streams")
        answer = context.broker.groups.streams_heartbeat(request, client)
    except KafkaError as error:
        return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    if isinstance(answer, HeartbeatAnswer):
        return _answered(context, request.group_id, answer)
    return _when_committed(context, request.group_id, answer)


async def _when_committed(
    context: RequestContext, group_id: str, answer: Awaitable[HeartbeatAnswer]
) -> StreamsGroupHeartbeatResponse:
    return _answered(context, group_id, await answer)


def _answered(
    context: RequestContext, group_id: str, answer: HeartbeatAnswer
) -> StreamsGroupHeartbeatResponse:
    """The response, after topics that the group needs have begun to be created."""
    response = answer.response
    if answer.topics_to_create and not _may_create(context, answer):
        return response
    if answer.topics_to_create:
        refused = context.broker.automatic_topics.streams.create(
            [
                NewTopic(
                    topic.name,
                    topic.num_partitions,
                    topic.replication_factor or DEFAULT,
                    configs=dict(topic.configs),
                )
                for topic in answer.topics_to_create
            ],
            pause_seconds=PAUSE_HEARTBEATS
            * context.broker.groups.streams.heartbeat_interval_ms(group_id)
            / 1000,
        )
        if refused:
            shown = ", ".join(f"{name} ({why})" for name, why in list(refused.items())[:SHOWN])
            more = f" and {len(refused) - SHOWN} more" if len(refused) > SHOWN else ""
            for status in response.status or ():
                if status.status_code == Status.MISSING_INTERNAL_TOPICS:
                    status.status_detail += f"; Creation failed: {shown}{more}."
    return response


def _may_create(context: RequestContext, answer: HeartbeatAnswer) -> bool:
    """Whether the client may create all missing topics; if not, the response names some."""
    if context.may_on_cluster(Operation.CREATE, log_if_denied=False):
        return True
    missing = [topic.name for topic in answer.topics_to_create]
    refused = [name for name in missing if not context.may(Operation.CREATE, ResourceType.TOPIC, name)]
    if not refused:
        return True
    response, why = answer.response, f"Unauthorized to CREATE on topics {', '.join(refused)}."
    for status in response.status or ():
        if status.status_code == Status.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {why}"
            return False
    told = StatusMessage(status_code=Status.MISSING_INTERNAL_TOPICS, status_detail=why)
    response.status = [*(response.status or ()), told]
    return False
