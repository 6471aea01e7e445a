"""Bytes by principal and client id, quotas, lag of share groups, the log cleaner."""

from __future__ import annotations

from confluent_kafka import Producer

from kafkapy.metadata.image import MetadataImage
from kafkapy.metrics.families import write
from kafkapy.metrics.names import Names, Spelling
from kafkapy.metrics.page import Page
from kafkapy.metrics.snapshot import Snapshot
from kafkapy.network import client_traffic
from kafkapy.network.client_traffic import MOST_CLIENT_IDS, MOST_PRINCIPALS, OTHER, TrafficOfClients
from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.quotas import ClientQuotaType
from kafkapy.quotas.rate_quotas import ShownQuota
from tests.handlers.produce_client import create_topic
from tests.handlers.share_client import ShareMember
from tests.metrics.prometheus import serving
from tests.metrics.test_scrapes import consume, create, produce
from tests.network.raw_client import RawClient

USER = "User:ANONYMOUS"


def test_bytes_are_counted_by_principal_and_client() -> None:
    with serving() as served:
        create(served.broker, "orders")
        produce(served.broker, "orders", 100)
        producer = Producer({"bootstrap.servers": served.broker.bootstrap_servers, "client.id": "mine"})
        producer.produce("orders", bytes(5_000))
        assert producer.flush(30) == 0
        consume(served.broker, "readers", "orders", 101)
        found = served.scrape()
    produced = found.get("kafkapy_client_produce_bytes_total", user=USER, client_id="mine") or 0
    assert 5_000 < produced < 6_000
    others = found.get("kafkapy_client_produce_bytes_total", user=USER, client_id="rdkafka") or 0
    assert 10_000 < others < 20_000
    assert (found.get("kafkapy_client_fetch_bytes_total", user=USER, client_id="rdkafka") or 0) > 15_000
    assert found.get("kafkapy_client_throttles_total", user=USER, client_id="mine") == 0


def test_no_client_can_grow_the_labels() -> None:
    traffic = TrafficOfClients()
    traffic.of("User:first", "mine").produced = 7
    for number in range(10 * MOST_PRINCIPALS):
        traffic.of(f"User:{number}", "c").produced += 1
        traffic.of("User:first", f"c{number}").produced += 1
        traffic.of("User:first", "x" * 1_000 + str(number)).produced += 1
    assert traffic.of("User:first", "mine").produced == 7
    found = list(traffic)
    assert len(found) <= (MOST_PRINCIPALS + 1) * (MOST_CLIENT_IDS + 1)
    assert {name for name, _, _ in found if name == OTHER} == {OTHER}
    assert all(len(name) <= client_traffic.LONGEST for _, name, _ in found)
    total = sum(each.produced for _, _, each in found)
    assert total == 7 + 3 * 10 * MOST_PRINCIPALS


def test_throttles_are_counted_by_client() -> None:
    with serving() as served:
        create(served.broker, "orders")
        set_quotas(served.broker.bootstrap_servers, producer_byte_rate=1_000)
        producer = Producer({"bootstrap.servers": served.broker.bootstrap_servers, "client.id": "greedy"})
        producer.produce("orders", bytes(20_000))
        assert producer.flush(60) == 0
        found = served.scrape()
    assert (found.get("kafkapy_client_throttles_total", user=USER, client_id="greedy") or 0) >= 1
    assert (found.get("kafkapy_client_throttle_seconds_total", user=USER, client_id="greedy") or 0) > 0


def set_quotas(bootstrap_servers: str, **quotas: float) -> None:
    """Limit every client id."""
    entry = AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type="client-id", entity_name=None)],
        ops=[OpData(key=name, value=rate, remove=False) for name, rate in quotas.items()],
    )
    with RawClient(bootstrap_servers) as client:
        (answer,) = client.ask(AlterClientQuotasRequest(entries=[entry], validate_only=False), 1).entries
    assert answer.error_code == 0


def test_clients_with_quotas_have_kafkas_gauges() -> None:
    with serving() as served:
        create(served.broker, "orders")
        assert not served.scrape().having("kafka_server_produce_byte_rate")
        set_quotas(served.broker.bootstrap_servers, producer_byte_rate=1_000, consumer_byte_rate=1e9)
        producer = Producer({"bootstrap.servers": served.broker.bootstrap_servers, "client.id": "greedy"})
        producer.produce("orders", bytes(20_000))
        assert producer.flush(60) == 0
        consume(served.broker, "readers", "orders", 1)
        found = served.scrape()
    greedy, reader = {"user": "", "client_id": "greedy"}, {"user": "", "client_id": "rdkafka"}
    assert 500 < (found.get("kafka_server_produce_byte_rate", **greedy) or 0) < 2_100
    assert 5_000 < (found.get("kafka_server_produce_throttle_time", **greedy) or 0) < 20_000
    assert (found.get("kafka_server_fetch_byte_rate", **reader) or 0) > 500
    assert found.get("kafka_server_fetch_throttle_time", **reader) == 0
    assert not found.having("kafka_server_request_request_time")


def test_an_operators_tags_become_labels() -> None:
    tags = {"tenant": "a", "1st": "b", "über-all": "c", "": "d"}
    found = Snapshot(1, 0, MetadataImage())
    found.quotas = {ClientQuotaType.PRODUCE: [ShownQuota(tags, 1.5, 0.0)]}
    page = Page(Names(Spelling.JMX))
    write(page, found)
    text = b"".join(page.parts).decode()
    assert 'kafka_server_produce_byte_rate{tenant="a",_1st="b",_ber_all="c",_="d"} 1.5' in text


def test_the_lag_of_a_share_group_is_shown_as_that_of_other_groups() -> None:
    with serving({"group.share.assignment.interval.ms": 0}) as served:
        with RawClient(served.broker.bootstrap_servers) as client:
            client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["sharers"]), 4)
            member = ShareMember(client, "orders", create_topic(client, "orders"), group="sharers")
            assert member.join() == [0]
            member.fetch(max_wait_ms=1)
            produce(served.broker, "orders", 5)
            assert member.fetch().ranges
            assert member.acknowledge((0, 1, [1]), last=True) == 0
        found = served.scrape()
        of_group = {"consumergroup": "sharers", "topic": "orders"}
        offset = found.get("kafka_consumergroup_current_offset", partition="0", **of_group)
        lag = found.get("kafka_consumergroup_lag", partition="0", **of_group)
    assert offset is not None
    assert 0 <= offset <= 2
    assert lag == 5 - offset


def test_the_log_cleaner_is_shown() -> None:
    with serving() as served:
        found = served.scrape()
    directories = found.having("kafka_log_logcleanermanager_uncleanable_partitions_count")
    assert list(directories.values()) == [0]
    assert found.get("kafka_log_logcleaner_deadthreadcount") == 0
    assert (found.get("kafka_log_logcleanermanager_time_since_last_run_ms") or 0) >= 0
