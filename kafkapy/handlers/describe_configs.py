"""DescribeConfigs: settings of topics and of this broker, with where they come from.

Versions: 0-4 (Apache Kafka 4 dropped v0).

Behaviour: a resource is a topic by name, this broker by its id, or all brokers (""), which shows only what
is set dynamically for all. `configuration_keys` picks settings; null or none asks for all. A value that
must not be shown is null. Synonyms (v1+) list every place that gives a value, in order of precedence.

Version notes: v0 says only whether a value is the default, v1 adds its source and synonyms, v3 types and
documentation (KIP-569).
"""

from __future__ import annotations

from kafkapy.context import RequestContext
from kafkapy.controller.config_entries import ConfigEntry, Source
from kafkapy.controller.configs import ALL_BROKERS, ResourceType
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kafkapy.topic_names import why_invalid


def handle(context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Answer each resource on its own."""
    return DescribeConfigsResponse(
        results=[_describe(context, request, resource) for resource in request.resources]
    )


def _describe(
    context: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        entries = _entries(context, resource)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message or ""
        return result
    keys = set(resource.configuration_keys or ())
    result.configs = [_config(entry, request) for entry in entries if not keys or entry.name in keys]
    return result


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
        try:
            broker_id = int(name)
        except ValueError:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
            ) from None
        if broker_id == core.node_id:
            return describer.broker_entries()
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {core.node_id} or empty string, but received {name}",
        )
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")


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
