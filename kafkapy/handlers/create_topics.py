"""CreateTopics: create topics, each on its own.

Versions: 0-7.

Behaviour:

- Only the controller creates topics. Any other broker answers NOT_CONTROLLER for each.
- A topic that is refused gets its own error and Kafka's message.
- When the answer comes, a created topic is in the metadata (with `durability=fsync`, on disk) and can be
  written to. The files of its partitions are made after that.
- In a cluster the answer comes when the leaders know that they lead. If that takes longer than the timeout, a
  topic is REQUEST_TIMED_OUT, but is created. A sole broker never needs the timeout.
- A policy of the operator may refuse a topic (POLICY_VIOLATION, `create.topic.policy.class.name`).
- The quota `controller_mutation_rate` may refuse a topic (THROTTLING_QUOTA_EXCEEDED, v6+), or delay the
  client's next request (KIP-599).
- `validate_only` (v1+) checks and creates nothing. It takes from the quota all the same, as in Apache Kafka.
- The number of partitions and the replication factor may be left to the broker with -1 (v4+, KIP-464). They
  may also be given by an assignment of brokers to each partition.

Version notes:

- v5 answers with the topic's settings, partitions and replication factor (KIP-525).
- v6 is the first version whose clients know THROTTLING_QUOTA_EXCEEDED.
- v7 answers with the topic's id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from kafkapy.configs.entries import ConfigEntry
from kafkapy.controller.topic_plans import NewTopic
from kafkapy.controller.topics import no_quota
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each
from kafkapy.loop.turns import Steps, counted
from kafkapy.metadata.image import Topic
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkapy.protocol.topic_names import CLUSTER_METADATA_TOPIC
from kafkapy.security.acls.model import Operation, ResourceType

FIRST_VERSION_WITH_CONFIGS = 5
FIRST_VERSION_WITH_QUOTA = 6


async def handle(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create what can be created."""
    turns = context.broker.turns
    names = await turns.finish(counted(topic.name for topic in request.topics))
    results: dict[str, Topic | KafkaError]
    if not context.broker.admin.topics.is_controller:
        results = dict.fromkeys(names, KafkaError(ErrorCode.NOT_CONTROLLER))
        return await turns.finish(_response(names, results, _no_entries))
    wanted, refused = await turns.finish(_wanted(context, request, names))
    quota = context.mutation_quota(FIRST_VERSION_WITH_QUOTA)
    try:
        results = await context.broker.admin.topics.create_topics(
            wanted,
            validate_only=request.validate_only,
            seconds=request.timeout_ms / 1000,
            take=no_quota if quota is None else quota.take,
        )
    except KafkaError as error:
        results = {topic.name: error for topic in wanted}
    results.update(refused)
    shows_configs = context.api_version >= FIRST_VERSION_WITH_CONFIGS
    entries = context.broker.admin.describer.topic_entries if shows_configs else _no_entries
    may_show = None if context.unrestricted else partial(_may_show, context)
    response = await turns.finish(_response(names, results, entries, may_show))
    response.throttle_time_ms = 0 if quota is None else quota.throttle_ms
    return response


def _may_show(context: RequestContext, name: str) -> bool:
    return context.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name, log_if_denied=False)


def _wanted(
    context: RequestContext, request: CreateTopicsRequest, names: Mapping[str, int]
) -> Steps[tuple[list[NewTopic], dict[str, KafkaError]]]:
    """The topics to create, and why others are not even tried."""
    wanted: list[NewTopic] = []
    refused: dict[str, KafkaError] = {}
    may_create_all = context.may_on_cluster(Operation.CREATE, log_if_denied=False)

    for topic in request.topics:
        yield
        if topic.name == CLUSTER_METADATA_TOPIC:
            refused[topic.name] = KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited.",
            )
        elif names[topic.name] > 1:
            refused[topic.name] = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        elif not may_create_all and not context.may(Operation.CREATE, ResourceType.TOPIC, topic.name):
            refused[topic.name] = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
        else:
            wanted.append((yield from _new_topic(topic)))
    return wanted, refused


def _response(
    names: Iterable[str],
    results: Mapping[str, Topic | KafkaError],
    entries: Callable[[Mapping[str, str]], list[ConfigEntry]],
    may_show_configs: Callable[[str], bool] | None = None,
) -> Steps[CreateTopicsResponse]:
    shown: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}
    """By what topics set themselves: that is the same for most."""

    def answer(name: str) -> CreatableTopicResult:
        result = results[name]
        if isinstance(result, KafkaError):
            return CreatableTopicResult(name=name, error_code=result.code, error_message=result.message)
        if may_show_configs is not None and not may_show_configs(name):
            return CreatableTopicResult(
                name=name,
                topic_id=result.id,
                error_message=None,
                topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            )
        overrides = frozenset(result.configs.items())
        if overrides not in shown:
            shown[overrides] = _configs(entries(result.configs))
        return _created(result, shown[overrides])

    return CreateTopicsResponse(topics=(yield from answer_each(names, answer)))


def _no_entries(overrides: Mapping[str, str]) -> list[ConfigEntry]:
    return []


def _new_topic(topic: CreatableTopic) -> Steps[NewTopic]:
    assignments = yield from answer_each(
        topic.assignments, lambda each: (each.partition_index, each.broker_ids)
    )
    configs: dict[str, str | None] = {}
    for config in topic.configs:
        yield
        configs[config.name] = config.value
    return NewTopic(topic.name, topic.num_partitions, topic.replication_factor, assignments, configs)


def _created(topic: Topic, configs: list[CreatableTopicConfigs]) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=configs,
    )


def _configs(entries: Iterable[ConfigEntry]) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in entries
    ]
