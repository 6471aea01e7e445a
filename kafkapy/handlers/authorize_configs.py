"""The rights to see and change settings, by the type of what they are settings of."""

from __future__ import annotations

from kafkapy.configs.kind import ResourceType as ConfigResourceType
from kafkapy.handlers.context import RequestContext
from kafkapy.security.acls.model import CLUSTER_NAME, Operation, ResourceType

_OF_THE_CLUSTER = (
    ConfigResourceType.BROKER,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.CLIENT_METRICS,
)


def require(context: RequestContext, operation: Operation, resource_type: int, name: str) -> None:
    """Require DESCRIBE_CONFIGS or ALTER_CONFIGS for the settings of a resource.

    Those of brokers, loggers and subscriptions to metrics are the cluster's. A type that does not exist needs
    nothing: it is refused as such.

    Raises:
        KafkaError: the authorization error of the resource.
    """
    if resource_type == ConfigResourceType.TOPIC:
        context.require(operation, ResourceType.TOPIC, name)
    elif resource_type == ConfigResourceType.GROUP:
        context.require(operation, ResourceType.GROUP, name)
    elif resource_type in _OF_THE_CLUSTER:
        context.require(operation, ResourceType.CLUSTER, CLUSTER_NAME)
