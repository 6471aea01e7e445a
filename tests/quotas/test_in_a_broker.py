"""Quotas reach every broker of a cluster, and an operator's class decides if there is one."""

from __future__ import annotations

from functools import partial

import pytest

import kafkapy
from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigError
from tests.cluster.test_cluster import wait_until
from tests.handlers.produce_client import PRODUCE_VERSION, batch, create_topic, produce_request
from tests.network.raw_client import RawClient
from tests.quotas.quota_client import ANY_CLIENT, set_quota, shared

TENANTS = {"client.quota.callback.class": "tests.quotas.operators_quotas:Tenants", "tenants.rate": "1000"}


def has_quotas(broker: kafkapy.Broker) -> bool:
    return shared(broker).quotas is not None


def test_a_quota_that_one_broker_was_given_is_enforced_by_all() -> None:
    with kafkapy.Cluster(brokers=2) as cluster:
        with RawClient(cluster[1].bootstrap_servers) as client:
            set_quota(client, "request_percentage", 1e-6, ANY_CLIENT)
        for broker in cluster:
            wait_until(partial(has_quotas, cluster[broker]))
            with RawClient(cluster[broker].bootstrap_servers) as client:
                create = client.ask(produce_request("missing", batch(b"x")), PRODUCE_VERSION)
                assert create.throttle_time_ms == 1000


def test_an_operators_class_has_the_settings_the_cluster_and_the_requests() -> None:
    with (
        kafkapy.Broker(config=TENANTS) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        create_topic(client, "orders")
        throttled = client.ask(produce_request("orders", batch(b"x" * 12_000)), PRODUCE_VERSION)
        assert 2000 <= throttled.throttle_time_ms < 3000
        quotas = shared(broker).quotas
        assert quotas._callback.leaders == {"orders": {0: broker.core.node_id}}
        callback = quotas._callback
    assert callback.is_closed


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("tests.quotas.operators_quotas:Missing", "has no class Missing"),
        ("tests.quotas.operators_quotas:Refuses", "the class cannot be configured: ValueError: no rate"),
        ("tests.quotas.operators_quotas:Incomplete", "the class cannot be configured: TypeError"),
        ("no.such.module:Class", "there is no Python module no"),
    ],
)
def test_a_class_that_cannot_be_used_ends_the_start(name: str, why: str) -> None:
    broker = kafkapy.Broker(config={"client.quota.callback.class": name})
    with pytest.raises(kafkapy.StartError, match=why):
        broker.start()


def test_a_java_class_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"docs/quotas\.md"):
        BrokerConfig({"client.quota.callback.class": "com.example.Quotas"})
