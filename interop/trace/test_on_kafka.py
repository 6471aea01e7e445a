"""The proxy before Apache Kafka: clients stay on it, and all of it is decoded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition

from interop.java_tools.tools import consume, produce, tool
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from interop.support.kafka_process import KafkaProcess
from interop.support.records import Record
from kafkapy import Broker
from kafkapy.cli import main
from kafkapy.trace.trace_file import TraceWriter
from tests.trace.relaying import Traced, relaying

SENT = [Record(b"17", b"two apples"), Record(b"18", b"a pear")]


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    """A proxy before Apache Kafka, through which clients have worked."""
    with skipped_without_jars():
        kafka_jars()
    with (
        KafkaProcess(tmp_path_factory.mktemp("kafka")) as kafka,
        relaying(kafka.bootstrap_servers) as traced,
    ):
        tool("topics", traced.address, "--create", "--topic", "orders", "--partitions", "1")
        produce(traced.address, "orders", SENT)
        consume(traced.address, "orders", 2, "--group", "classic")
        modern = ("--group", "modern", "--command-property", "group.protocol=consumer")
        consume(traced.address, "orders", 2, *modern)
        tool("consumer-groups", traced.address, "--describe", "--all-groups")
        tool(
            "configs", traced.address, "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"
        )
        by_transactions(traced.address)
        yield traced


def by_transactions(address: str) -> None:
    """Read, write and commit in a transaction by librdkafka."""
    settings = {"bootstrap.servers": address, "group.id": "mover", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe(["orders"])
    assert len(consumer.consume(2, 60)) == 2
    producer = Producer({"bootstrap.servers": address, "transactional.id": "mover"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("orders", b"moved")
    offsets = [TopicPartition("orders", 0, 2)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 60)
    producer.commit_transaction(60)
    consumer.close()


def test_every_request_and_answer_is_decoded(traced: Traced) -> None:
    exchanges = list(traced.exchanges)
    assert {exchange.note for exchange in exchanges if exchange.request and exchange.note} == set()
    lines = traced.lines(full=True)
    assert "(2 records)" in lines
    for api in (
        "ApiVersions",
        "Metadata",
        "CreateTopics",
        "InitProducerId",
        "Produce",
        "FindCoordinator",
        "JoinGroup",
        "SyncGroup",
        "ConsumerGroupHeartbeat",
        "OffsetFetch",
        "Fetch",
        "OffsetCommit",
        "AddOffsetsToTxn",
        "TxnOffsetCommit",
        "EndTxn",
        "DescribeConfigs",
    ):
        assert f" {api} v" in lines, api


def test_clients_stay_on_the_proxy(traced: Traced) -> None:
    addresses = {exchange.client for exchange in traced.exchanges if exchange.api == "Produce"}
    assert addresses
    ids = {exchange.header.client_id for exchange in traced.exchanges if exchange.header is not None}
    assert {"console-producer", "rdkafka"} <= ids


def test_a_broker_of_kafkapy_answers_the_same(traced: Traced, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    with TraceWriter(path) as writer:
        for exchange in traced.exchanges:
            writer.write(exchange)
    with Broker() as broker:
        command = ["trace", "replay", str(path), "--to", broker.bootstrap_servers]
        result = CliRunner().invoke(main, command, prog_name="kafkapy")
        values = [record.value for record in broker.records("orders")]
    assert values == [b"two apples", b"a pear", b"moved"]
    # Coordinators of Apache Kafka that are not ready are asked again; a kafkapy broker is ready at once.
    waited = ("NOT_COORDINATOR, now", "COORDINATOR_LOAD_IN_PROGRESS, now", "COORDINATOR_NOT_AVAILABLE, now")
    others = [line for line in result.output.splitlines() if not any(each in line for each in waited)]
    for line in others[:-1]:
        assert " Fetch v" in line or "results.0.configs: " in line, result.output
    assert result.output.endswith("left out: 0\n")
