"""DescribeConfigs: show settings of topics, brokers and others, and where they come from.

Versions: 0-4 (Apache Kafka 4 dropped v0).

Behaviour:

- A resource is one of these:
  - a topic, by its name;
  - this broker, by its id;
  - all brokers (""), which shows only what is set dynamically for all;
  - a group, or a subscription to metrics of clients, by its name, whether it exists or not;
  - this broker's loggers, by the broker's id, with their levels.
- `configuration_keys` picks settings. Null or an empty list asks for all.
- A topic of which only the controller has told this broker is described when its settings are read, some
  milliseconds later; after a second it is UNKNOWN_TOPIC_OR_PARTITION.
- A resource that is named twice is answered once. So a broker's id may be written in one way only: with "01"
  and " 1" a small request would ask for all settings thousands of times.
- Of the groups and subscriptions that set nothing, which need not exist, 1,000 are described in one answer.
  The others get INVALID_REQUEST.
- A secret value is null, and so is the value of an unknown setting.
- Synonyms (v1+) list every place that gives a value, in order of precedence.

Version notes:

- v0 says only whether a value is the default.
- v1 adds its source and synonyms.
- v3 adds types and documentation (KIP-569).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final

from kafkapy.configs import loggers as broker_loggers
from kafkapy.configs.entries import TYPES, ConfigEntry, Source
from kafkapy.configs.keys import UNKNOWN
from kafkapy.configs.kind import ALL_BROKERS, ResourceType
from kafkapy.handlers import authorize_configs
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_in_steps, visit_each
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kafkapy.protocol.topic_names import why_invalid
from kafkapy.security.acls.model import Operation

MOST_WITHOUT_SETTINGS: Final = 1_000
"""The groups and subscriptions to metrics that one answer describes though they set nothing, at most.

Each takes 30 KB on its way to the client, and a dozen bytes in the request.
"""


LOOKS, LOOK_SECONDS = 50, 0.02
"""How often, and at which distance, the image is looked at for a new topic: for a second."""

Resources = dict[tuple[int, str], DescribeConfigsResource]


def handle(
    context: RequestContext, request: DescribeConfigsRequest
) -> Steps[DescribeConfigsResponse | Awaitable[DescribeConfigsResponse]]:
    """Answer each resource on its own."""
    read, shown = context.broker.metadata.image.topics, context.broker.shown_image.topics
    resources: Resources = {}
    unread: set[str] = set()

    def want(resource: DescribeConfigsResource) -> None:
        kind, name = resource.resource_type, resource.resource_name
        resources.setdefault((kind, name), resource)
        if kind == ResourceType.TOPIC and name not in read and name in shown:
            unread.add(name)

    yield from visit_each(request.resources, want)
    if unread:
        return _describe_when_read(context, request, resources, unread)
    return (yield from _describe(context, request, resources))


async def _describe_when_read(
    context: RequestContext, request: DescribeConfigsRequest, resources: Resources, unread: set[str]
) -> DescribeConfigsResponse:
    metadata = context.broker.metadata
    for _ in range(LOOKS):
        if metadata.image.topics.keys() >= unread:
            break
        await asyncio.sleep(LOOK_SECONDS)
    return await context.broker.turns.finish(_describe(context, request, resources))


def _describe(
    context: RequestContext, request: DescribeConfigsRequest, resources: Resources
) -> Steps[DescribeConfigsResponse]:
    without_settings = 0

    def answer(resource: DescribeConfigsResource) -> Steps[DescribeConfigsResult]:
        nonlocal without_settings
        if _may_be_unknown(context, resource):
            if without_settings >= MOST_WITHOUT_SETTINGS:
                return _one_too_many(resource)
            without_settings += 1
        return (yield from _result(context, request, resource))

    return DescribeConfigsResponse(results=(yield from answer_in_steps(resources.values(), answer)))


def _may_be_unknown(context: RequestContext, resource: DescribeConfigsResource) -> bool:
    """Whether the resource sets nothing, and is described whether it exists or not."""
    image = context.broker.metadata.image
    if resource.resource_type == ResourceType.GROUP:
        return resource.resource_name not in image.group_configs
    if resource.resource_type == ResourceType.CLIENT_METRICS:
        return resource.resource_name not in image.client_metrics_configs
    return False


def _one_too_many(resource: DescribeConfigsResource) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=f"One request may ask for {MOST_WITHOUT_SETTINGS} that set nothing: ask for fewer",
    )


def _result(
    context: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> Steps[DescribeConfigsResult]:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        authorize_configs.require(
            context, Operation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name
        )
        keys: set[str] = set()
        yield from visit_each(resource.configuration_keys or (), keys.add)
        entries = [entry for entry in _entries(context, resource) if not keys or entry.name in keys]
        _charge(context, request, entries)
        result.configs = [_config(entry, request) for entry in entries]
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message or ""
    return result


def _charge(context: RequestContext, request: DescribeConfigsRequest, entries: Sequence[ConfigEntry]) -> None:
    values = nbytes = 0
    for entry in entries:
        values += 8
        nbytes += len(entry.value or "")
        if request.include_synonyms:
            values += 3 * len(entry.synonyms)
            nbytes += sum(len(synonym.value or "") for synonym in entry.synonyms)
        if request.include_documentation:
            nbytes += len(entry.documentation or "")
    context.charge(values, nbytes, ErrorCode.REQUEST_TIMED_OUT)


def _entries(context: RequestContext, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    core, name = context.broker, resource.resource_name
    describer = core.admin.describer
    if resource.resource_type == ResourceType.TOPIC:
        message = why_invalid(name)
        if message is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
        topic = core.metadata.image.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describer.topic_entries(topic.configs)
    if resource.resource_type == ResourceType.BROKER:
        if name == ALL_BROKERS:
            return describer.cluster_entries()
        _check_broker(context, name, f"{core.node_id} or empty string,")
        return describer.broker_entries()
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        _require(name, "Broker id must not be empty")
        _check_broker(context, name, str(core.node_id))
        return [_logger_entry(logger, level) for logger, level in broker_loggers.levels().items()]
    if resource.resource_type == ResourceType.GROUP:
        _require(name, "Group name must not be empty")
        return describer.group_entries(name)
    if resource.resource_type == ResourceType.CLIENT_METRICS:
        _require(name, "Client metrics subscription name must not be empty")
        return describer.client_metrics_entries(name)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")


def _require(name: str, message: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _check_broker(context: RequestContext, name: str, expected: str) -> None:
    """Raises KafkaError unless `name` is this broker's id; `expected` is what is said to be it."""
    try:
        int(name)
    except ValueError:
        message = f"Broker id must be an integer, but it is: {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message) from None
    if name != str(context.broker.node_id):
        message = f"Unexpected broker id, expected {expected} but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _logger_entry(logger: str, level: str) -> ConfigEntry:
    return ConfigEntry(
        logger,
        level,
        Source.BROKER_LOGGER,
        read_only=False,
        sensitive=False,
        type=TYPES[UNKNOWN],
        synonyms=[],
        documentation="",
    )


def _config(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=entry.source is Source.DEFAULT,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in synonyms
        ],
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )
