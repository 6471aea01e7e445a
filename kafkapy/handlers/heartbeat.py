"""Heartbeat: note that a member is alive, and tell it whether it has to rejoin.

Versions: 0-4.

Behaviour:

- REBALANCE_IN_PROGRESS sends the member to JoinGroup. It stays a member until the rebalance timeout.
- While the group's partition is being loaded, a heartbeat is answered without an error.

Version notes:

- v3 adds static membership.
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    """Extend the member's session."""
    return HeartbeatResponse(error_code=context.broker.groups.heartbeat(request))
