"""JoinGroup: become a member of a group, or stay one through a rebalance.

Versions: 0-9.

Behaviour:

- `kafkapy.groups.classic.join` and `kafkapy.groups.classic.rebalance` say how members join and when a
  rebalance is complete.
- The answer usually waits for the other members.
- A session timeout outside of `group.min.session.timeout.ms` and `group.max.session.timeout.ms` is refused.
- A member with more than 4 MiB of protocols, metadata and ids is GROUP_MAX_SIZE_REACHED. So is one with which
  the members of all groups would take 64 MiB, or 128 MiB if it takes less than 16 KiB.

Version notes:

- v1 adds the rebalance timeout. Before it, the session timeout is used.
- v4 has a new member come back with the id that it is given (KIP-394).
- v5 adds static membership (KIP-345).
- v7 adds the protocol type. Where there is no protocol, its name is null; before v7 it is empty.
- v8 adds the reason.
- v9 skips the assignment by a static leader that comes back (KIP-814).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from kafkapy.groups.classic.join import Joining
from kafkapy.groups.member_memory import MAX_PROTOCOLS
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.refusals import FIRST_VERSION_WITH_NULL_PROTOCOL
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

FIRST_VERSION_WITH_REBALANCE_TIMEOUT: Final = 1


def handle(
    context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    """Join, and answer with the next generation."""
    version = context.api_version
    if len(request.protocols) > MAX_PROTOCOLS:
        refused = JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED)
        return _for_version(refused, version)
    protocols: dict[str, bytes] = {}
    for protocol in request.protocols:
        protocols.setdefault(protocol.name, protocol.metadata)
    has_rebalance_timeout = version >= FIRST_VERSION_WITH_REBALANCE_TIMEOUT
    joining = Joining(
        version=version,
        client_id=context.client_id or "",
        client_host=f"/{context.client_host}",
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms
        ),
        protocol_type=request.protocol_type,
        protocols=tuple(protocols.items()),
        reason=request.reason or "not provided",
    )
    answer = context.broker.groups.join_group(request.group_id, joining)
    if isinstance(answer, JoinGroupResponse):
        return _for_version(answer, version)
    return _wait(answer, version)


async def _wait(answer: Awaitable[JoinGroupResponse], version: int) -> JoinGroupResponse:
    return _for_version(await answer, version)


def _for_version(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    if version < FIRST_VERSION_WITH_NULL_PROTOCOL:
        response.protocol_name = response.protocol_name or ""
    else:
        response.protocol_name = response.protocol_name or None
    return response
