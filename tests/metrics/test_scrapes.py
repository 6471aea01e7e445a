"""What a scrape shows of a broker that real clients use."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import kafkapy
from kafkapy.loop.turns import VALUES_AT_ONCE
from kafkapy.metrics import snapshot
from kafkapy.network import client_software
from kafkapy.network.client_software import ClientSoftware
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.legacy_records import build_message_set
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkapy.protocol.records import Record
from tests.metrics.prometheus import serving
from tests.network.raw_client import RawClient, eventually

TOPIC = "kafka_server_brokertopicmetrics"


def produce(broker: kafkapy.Broker, topic: str, count: int, partition: int = 0, **headers: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, f"{number:0100}".encode(), partition=partition, **headers)
    assert producer.flush(30) == 0


def create(broker: kafkapy.Broker, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for created in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        created.result(30)


def delete(broker: kafkapy.Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for deleted in admin.delete_topics([topic]).values():
        deleted.result(30)


def consume(broker: kafkapy.Broker, group: str, topic: str, count: int) -> None:
    """Read records of partition 0 from the beginning, and commit the offset after them."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.assign([TopicPartition(topic, 0, 0)])
    read = 0
    while read < count:
        read += len(consumer.consume(count - read, timeout=10))
    consumer.commit(offsets=[TopicPartition(topic, 0, count)], asynchronous=False)
    consumer.close()


def test_records_and_bytes_are_counted_by_topic_and_in_total() -> None:
    with serving() as served:
        create(served.broker, "orders", 2)
        create(served.broker, "bills")
        produce(served.broker, "orders", 700)
        produce(served.broker, "orders", 30, partition=1)
        produce(served.broker, "bills", 5)
        found = served.scrape()
        assert found.get(f"{TOPIC}_messagesin_total", topic="orders") == 730
        assert found.get(f"{TOPIC}_messagesin_total", topic="bills") == 5
        assert found.get(f"{TOPIC}_messagesin_total") == 735
        size = sum(found.having("kafka_log_log_size", topic="orders").values())
        assert found.get(f"{TOPIC}_bytesin_total", topic="orders") == size > 73_000
        assert found.get(f"{TOPIC}_bytesout_total", topic="orders") == 0
        consume(served.broker, "readers", "orders", 700)
        found = served.scrape()
        size = found.get("kafka_log_log_size", topic="orders", partition="0") or 0
        assert size <= (found.get(f"{TOPIC}_bytesout_total", topic="orders") or 0) < 2 * size
        assert (found.get(f"{TOPIC}_totalfetchrequests_total", topic="orders") or 0) > 0
        assert found.get(f"{TOPIC}_failedproducerequests_total", topic="orders") == 0


def test_a_deleted_topics_series_vanish_and_the_total_does_not_fall() -> None:
    with serving() as served:
        create(served.broker, "orders")
        produce(served.broker, "orders", 100)
        assert served.scrape().having(f"{TOPIC}_messagesin_total", topic="orders")
        delete(served.broker, "orders")
        found = served.scrape()
        assert not [key for key in found.values if ("topic", "orders") in key[1]]
        assert found.get(f"{TOPIC}_messagesin_total") == 100


def test_requests_are_counted_by_api_version_and_error() -> None:
    requests = "kafka_network_requestmetrics_requests_total"
    errors = "kafka_network_requestmetrics_errors_total"
    with serving() as served, RawClient(served.broker.bootstrap_servers) as client:
        create(served.broker, "orders")
        before = served.scrape().get(requests, request="Metadata", version="9") or 0
        for _ in range(7):
            client.ask(MetadataRequest(topics=[]), 9)
        nowhere = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=5, records=b"")])
        for _ in range(3):
            client.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[nowhere]), 9)
        found = served.scrape()
        assert (found.get(requests, request="Metadata", version="9") or 0) - before == 7
        assert found.get(requests, request="Produce", version="9") == 3
        assert found.get(errors, request="Produce", error="UNKNOWN_TOPIC_OR_PARTITION") == 3
        assert found.get(errors, request="Produce", error="NONE") == 0
        assert found.get("kafka_network_requestmetrics_totaltimems_count", request="Produce") == 3


def test_the_errors_of_a_long_answer_are_counted() -> None:
    """It is encoded in a thread."""
    errors = "kafka_network_requestmetrics_errors_total"
    partitions = [
        ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(VALUES_AT_ONCE)
    ]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="nowhere", partitions=partitions)])
    with serving() as served, RawClient(served.broker.bootstrap_servers) as client:
        for _ in range(2):
            client.ask(request, 5)
        found = served.scrape()
        of_each = 2 * VALUES_AT_ONCE
        assert found.get(errors, request="ListOffsets", error="UNKNOWN_TOPIC_OR_PARTITION") == of_each
        assert found.get(errors, request="ListOffsets", error="NONE") == 0


