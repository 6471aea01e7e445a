"""SyncGroup: take the leader's assignment, and give every member its own part of it.

Versions: 0-5.

Behaviour:

- `kafkapy.groups.classic.sync` describes how the assignment is received and distributed.
- The answer waits for the leader, and until the assignment is stored.

Version notes:

- v3 adds static membership.
- v5 adds the protocol type and name, which must then be given and be the group's.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from kafkapy.handlers.context import RequestContext
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

FIRST_VERSION_WITH_PROTOCOL: Final = 5


def handle(
    context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    """Answer with the member's assignment."""
    if context.api_version >= FIRST_VERSION_WITH_PROTOCOL and None in (
        request.protocol_type,
        request.protocol_name,
    ):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return context.broker.groups.sync_group(request)
