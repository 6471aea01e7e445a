"""DeleteTopics: delete topics and their records for good.

Versions: 0-6.

Behaviour:

- Only the controller deletes topics. Any other broker answers NOT_CONTROLLER for each.
- A topic is named by its name or (v6+) by its id.
- When the answer comes, the name is free again and no client can read the topic. Its files are removed
  later.
- In a cluster the brokers delete their replicas first, for which the answer waits until the timeout. If a
  broker is down, the topic is not shown any more, but its name is free only after the broker is back.
- A topic that is named twice, by both name and id, or by neither is refused.
- The quota `controller_mutation_rate` may refuse a topic (THROTTLING_QUOTA_EXCEEDED, v5+), or delay the
  client's next request (KIP-599).
- With `delete.topic.enable=false` nothing is deleted.

Version notes:

- v3 is the first version whose clients know TOPIC_DELETION_DISABLED. Before it they get INVALID_REQUEST.
- v5 adds messages to errors. It is the first version whose clients know THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from kafkapy.controller.topics import no_quota
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each, visit_each
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kafkapy.protocol.types import ZERO_UUID, Uuid
from kafkapy.security.acls.model import REFUSAL_TEXTS, Operation, ResourceType

FIRST_VERSION_WITH_DELETION_DISABLED = 3
FIRST_VERSION_WITH_QUOTA = 5

_UNKNOWN_ID = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
_UNKNOWN_NAME = KafkaError(
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
)

_NOT_ALLOWED = KafkaError(
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, REFUSAL_TEXTS[ErrorCode.TOPIC_AUTHORIZATION_FAILED]
)


async def handle(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete what can be deleted."""
    turns = context.broker.turns
    if not context.broker.admin.topics.is_controller:
        elsewhere = KafkaError(ErrorCode.NOT_CONTROLLER)
        return DeleteTopicsResponse(responses=await turns.finish(_refuse(request, elsewhere)))
    if not context.broker.config["delete.topic.enable"]:
        disabled = context.api_version >= FIRST_VERSION_WITH_DELETION_DISABLED
        error = (
            KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
            if disabled
            else KafkaError(ErrorCode.INVALID_REQUEST, "Topic deletion is disabled.")
        )
        return DeleteTopicsResponse(responses=await turns.finish(_refuse(request, error)))
    responses, topics = await turns.finish(_resolve(context, request))
    quota = context.mutation_quota(FIRST_VERSION_WITH_QUOTA)
    try:
        results = await context.broker.admin.topics.delete_topics(
            topics, seconds=request.timeout_ms / 1000, take=no_quota if quota is None else quota.take
        )
    except KafkaError as error:
        results = dict.fromkeys(topics, error)
    responses += [_result(name, topic_id, results[topic_id]) for topic_id, name in topics.items()]
    throttle_ms = 0 if quota is None else quota.throttle_ms
    return DeleteTopicsResponse(throttle_time_ms=throttle_ms, responses=responses)


def _states(request: DeleteTopicsRequest) -> Steps[list[DeleteTopicState]]:
    """The topics that are named, in any version."""
    named = yield from answer_each(request.topic_names, lambda name: DeleteTopicState(name=name))
    return [*request.topics, *named]


def _refuse(request: DeleteTopicsRequest, error: KafkaError) -> Steps[list[DeletableTopicResult]]:
    states = yield from _states(request)
    return (yield from answer_each(states, lambda state: _result(state.name, state.topic_id, error)))


def _resolve(
    context: RequestContext, request: DeleteTopicsRequest
) -> Steps[tuple[list[DeletableTopicResult], dict[Uuid, str]]]:
    """The topics to delete, name by id, and the answers to what names none.

    Source: Kafka's ControllerApis.
    """
    image = context.broker.metadata.image
    names: dict[str, int] = {}
    ids: dict[Uuid, int] = {}
    responses: list[DeletableTopicResult] = []

    def sort(state: DeleteTopicState) -> None:
        if state.name is None and state.topic_id == ZERO_UUID:
            responses.append(_refused(None, ZERO_UUID, "Neither topic name nor id were specified."))
        elif state.name is None:
            ids[state.topic_id] = ids.get(state.topic_id, 0) + 1
        elif state.topic_id == ZERO_UUID:
            names[state.name] = names.get(state.name, 0) + 1
        else:
            responses.append(
                _refused(state.name, state.topic_id, "You may not specify both topic name and topic id.")
            )

    topics: dict[Uuid, str] = {}
    may_delete_all = context.may_on_cluster(Operation.DELETE, log_if_denied=False)

    def may(operation: Operation, name: str) -> bool:
        return may_delete_all or context.may(operation, ResourceType.TOPIC, name)

    def resolve_id(topic_id: Uuid) -> None:
        topic = image.topics_by_id.get(topic_id)
        if ids[topic_id] > 1:
            responses.append(_refused(None, topic_id, "Duplicate topic id."))
        elif topic is None:
            responses.append(_result(None, topic_id, _UNKNOWN_ID))
        elif not may(Operation.DELETE, topic.name):
            shown = topic.name if may(Operation.DESCRIBE, topic.name) else None
            responses.append(_result(shown, topic_id, _NOT_ALLOWED))
        else:
            topics[topic_id] = topic.name

    def resolve_name(name: str) -> None:
        topic = image.topics.get(name)
        if names[name] > 1:
            responses.append(_refused(name, ZERO_UUID, "Duplicate topic name."))
        elif not may(Operation.DESCRIBE, name):
            responses.append(_result(name, ZERO_UUID, _NOT_ALLOWED))
        elif topic is None:
            responses.append(_result(name, ZERO_UUID, _UNKNOWN_NAME))
        elif not may(Operation.DELETE, name):
            responses.append(_result(name, ZERO_UUID, _NOT_ALLOWED))
        elif topic.id in ids:
            topics.pop(topic.id, None)
            message = "The provided topic name maps to an ID that was already supplied."
            responses.append(_refused(name, topic.id, message))
        else:
            topics[topic.id] = name

    yield from visit_each((yield from _states(request)), sort)
    yield from visit_each(ids, resolve_id)
    yield from visit_each(names, resolve_name)
    return responses, topics


def _refused(name: str | None, topic_id: Uuid, message: str) -> DeletableTopicResult:
    return _result(name, topic_id, KafkaError(ErrorCode.INVALID_REQUEST, message))


def _result(name: str | None, topic_id: Uuid, error: KafkaError | None) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
    )
