"""GetTelemetrySubscriptions and PushTelemetry, as a client meets them."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from kafkapy import handlers
from kafkapy.protocol.compression import Compression, compress
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.push_telemetry import PushTelemetryRequest
from kafkapy.protocol.types import ZERO_UUID, ApiKey
from tests.metrics.prometheus import Served, serving
from tests.network.loop_watch import LoopWatch
from tests.network.raw_client import RawClient, eventually
from tests.telemetry.test_otlp import data, gauge, total

MAX_BYTES = 100_000
CLIENT_METRICS = 16


@pytest.fixture
def served() -> Iterator[Served]:
    with serving({"telemetry.max.bytes": MAX_BYTES}) as made:
        yield made


@pytest.fixture
def client(served: Served) -> Iterator[RawClient]:
    with RawClient(served.broker.bootstrap_servers) as connected:
        yield connected


def subscribe(bootstrap_servers: str, **settings: str) -> None:
    """Set settings of a subscription; they are in effect then."""
    configs = [
        AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
        for name, value in settings.items()
    ]
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name="all", configs=configs)
    with RawClient(bootstrap_servers) as client:
        (response,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)


def ask(client: RawClient, instance_id: bytes = ZERO_UUID) -> GetTelemetrySubscriptionsResponse:
    request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
    response = client.ask(request, 0)
    assert isinstance(response, GetTelemetrySubscriptionsResponse)
    return response


def push(
    client: RawClient,
    given: GetTelemetrySubscriptionsResponse,
    metrics: bytes = b"",
    compression: int = 0,
    *,
    terminating: bool = False,
    other_id: int = 0,
) -> ErrorCode:
    request = PushTelemetryRequest(
        client_instance_id=given.client_instance_id,
        subscription_id=given.subscription_id + other_id,
        terminating=terminating,
        compression_type=compression,
        metrics=metrics,
    )
    return ErrorCode(client.ask(request, 0).error_code)


def test_a_client_gets_an_instance_id_and_nothing_is_asked_of_it(client: RawClient) -> None:
    given = ask(client)
    assert given.error_code == ErrorCode.NONE
    assert given.client_instance_id != ZERO_UUID
    assert given.accepted_compression_types == [4, 3, 1, 2]
    assert (given.push_interval_ms, given.telemetry_max_bytes) == (300_000, MAX_BYTES)
    assert given.requested_metrics == []
    assert not given.delta_temporality
    assert ask(client, given.client_instance_id).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_client_hears_of_new_subscriptions_at_once(served: Served, client: RawClient) -> None:
    given = ask(client)
    subscribe(served.broker.bootstrap_servers, metrics="org.apache.kafka.", interval_ms="1000")
    assert push(client, given) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    subscribe(served.broker.bootstrap_servers, interval_ms="2000")
    again = ask(client, given.client_instance_id)
    assert (again.requested_metrics, again.push_interval_ms) == (["org.apache.kafka."], 2_000)
    assert again.client_instance_id == given.client_instance_id
    assert push(client, again) is ErrorCode.NONE


def test_a_subscription_is_for_clients_that_match(served: Served, client: RawClient) -> None:
    request = ApiVersionsRequest(client_software_name="mine", client_software_version="1.2")
    assert client.ask(request, 3).error_code == ErrorCode.NONE
    subscribe(
        served.broker.bootstrap_servers,
        metrics="*",
        match="client_software_name=mine,client_software_version=1\\..*",
    )
    assert ask(client).requested_metrics == ["*"]
    subscribe(served.broker.bootstrap_servers, match="client_software_name=other")
    assert ask(client).requested_metrics == []


@pytest.mark.parametrize("codec", list(Compression))
def test_prometheus_reads_what_a_client_has_pushed(
    served: Served, client: RawClient, codec: Compression
) -> None:
    subscribe(served.broker.bootstrap_servers, metrics="org.apache.kafka.")
    given = ask(client)
    metrics = data(
        gauge("org.apache.kafka.producer.rate", 1.5, topic='a"b'),
        total("org.apache.kafka.producer.sent.total", 7, 2),
        gauge("not.asked.for", 1),
        resource={"client_rack": "r"},
    )
    assert push(client, given, compress(codec, metrics), codec) is ErrorCode.NONE
    found = served.scrape()
    (labels,) = found.having("kafka_client_info")
    instance = dict(labels)["client_instance_id"]
    own = {"client_instance_id": instance, "client_id": dict(labels)["client_id"], "client_rack": "r"}
    assert found.get("kafka_client_producer_rate", topic='a"b', **own) == 1.5
    assert found.get("kafka_client_producer_sent_total", **own) == 7
    assert "kafka_client_not_asked_for" not in found.names
    assert found.get("kafka_server_clientmetrics_plugin_export_count") == 1


def test_pushes_are_refused_as_apache_kafka_refuses_them(served: Served, client: RawClient) -> None:
    subscribe(served.broker.bootstrap_servers, metrics="*", interval_ms="3600000")
    wrong = GetTelemetrySubscriptionsResponse(client_instance_id=ZERO_UUID)
    assert push(client, wrong) is ErrorCode.INVALID_REQUEST
    wrong.client_instance_id = (1).to_bytes(16)
    assert push(client, wrong) is ErrorCode.INVALID_REQUEST
    assert push(client, ask(client), other_id=1) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert push(client, ask(client), b"x", 9) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert push(client, ask(client), b"x", -1) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert push(client, ask(client), b"x" * (MAX_BYTES + 1)) is ErrorCode.TELEMETRY_TOO_LARGE
    assert push(client, ask(client), b"no protobuf") is ErrorCode.INVALID_RECORD
    assert push(client, ask(client), b"no gzip", Compression.GZIP) is ErrorCode.INVALID_RECORD
    given = ask(client)
    assert push(client, given) is ErrorCode.NONE
    assert push(client, given) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(client, given, terminating=True) is ErrorCode.NONE
    assert push(client, given, terminating=True) is ErrorCode.INVALID_REQUEST
    assert served.scrape().get("kafka_server_clientmetrics_plugin_error_count") == 2


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> LoopWatch:
    return LoopWatch(monkeypatch)


BOMBS = {
    # CVE-2026-111073: Apache Kafka before 4.3.1 decompressed to the end.
    "much from little": (gzip.compress(bytes(80_000_000)), Compression.GZIP, ErrorCode.INVALID_RECORD),
    "many fields": (b"\x0a\x00" * (MAX_BYTES // 2), Compression.NONE, ErrorCode.NONE),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_no_push_holds_the_loop(watch: LoopWatch, bomb: tuple[bytes, Compression, ErrorCode]) -> None:
    metrics, codec, expected = bomb
    assert len(metrics) <= MAX_BYTES
    with serving({"telemetry.max.bytes": MAX_BYTES}) as served:
        subscribe(served.broker.bootstrap_servers, metrics="*", match="client_id=" + "(x*)*" * 90)
        subscribe(served.broker.bootstrap_servers, metrics="*", match="client_id=.*")
        watch.follow(served.broker)
        with RawClient(served.broker.bootstrap_servers) as client:
            answers: list[ErrorCode] = []
            watch.check_each(lambda: answers.append(push(client, ask(client), metrics, codec)))
    assert set(answers) == {expected}


def test_a_real_client_pushes(served: Served) -> None:
    """librdkafka does so if it is told to."""
    subscribe(served.broker.bootstrap_servers, metrics="*", interval_ms="100")
    producer = Producer(
        {
            "bootstrap.servers": served.broker.bootstrap_servers,
            "client.id": "mine",
            "enable.metrics.push": True,
        }
    )
    producer.produce("t", b"x")
    assert producer.flush(30) == 0

    def has_pushed() -> bool:
        producer.poll(0)
        found = served.scrape()
        return any(name.startswith("kafka_client_producer_") for name in found.names)

    eventually(has_pushed, "the client has pushed")
    (labels,) = served.scrape().having("kafka_client_info")
    told = dict(labels)
    assert (told["client_id"], told["client_software_name"]) == ("mine", "confluent-kafka-python")
    assert told["client_source_address"] == "127.0.0.1"
    assert told["principal"] == "User:ANONYMOUS"


def test_it_is_served_only_while_metrics_are_on() -> None:
    keys = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    for clustered in (False, True):
        assert keys <= set(handlers.served(clustered=clustered, telemetry=True))
        assert not keys & set(handlers.served(clustered=clustered, telemetry=False))
