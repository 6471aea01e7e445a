"""Disks that fill, fail and are slow, as stock clients see it."""

from __future__ import annotations

import time
from pathlib import Path

import kafka
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from kafkapy.faults.disks import Operation
from kafkapy.inprocess import Broker

SYNCED = {"durability": "fsync"}


def write(broker: Broker, topic: str = "orders") -> KafkaError | None:
    """Try for two seconds to write a record, by librdkafka; return the error."""
    errors: list[KafkaError | None] = []
    servers = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
    writer = Producer({**servers, "message.timeout.ms": 2000})
    writer.produce(topic, "two apples", on_delivery=lambda error, _: errors.append(error))
    writer.flush(20)
    (error,) = errors
    return error


@pytest.mark.kafka(topics={"orders": 1})
def test_producers_wait_until_a_full_disk_has_room(kafka_broker: Broker) -> None:
    assert write(kafka_broker) is None
    with kafka_broker.faults.disk().fill():
        refused = write(kafka_broker)
        assert refused is not None
        assert len(kafka_broker.records("orders")) == 1  # consumers continue
    writer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    writer.produce("orders", "a pear")
    assert writer.flush(20) == 0


@pytest.mark.kafka(topics={"orders": 1, "bills": 1})
def test_writes_of_one_topic_find_no_room(kafka_broker: Broker) -> None:
    full = kafka_broker.faults.disk(topic="orders", partition=0).fill(times=2)
    assert write(kafka_broker, "bills") is None
    assert full.hits == 0
    assert write(kafka_broker) is None  # librdkafka tries again
    assert full.hits == 2


@pytest.mark.parametrize(("operation", "config"), [("write", {}), ("sync", SYNCED)])
def test_a_failing_disk_takes_its_directory_offline_alone(
    tmp_path: Path, operation: Operation, config: dict[str, str]
) -> None:
    directories = [tmp_path / "one", tmp_path / "two"]
    settings = {**config, "log.dirs": ",".join(map(str, directories))}
    with Broker(config=settings) as broker:
        broker.create_topics({"orders": 1, "bills": 1})
        assert (write(broker), write(broker, "bills")) == (None, None)
        failure = broker.faults.disk(topic="orders").fail(operation, times=1)
        assert write(broker) is not None
        assert failure.hits == 1
        assert write(broker, "bills") is None
        broker.stop()
        broker.start()
        assert write(broker) is None


@pytest.mark.kafka(topics={"orders": 1})
def test_a_read_that_fails_is_told_to_the_consumer(kafka_broker: Broker) -> None:
    assert write(kafka_broker) is None
    failure = kafka_broker.faults.disk(topic="orders").fail("read", times=1)
    reader = kafka.KafkaConsumer(
        bootstrap_servers=kafka_broker.bootstrap_servers, auto_offset_reset="earliest"
    )
    reader.assign([kafka.TopicPartition("orders", 0)])
    assert reader.poll(2000) == {}
    reader.close()
    failure.hit()


@pytest.mark.kafka(topics={"orders": 1, "bills": 1}, config=SYNCED)
def test_acknowledgements_wait_for_a_slow_disk(kafka_broker: Broker) -> None:
    operations: list[Operation] = ["write", "sync"]
    for operation in operations:
        with kafka_broker.faults.disk(topic="orders").slow(0.5, operation, times=1) as slow:
            began = time.monotonic()
            assert write(kafka_broker) is None
            assert time.monotonic() - began >= 0.5
            assert slow.hits == 1


@pytest.mark.kafka(topics={"orders": 1})
def test_a_disk_is_as_before_when_its_faults_are_over(kafka_broker: Broker) -> None:
    files = kafka_broker.core.logs.files
    before = type(files)
    with kafka_broker.faults.disk().slow(0.001, "write"):
        assert type(files) is not before
    assert type(files) is before
    consumer = Consumer({"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": "billing"})
    consumer.assign([TopicPartition("orders", 0, 0)])
    assert write(kafka_broker) is None
    assert consumer.poll(10) is not None
    consumer.close()


def test_wrong_words_are_refused(kafka_broker: Broker) -> None:
    faults = kafka_broker.faults
    with pytest.raises(ValueError, match="partition=0: of which topic"):
        faults.disk(partition=0)
    with pytest.raises(ValueError, match="on='flush': expected one of 'write', 'sync', 'read'"):
        faults.disk().fail("flush")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seconds=-1 is not positive"):
        faults.disk().slow(-1, "write")
