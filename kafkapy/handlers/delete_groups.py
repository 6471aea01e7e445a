"""DeleteGroups: remove groups that have no members, with their offsets (KIP-229).

Versions: 0-3.

Behaviour:

- The groups are gone at once. The answer waits until that is committed.
- Very many offsets go before their group, in parts. If a member joins meanwhile, the group stays, with the
  rest of them.

Version notes:

- v3 adds a message to each error.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kafkapy.coordination.answer import Answer, Join
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_in_steps
from kafkapy.loop.turns import Steps, counted
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kafkapy.security.acls.model import Operation, ResourceType


def handle(
    context: RequestContext, request: DeleteGroupsRequest
) -> Steps[DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]]:
    """Delete each group once, also if another one fails."""
    groups = context.broker.groups
    response = DeleteGroupsResponse()
    answer: Answer[DeleteGroupsResponse] = Answer()
    join = Join(lambda: answer(response))

    def delete(group_id: str) -> Steps[DeletableGroupResult]:
        result = DeletableGroupResult(group_id=group_id)

        def done(error: ErrorCode) -> None:
            result.error_code = error
            join.end()

        join.begin()
        try:
            context.require(Operation.DELETE, ResourceType.GROUP, group_id)
            yield from groups.delete_group(group_id, done)
        except KafkaError as error:
            result.error_message = error.message or None
            done(error.code)
        return result

    response.results = yield from answer_in_steps((yield from counted(request.groups_names)), delete)
    join.close()
    return answer.result()