def test_the_time_of_a_fetch_that_waits_is_remote_time() -> None:
    times = "kafka_network_requestmetrics"
    with serving() as served, RawClient(served.broker.bootstrap_servers) as client:
        create(served.broker, "orders")
        fetch = FetchRequest(max_wait_ms=300, min_bytes=1, max_bytes=1000, session_epoch=-1)
        fetch.topics = [FetchTopic(topic="orders", partitions=[FetchPartition(partition_max_bytes=100)])]
        client.ask(fetch, 12)
        found = served.scrape()
        median = {"request": "FetchConsumer", "quantile": "0.50"}
        assert (found.get(f"{times}_remotetimems", **median) or 0) >= 290
        assert (found.get(f"{times}_totaltimems", **median) or 0) >= 290
        assert (found.get(f"{times}_localtimems", **median) or 0) < 290
        assert found.get(f"{times}_totaltimems_count", request="FetchFollower") is None
        assert found.get(f"{times}_totaltimems_count", request="Fetch") == 1


def test_a_request_that_waits_is_in_the_purgatory() -> None:
    with serving() as served, RawClient(served.broker.bootstrap_servers) as client:
        create(served.broker, "orders")
        topics = [FetchTopic(topic="orders", partitions=[FetchPartition(partition_max_bytes=100)])]
        fetch = FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1000, session_epoch=-1, topics=topics)
        client.send(encode_request(fetch, 12, 7, "raw"))
        size = "kafka_server_delayedoperationpurgatory_purgatorysize"
        eventually(lambda: served.scrape().get(size, delayedOperation="Fetch") == 1, "the fetch waits")


def test_the_lag_of_a_group_is_exact_in_records_and_follows_time_in_seconds() -> None:
    lag = {"consumergroup": "readers", "topic": "orders", "partition": "0"}
    an_hour_ago = int(time.time() * 1000) - 3_600_000
    with serving() as served:
        create(served.broker, "orders")
        produce(served.broker, "orders", 40)
        produce(served.broker, "orders", 60, timestamp=an_hour_ago)
        consume(served.broker, "readers", "orders", 40)
        # A batch that is not in the page cache is read for the next scrape.
        seconds = "kafka_consumergroup_lag_seconds"
        eventually(lambda: served.scrape().get(seconds, **lag) is not None, "the age of the lag is known")
        found = served.scrape()
        assert found.get("kafka_consumergroup_current_offset", **lag) == 40
        assert found.get("kafka_consumergroup_lag", **lag) == 60
        assert 3600 <= (found.get(seconds, **lag) or 0) < 3660
        assert found.get("kafka_consumergroup_lag_sum", consumergroup="readers", topic="orders") == 60
        assert found.get("kafka_consumergroup_members", consumergroup="readers") == 0
        consume(served.broker, "readers", "orders", 100)
        found = served.scrape()
        assert found.get("kafka_consumergroup_lag", **lag) == 0
        assert found.get("kafka_consumergroup_lag_seconds", **lag) == 0


def test_partitions_are_shown_as_kafka_exporter_shows_them() -> None:
    with serving() as served:
        create(served.broker, "orders", 3)
        produce(served.broker, "orders", 10, partition=2)
        found = served.scrape()
        where = {"topic": "orders", "partition": "2"}
        assert found.get("kafka_brokers") == 1
        assert found.get("kafka_topic_partitions", topic="orders") == 3
        assert found.get("kafka_topic_partition_current_offset", **where) == 10
        assert found.get("kafka_topic_partition_oldest_offset", **where) == 0
        assert found.get("kafka_topic_partition_leader", **where) == 1
        assert found.get("kafka_topic_partition_leader_is_preferred", **where) == 1
        assert found.get("kafka_topic_partition_under_replicated_partition", **where) == 0
        assert found.get("kafka_server_replicamanager_leadercount") == 3
        assert found.get("kafka_controller_kafkacontroller_globalpartitioncount") == 3
        assert found.get("kafka_controller_kafkacontroller_activecontrollercount") == 1
        assert found.get("kafka_log_log_logendoffset", **where) == 10


def test_clients_cannot_make_more_than_a_bounded_number_of_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MOST_OFFSETS", 3)
    with serving() as served:
        create(served.broker, "orders")
        produce(served.broker, "orders", 1)
        names = [*(f"group-{number}" for number in range(6)), "x" * 300]
        for name in names:
            consume(served.broker, name, "orders", 1)
        found = served.scrape()
        assert len(found.having("kafka_consumergroup_lag")) == 3
        assert found.get("kafkapy_metrics_offsets_left_out") == 4
        assert found.get("kafka_coordinator_group_groupmetadatamanager_numoffsets") == 7
        assert not [key for key in found.values if any("xxx" in value for _, value in key[1])]


