"""In a cluster the controller asks its policy about new topics.

It does not matter which broker a client asked.
"""

from __future__ import annotations

from functools import partial

import kafkapy
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.cluster.test_cluster import wait_until
from tests.network.raw_client import RawClient

SETTINGS = {"create.topic.policy.class.name": "tests.broker.operator_rules:Prefix", "topic.prefix": "app."}


def test_every_broker_creates_on_demand_only_what_the_policy_allows() -> None:
    def error(broker: int, name: str) -> ErrorCode:
        """What `broker` says when a client asks for a topic."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
        with RawClient(cluster[broker].bootstrap_servers) as client:
            (topic,) = client.ask(request, 9).topics
        return ErrorCode(topic.error_code)

    def is_created(broker: int) -> bool:
        return error(broker, f"app.{broker}") is ErrorCode.NONE

    with kafkapy.Cluster(brokers=2, config=SETTINGS) as cluster:
        controller = cluster.controller
        other = 3 - controller
        # The controller refuses; the other broker does not wait for its answer.
        assert error(other, "refused") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert error(controller, "refused") is ErrorCode.POLICY_VIOLATION
        for broker in cluster:
            wait_until(partial(is_created, broker))
        assert set(cluster[other].core.metadata.image.topics) == {"app.1", "app.2"}
