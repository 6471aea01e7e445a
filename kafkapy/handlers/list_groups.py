"""ListGroups: list the groups that this broker coordinates.

Versions: 0-5.

Behaviour:

- All groups are listed, also those that only store offsets, whose protocol type is empty.
- While some groups are still being loaded, the answer is COORDINATOR_LOAD_IN_PROGRESS.
- All groups here are of the classic type.
- The filters (v4+) ignore case. An unknown name matches nothing.

Version notes:

- v4 filters by state (KIP-518).
- v5 filters by type (KIP-848).
"""

from __future__ import annotations

from kafkapy.handlers.context import RequestContext
from kafkapy.process.turns import Steps
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(context: RequestContext, request: ListGroupsRequest) -> Steps[ListGroupsResponse]:
    """List the groups that pass the filters."""
    groups = context.broker.groups
    if groups.runtime.is_loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.strip().lower() for kind in request.types_filter}
    response = ListGroupsResponse()
    for group in tuple(groups.groups.values()):
        yield
        if (not states or group.state_name.lower() in states) and (not types or group.type.value in types):
            response.groups.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=group.state_name,
                    group_type=group.type.value,
                )
            )
    return response