def test_a_client_id_is_a_label_of_what_is_counted_by_client_alone() -> None:
    with serving() as served:
        create(served.broker, "orders")
        producer = Producer({"bootstrap.servers": served.broker.bootstrap_servers, "client.id": "noticeable"})
        producer.produce("orders", b"1")
        producer.flush(30)
        lines = [line for line in served.page().splitlines() if "noticeable" in line]
        assert lines
        assert all(line.startswith("kafkapy_client_") for line in lines)


def test_the_name_of_a_group_may_hold_any_text() -> None:
    name = 'a "quoted"\\name\nwith two lines'
    with serving() as served:
        create(served.broker, "orders")
        produce(served.broker, "orders", 2)
        consume(served.broker, name, "orders", 1)
        lags = served.scrape().having("kafka_consumergroup_lag", consumergroup=name)
        assert list(lags.values()) == [1]


def test_the_process_and_the_loop_are_shown() -> None:
    with serving() as served:
        eventually(
            lambda: (served.scrape().get("kafkapy_event_loop_lag_seconds_count") or 0) > 3, "the probe looks"
        )
        found = served.scrape()
        assert (found.get("process_cpu_seconds_total") or 0) > 0
        assert found.get("python_gc_collections_total", generation="2") is not None
        assert 0 <= (found.get("kafka_network_socketserver_networkprocessoravgidle_percent") or -1) <= 1


def test_records_of_old_clients_are_counted_both_ways() -> None:
    records = [Record(-1, 1_700_000_000_000, b"key", b"value", []) for _ in range(3)]
    with serving() as served, RawClient(served.broker.bootstrap_servers) as client:
        create(served.broker, "orders")
        create(served.broker, "others")
        for place, record in enumerate(records):
            record.offset = place
        data = PartitionProduceData(index=0, records=bytes(build_message_set(records, 1)))
        topics = [TopicProduceData(name="orders", partition_data=[data])]
        client.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics), 2)
        produce(served.broker, "others", 5)
        wanted = [
            FetchTopic(topic=name, partitions=[FetchPartition(partition_max_bytes=1 << 20)])
            for name in ("orders", "others")
        ]
        client.ask(FetchRequest(max_wait_ms=100, min_bytes=1, topics=wanted), 2)
        found = served.scrape()
    into, out = f"{TOPIC}_producemessageconversions_total", f"{TOPIC}_fetchmessageconversions_total"
    assert (found.get(into, topic="orders"), found.get(into, topic="others"), found.get(into)) == (3, 0, 3)
    assert (found.get(out, topic="orders"), found.get(out, topic="others"), found.get(out)) == (3, 5, 8)


def test_connections_are_counted_by_the_software_of_the_client() -> None:
    with serving({"metrics.names": "confluent"}) as served, RawClient(served.broker.bootstrap_servers) as one:
        name = "kafka_server_socketservermetrics_connections"
        request = ApiVersionsRequest(client_software_name="our-app", client_software_version="1.2")
        with RawClient(served.broker.bootstrap_servers) as other:
            for client in (one, other):
                client.ask(request, 3)
            (count,) = served.scrape().having(name, client_software_name="our-app").values()
            assert count == 2
        ours = {"client_software_name": "our-app", "client_software_version": "1.2"}
        eventually(lambda: [*served.scrape().having(name, **ours).values()] == [1], "one is gone")


def test_no_client_can_grow_the_labels_of_software() -> None:
    software = ClientSoftware()
    assert software.shown(("first", "1")) == ("first", "1")
    shown = {software.shown((f"app-{number}", "x" * (number % 200))) for number in range(1000)}
    assert client_software.OTHER in shown
    assert len(shown) <= client_software.MOST
    assert all(len(version) <= client_software.LONGEST for _, version in shown)
    assert software.shown(("first", "1")) == ("first", "1")


def test_the_idle_time_of_strimzis_reporter_is_a_counter_in_nanoseconds() -> None:
    """Its dashboard divides the rate by 1e9."""
    name = "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_total"
    with serving({"metrics.names": "strimzi"}) as served:
        began, first = time.monotonic(), served.scrape().get(name) or 0
        eventually(lambda: (served.scrape().get(name) or 0) > first + 50e6, "the loop was idle for 50 ms")
        assert (served.scrape().get(name) or 0) - first <= (time.monotonic() - began) * 1e9


def test_the_time_that_coordinators_took_to_load_is_shown(tmp_path: Path) -> None:
    with kafkapy.Broker(data_dir=tmp_path) as broker:
        create(broker, "orders")
        produce(broker, "orders", 1)
        consume(broker, "readers", "orders", 1)
    with serving({}, data_dir=tmp_path) as served:
        consume(served.broker, "readers", "orders", 1)
        found = served.scrape()
    longest = found.get("kafka_server_group_coordinator_metrics_partition_load_time_max") or 0
    assert 0 < (found.get("kafka_server_group_coordinator_metrics_partition_load_time_avg") or 0) <= longest
    assert found.get("kafka_server_transaction_coordinator_metrics_partition_load_time_max") == 0
