"""One Apache Kafka and one kafkapy for all of the folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.differential.brokers import Pair
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from interop.support.kafka_process import KafkaProcess
from tests.servers.kafkapy_process import KafkapyProcess

_SETTINGS = {
    "offsets.topic.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    kafka = KafkaProcess(tmp_path_factory.mktemp("kafka"), properties=_SETTINGS, heap="512m")
    kafkapy = KafkapyProcess(tmp_path_factory.mktemp("kafkapy"), properties={**_SETTINGS, "durability": "os"})
    with skipped_without_jars():
        kafka_jars()
    with kafka, kafkapy:
        yield Pair(kafka.bootstrap_servers, kafkapy.bootstrap_servers)
        assert kafkapy.running, f"kafkapy ended during the tests:\n{kafkapy.output()}"
