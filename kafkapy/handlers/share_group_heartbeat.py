"""ShareGroupHeartbeat: join a share group, and follow its assignment (KIP-932).

Versions: 1.

Behaviour:

- `kafkapy.groups.share` says how members get their partitions.
- The answer waits until what the heartbeat changed is committed.
- The assignment is answered when the member joins, says everything again, or gets another one.
- A member that names more than 10,000 topics is GROUP_MAX_SIZE_REACHED. So is one whose names would make more
  than 200,000 in different subscriptions of its group.
- A partition is assigned after the share coordinator has initialized its state, so a new group gets its first
  partitions with its second heartbeat.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.topic_rights import client_of, with_rights
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


def handle(
    context: RequestContext, request: ShareGroupHeartbeatRequest
) -> (
    ShareGroupHeartbeatResponse
    | Awaitable[ShareGroupHeartbeatResponse]
    | Steps[ShareGroupHeartbeatResponse | Awaitable[ShareGroupHeartbeatResponse]]
):
    """Note the heartbeat, and answer what has changed."""
    names = request.subscribed_topic_names
    before = context.broker.groups.shares.look_at_topics(request.group_id, names)
    return with_rights(context, request, names, _beat, ShareGroupHeartbeatResponse, before)


def _beat(
    context: RequestContext, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse | Awaitable[ShareGroupHeartbeatResponse]:
    client = client_of(context)
    try:
        return context.broker.groups.share_heartbeat(request, client)
    except KafkaError as error:
        return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
