"""ListConfigResources: list the topics, brokers and others that have settings (KIP-1142).

Versions: 0-1.

Behaviour:

- Topics, brokers and brokers' loggers are listed by name. Groups and subscriptions to metrics of clients
  are listed where they have settings.
- A type that does not exist is refused.

Version notes:

- v0 is KIP-714's ListClientMetricsResources. It asks for client metrics only.
- v1 names the types that it wants. An empty list means all.
"""

from __future__ import annotations

from kafkapy.configs.kind import ResourceType
from kafkapy.handlers.context import RequestContext
from kafkapy.handlers.per_partition import answer_each
from kafkapy.loop.turns import Steps
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


def handle(
    context: RequestContext, request: ListConfigResourcesRequest
) -> Steps[ListConfigResourcesResponse]:
    """Answer from the image."""
    image = context.broker.metadata.image
    wanted = request.resource_types if context.api_version else [ResourceType.CLIENT_METRICS]
    try:
        types = {ResourceType(number) for number in set(wanted)} or set(ResourceType)
    except ValueError:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    names: dict[ResourceType, list[str]] = {
        ResourceType.TOPIC: list(image.topics),
        ResourceType.BROKER: [str(broker) for broker in image.brokers],
        ResourceType.BROKER_LOGGER: [str(broker) for broker in image.brokers],
        ResourceType.CLIENT_METRICS: list(image.client_metrics_configs),
        ResourceType.GROUP: list(image.group_configs),
    }
    resources = yield from answer_each(
        ((resource_type, name) for resource_type in sorted(types) for name in names[resource_type]),
        lambda found: ConfigResource(resource_type=found[0], resource_name=found[1]),
    )
    return ListConfigResourcesResponse(config_resources=resources)
