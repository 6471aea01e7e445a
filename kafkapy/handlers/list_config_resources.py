"""ListConfigResources: what has settings (KIP-1142; v0 is KIP-714's ListClientMetricsResources).

Versions: 0-1.

Behaviour: topics, brokers and brokers' loggers by name; groups and client metrics never have settings here.
v1 names the types it wants, none meaning all; v0 asks for client metrics only. A type that does not exist
is refused.
"""

from __future__ import annotations

from kafkapy.context import RequestContext
from kafkapy.controller.configs import ResourceType
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


def handle(context: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """Answer from the image."""
    image = context.broker.metadata.image
    if context.api_version == 0:
        return ListConfigResourcesResponse()
    try:
        types = {ResourceType(number) for number in request.resource_types} or set(ResourceType)
    except ValueError:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    names: dict[ResourceType, list[str]] = {
        ResourceType.TOPIC: list(image.topics),
        ResourceType.BROKER: [str(broker) for broker in image.brokers],
        ResourceType.BROKER_LOGGER: [str(broker) for broker in image.brokers],
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=resource_type)
            for resource_type in sorted(types)
            for name in names.get(resource_type, ())
        ]
    )
