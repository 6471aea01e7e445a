"""ConsumerGroupHeartbeat: join a consumer group, and follow its assignment (KIP-848).

Versions: 0-1.

Behaviour:

- `kafkapy.groups.consumer` says how a group gets from one assignment to the next.
- The answer waits until what the heartbeat changed is committed.
- A member that names more than 10,000 topics is GROUP_MAX_SIZE_REACHED. It may subscribe to more by a regular
  expression.
- A member whose subscription and ids take more than 4 MiB is GROUP_MAX_SIZE_REACHED. So is one with which the
  members of all groups would take 64 MiB, or 128 MiB if it takes less than 16 KiB. An expression takes as
  much as the names that it matches.
- So is a member whose names would make more than 200,000 in different subscriptions of its group.
- A regular expression that is new in the group is compiled in a worker thread first.
- The assignment is answered when the member joins, says everything again, or gets another one.
- Without `consumer` in `group.coordinator.rebalance.protocols` every heartbeat is UNSUPPORTED_VERSION.

Version notes:

- v0 gives a new member its id. From v1 on the client makes its own.
- v1 adds regular expressions, with the syntax of RE2.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine

from kafkapy.handlers import rebalance_protocols
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.topic_rights import client_of, with_rights
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> (
    ConsumerGroupHeartbeatResponse
    | Awaitable[ConsumerGroupHeartbeatResponse]
    | Steps[ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]]
):
    """Note the heartbeat, and answer what has changed."""
    names = request.subscribed_topic_names
    before = context.broker.groups.consumers.look_at_topics(request.group_id, names)
    return with_rights(context, request, names, _beat, ConsumerGroupHeartbeatResponse, before)


def _beat(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    client = client_of(context)
    try:
        rebalance_protocols.require(context, "consumer")
        answer = context.broker.groups.consumer_heartbeat(request, context.api_version, client)
    except KafkaError as error:
        return _refused(error)
    return _answered(answer) if isinstance(answer, Coroutine) else answer


async def _answered(
    answer: Awaitable[ConsumerGroupHeartbeatResponse],
) -> ConsumerGroupHeartbeatResponse:
    try:
        return await answer
    except KafkaError as error:
        return _refused(error)


def _refused(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
