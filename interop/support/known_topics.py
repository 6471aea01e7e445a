"""Creates topics that every broker names when it is asked.

A client asks any of them. CreateTopics is answered when the controller has created the topic, and a describe
request to another broker may come first, in Apache Kafka's clusters too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka.admin import AdminClient, NewTopic

from interop.support.waiting import wait_until
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.network.raw_client import RawClient

_VERSION = 9


def create_topics(
    bootstrap_servers: str,
    topics: Sequence[str],
    partitions: int,
    replicas: int = -1,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create topics, and wait until each of the brokers tells the leaders of their partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    wanted = [NewTopic(topic, partitions, replicas, config=dict(config or {})) for topic in topics]
    for created in admin.create_topics(wanted).values():
        created.result(30)
    for topic in topics:
        wait_until_known(bootstrap_servers, topic)


def wait_until_known(bootstrap_servers: str, topic: str, *, timeout: float = 30.0) -> None:
    """Wait until each of the brokers tells the leaders of all partitions."""
    for address in bootstrap_servers.split(","):
        wait_until(lambda address=address: _is_known(address, topic), timeout=timeout)  # type: ignore[misc]


def _is_known(address: str, topic: str) -> bool:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    with RawClient(address) as client:
        (found,) = client.ask(request, _VERSION).topics
    return not found.error_code and all(partition.leader_id >= 0 for partition in found.partitions)
