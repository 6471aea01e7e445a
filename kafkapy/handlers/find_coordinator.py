"""FindCoordinator: name the coordinator of a group, transactional id or share partition.

Versions: 0-6.

Behaviour:

- The coordinator is the leader of the key's partition of `__consumer_offsets`, `__transaction_state` or
  `__share_group_state`. If it has no leader that is alive at the client's listener, the answer is
  COORDINATOR_NOT_AVAILABLE.
- The first request creates the topic. The controller waits for it, where Apache Kafka makes the client ask
  again. Any other broker asks the controller, and answers COORDINATOR_NOT_AVAILABLE until the topic exists.
- Fewer live brokers than `offsets.topic.replication.factor` cannot create it. So while one of two brokers is
  down, a cluster without `__consumer_offsets` serves no group, as Apache Kafka 3.9 on ZooKeeper. With KRaft,
  brokers that are down count too.
- The group id is not checked: an empty one can still commit offsets.
- A producer that is only idempotent does not send this request.

Version notes:

- v1 adds the kind of key.
- v4 takes several keys at once.
- v6 adds the coordinators of share partitions, which brokers look for. Their keys are
  `group:topic id:partition`; another form is INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Final

from kafkapy.coordination.partitioning import partition_of
from kafkapy.handlers.context import Node, RequestContext
from kafkapy.handlers.per_partition import answer_each
from kafkapy.loop.turns import Steps, counted
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafkapy.protocol.topic_names import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkapy.protocol.types import uuid_from_text
from kafkapy.security.acls.model import CLUSTER_NAME, REFUSAL_TEXTS, REFUSALS, Operation, ResourceType

FIRST_VERSION_WITH_KEYS: Final = 4
SHARE: Final = 2
TOPICS: Final = {0: GROUP_METADATA_TOPIC, 1: TRANSACTION_STATE_TOPIC, SHARE: SHARE_GROUP_STATE_TOPIC}
"""The internal topic of each type of key: groups, transactional ids and share partitions."""
FIRST_VERSION_WITH_SHARE: Final = 6
NO_NODE: Final = -1


def handle(
    context: RequestContext, request: FindCoordinatorRequest
) -> Steps[FindCoordinatorResponse] | Awaitable[FindCoordinatorResponse]:
    """Answer for each key."""
    topic = TOPICS.get(request.key_type)
    if request.key_type == SHARE and context.api_version < FIRST_VERSION_WITH_SHARE:
        topic = None
    if topic is None:
        why = f"There is no coordinator of type {request.key_type}."
        return _answer(context, request, "", KafkaError(ErrorCode.INVALID_REQUEST, why))
    if topic not in context.broker.metadata.image.topics:
        return _create_topic_and_answer(context, request, topic)
    return _answer(context, request, topic, None)


async def _create_topic_and_answer(
    context: RequestContext, request: FindCoordinatorRequest, topic: str
) -> FindCoordinatorResponse:
    refusal = None
    keys = [request.key] if context.api_version < FIRST_VERSION_WITH_KEYS else request.coordinator_keys
    errors = await context.broker.turns.finish(
        answer_each(keys, lambda key: _not_allowed(context, topic, key) or ErrorCode.NONE)
    )
    if all(errors):
        return await context.broker.turns.finish(_answer(context, request, topic, None))
    try:
        await context.broker.automatic_topics.ensure_internal_topic(topic)
    except KafkaError as error:
        refusal = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)
    return await context.broker.turns.finish(_answer(context, request, topic, refusal))


def _answer(
    context: RequestContext, request: FindCoordinatorRequest, topic: str, error: KafkaError | None
) -> Steps[FindCoordinatorResponse]:
    nodes = {node.id: node for node in context.nodes()}
    if context.api_version < FIRST_VERSION_WITH_KEYS:
        found = _find(context, nodes, topic, request.key, error)
        return FindCoordinatorResponse(
            error_code=found.error_code,
            error_message=found.error_message,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    keys = yield from counted(request.coordinator_keys)
    coordinators = yield from answer_each(keys, lambda key: _find(context, nodes, topic, key, error))
    return FindCoordinatorResponse(coordinators=coordinators)


def is_share_key(key: str) -> bool:
    """Whether it is the key of a share partition: `group:topic id:partition`."""
    parts = key.rsplit(":", 2)
    if len(parts) != 3 or not parts[0] or not parts[2].isascii() or not parts[2].isdigit():
        return False
    try:
        uuid_from_text(parts[1])
    except ValueError:
        return False
    return True


def _find(
    context: RequestContext, nodes: Mapping[int, Node], topic: str, key: str, error: KafkaError | None
) -> Coordinator:
    """The coordinator of a key, or why there is none."""
    if (not_allowed := _not_allowed(context, topic, key)) is not None:
        error = KafkaError(not_allowed, REFUSAL_TEXTS[not_allowed])
        return _none(key, error)
    if topic == SHARE_GROUP_STATE_TOPIC and not is_share_key(key):
        error = KafkaError(ErrorCode.INVALID_REQUEST, f"{key} is not the key of a share partition.")
    if error is None:
        found = context.broker.metadata.image.topics.get(topic)
        if found is not None:
            leader = found.partitions[partition_of(key, len(found.partitions))].leader
            if (node := nodes.get(leader)) is not None:
                return Coordinator(
                    key=key, node_id=node.id, host=node.host, port=node.port, error_message=None
                )
        error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"The partition of {topic} has no leader.")
    return _none(key, error)


def _not_allowed(context: RequestContext, topic: str, key: str) -> ErrorCode | None:
    """The error for a client that may not know the coordinator of a key."""
    if topic == GROUP_METADATA_TOPIC:
        kind, operation, name = ResourceType.GROUP, Operation.DESCRIBE, key
    elif topic == TRANSACTION_STATE_TOPIC:
        kind, operation, name = ResourceType.TRANSACTIONAL_ID, Operation.DESCRIBE, key
    elif topic == SHARE_GROUP_STATE_TOPIC:
        kind, operation, name = ResourceType.CLUSTER, Operation.CLUSTER_ACTION, CLUSTER_NAME
    else:
        return None
    return None if context.may(operation, kind, name) else REFUSALS[kind]


def _none(key: str, error: KafkaError) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=NO_NODE,
        host="",
        port=-1,
        error_code=error.code,
        error_message=error.message,
    )
