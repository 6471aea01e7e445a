"""A trace is sent again to another broker, and what differs is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkapy import Broker
from kafkapy.cli import main
from kafkapy.trace.trace_file import TraceWriter
from tests.ports import free_ports
from tests.trace.relaying import relaying


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace of a producer that is idempotent, and of a group that reads and commits."""
    from confluent_kafka import Consumer, Producer

    path = tmp_path / "trace"
    with Broker() as broker, relaying(broker.bootstrap_servers) as traced:
        # The other broker gives the next producer another id.
        Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"}).init_transactions(
            30
        )
        producer = Producer({"bootstrap.servers": traced.address, "enable.idempotence": True})
        for value in (b"one", b"two"):
            producer.produce("orders", value)
            assert producer.flush(30) == 0
        settings = {"bootstrap.servers": traced.address, "group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        consumer.subscribe(["orders"])
        assert len(consumer.consume(2, 30)) == 2
        consumer.commit(asynchronous=False)
        consumer.close()
        exchanges = list(traced.exchanges)
    with TraceWriter(path) as writer:
        for exchange in exchanges:
            writer.write(exchange)
    return path


def replayed(trace: Path, to: str) -> tuple[int, list[str]]:
    result = CliRunner().invoke(main, ["trace", "replay", str(trace), "--to", to], prog_name="kafkapy")
    return result.exit_code, result.output.splitlines()


def test_another_broker_gets_the_records_and_the_offsets_of_the_group(trace: Path) -> None:
    from confluent_kafka import Consumer, TopicPartition

    with Broker() as broker:
        status, lines = replayed(trace, broker.bootstrap_servers)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
        reader = Consumer(settings)
        try:
            reader.assign([TopicPartition("orders", 0, 0)])
            assert [message.value() for message in reader.consume(2, 30)] == [b"one", b"two"]
            (committed,) = reader.committed([TopicPartition("orders", 0)], 30)
            assert committed.offset == 2
        finally:
            reader.close()
    assert lines[-1].endswith("left out: 0")
    assert not any("error_code" in line for line in lines), lines
    assert status == (0 if len(lines) == 1 else 1)


def test_an_answer_that_differs_is_told(trace: Path) -> None:
    with Broker(config={"auto.create.topics.enable": "false"}) as broker:
        status, lines = replayed(trace, broker.bootstrap_servers)
    assert status == 1
    assert any("Metadata v" in line and "now UNKNOWN_TOPIC_OR_PARTITION" in line for line in lines), lines


def test_a_producer_of_transactions_that_had_to_ask_again_is_sent_again(tmp_path: Path) -> None:
    from confluent_kafka import Producer

    path = tmp_path / "trace"
    with Broker() as broker, relaying(broker.bootstrap_servers) as traced:
        # The other broker answers at once, so that each question gives the producer another epoch.
        fault = broker.faults.init_producer_id().error("NOT_COORDINATOR", times=2)
        producer = Producer({"bootstrap.servers": traced.address, "transactional.id": "t"})
        producer.init_transactions(30)
        assert fault.hits == 2
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.produce("orders", end.__name__)
            producer.flush(30)
            end(30)
        exchanges = list(traced.exchanges)
    with TraceWriter(path) as writer:
        for exchange in exchanges:
            writer.write(exchange)
    with Broker() as broker:
        _, lines = replayed(path, broker.bootstrap_servers)
        told = [line for line in lines[:-1] if "NOT_COORDINATOR, now NONE" not in line]
        assert (told, lines[-1].partition(", left")[0].partition("different: ")[2]) == ([], "2"), lines
        assert [record.value for record in broker.records("orders")] == [b"commit_transaction"]


def test_a_broker_that_is_down_is_one_line(trace: Path) -> None:
    status, lines = replayed(trace, f"127.0.0.1:{free_ports(1)[0]}")
    assert (status, len(lines)) == (1, 1)
    assert lines[0].startswith("kafkapy: ")
