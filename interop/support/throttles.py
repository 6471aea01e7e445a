"""The throttles that kafka-reassign-partitions sets while it moves replicas."""

from __future__ import annotations

from typing import Final

from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

RATES: Final = {f"{role}.replication.throttled.rate" for role in ("leader", "follower")}
LISTS: Final = {f"{role}.replication.throttled.replicas" for role in ("leader", "follower")}


def throttled_rates(client: AdminClient, broker: int) -> dict[str, str]:
    """The rates of a broker, by the names of their settings."""
    return _own_settings(client, ResourceType.BROKER, str(broker), RATES)


def throttled_replicas(client: AdminClient, topic: str) -> dict[str, str]:
    """The throttled replicas of a topic, by the names of their settings."""
    return _own_settings(client, ResourceType.TOPIC, topic, LISTS)


def _own_settings(client: AdminClient, kind: ResourceType, name: str, names: set[str]) -> dict[str, str]:
    """What a resource sets itself of `names`."""
    (future,) = client.describe_configs([ConfigResource(kind, name)]).values()
    of_topic = kind == ResourceType.TOPIC
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG if of_topic else ConfigSource.DYNAMIC_BROKER_CONFIG
    return {
        entry.name: str(entry.value)
        for entry in future.result().values()
        if entry.name in names and ConfigSource(entry.source) is own
    }
