"""FindCoordinator: say which broker coordinates a group.

Versions: 0-6.

Behaviour:

- The coordinator is the leader of the group's partition of `__consumer_offsets`. That topic is created when
  somebody asks for the first time. The client waits for it, where Apache Kafka lets the client ask again.
- This broker is the only one, and so it coordinates every group.
- The group id is not looked at: an empty one can still commit offsets.
- Transactions are not coordinated. A transactional id is refused with
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which every client treats as fatal, rather than with an error that
  it would retry. InitProducerId answers the same.
- A producer that is only idempotent does not send this request.

Version notes:

- v1 adds the kind of key.
- v4 takes several keys at once.
- v6 adds share groups. They have no coordinator here: INVALID_REQUEST, as in an Apache Kafka where they are
  switched off.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from kafkapy.handlers.context import RequestContext
from kafkapy.process.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

FIRST_VERSION_WITH_KEYS: Final = 4
GROUP: Final = 0
TRANSACTION: Final = 1
NO_NODE: Final = -1


def handle(
    context: RequestContext, request: FindCoordinatorRequest
) -> Steps[FindCoordinatorResponse] | Awaitable[FindCoordinatorResponse]:
    """Answer for each key."""
    if request.key_type == GROUP and not context.broker.groups.runtime.has_topic:
        return _create_topic_and_answer(context, request)
    if request.key_type == GROUP:
        return _answer(context, request, None)
    return _answer(context, request, _why_not(request.key_type))


async def _create_topic_and_answer(
    context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    refusal = None
    try:
        await context.broker.groups.runtime.ensure_topic()
    except KafkaError as error:
        refusal = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)
    return await context.broker.turns.finish(_answer(context, request, refusal))


def _why_not(key_type: int) -> KafkaError:
    if key_type == TRANSACTION:
        return KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "This broker does not support transactions."
        )
    return KafkaError(ErrorCode.INVALID_REQUEST, f"There is no coordinator of type {key_type}.")


def _answer(
    context: RequestContext, request: FindCoordinatorRequest, error: KafkaError | None
) -> Steps[FindCoordinatorResponse]:
    node = next((node for node in context.nodes() if node.id == context.broker.node_id), None)
    if node is None and error is None:
        error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The broker is starting or stopping.")
    code = ErrorCode.NONE if error is None else error.code
    message = None if error is None else error.message
    node_id, host, port = (NO_NODE, "", -1) if node is None or error is not None else node[:3]
    if context.api_version < FIRST_VERSION_WITH_KEYS:
        return FindCoordinatorResponse(
            error_code=code, error_message=message, node_id=node_id, host=host, port=port
        )
    response = FindCoordinatorResponse()
    for key in dict.fromkeys(request.coordinator_keys):
        yield
        response.coordinators.append(
            Coordinator(
                key=key, node_id=node_id, host=host, port=port, error_code=code, error_message=message
            )
        )
    return response
