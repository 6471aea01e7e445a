"""Java's TransactionalMessageCopier copies a partition exactly once.

Apache Kafka's own tests use it.

Its producer has an epoch for each transaction, so the proxy also sends its EndTxn again, after the next
transaction began.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from interop.exactly_once.stage import Stage
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import java_command
from interop.support.known_topics import create_topics
from interop.support.waiting import wait_until
from tests.crash.load import RECONNECT

INPUT: Final = "originals"
OUTPUT: Final = "copies"
RECORDS: Final = 2_000


class Copier:
    """The program; it ends when it has copied what was there when it began."""

    def __init__(self, servers: str, folder: Path) -> None:
        arguments = {
            "input-topic": INPUT,
            "input-partition": "0",
            "output-topic": OUTPUT,
            "broker-list": servers,
            "consumer-group": "copiers",
            "transactional-id": "copier",
            "transaction-size": "50",
            "transaction-timeout": "8000",
        }
        flags = [part for name, value in arguments.items() for part in (f"--{name}", value)]
        self._command = [*java_command(), "org.apache.kafka.tools.TransactionalMessageCopier", *flags]
        self._command += ["--enable-random-aborts", "--use-group-metadata"]
        self._log = folder / "copier.err"
        self.copied = 0
        """By this process."""

    def start(self) -> None:
        self.copied = 0
        with self._log.open("ab") as errors:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._reader = threading.Thread(target=self._read, name="copier's output")
        self._reader.start()

    def wait(self) -> int:
        """Until it ends; its exit status."""
        self._reader.join(120)
        return self._process.wait(10)

    def kill(self) -> None:
        self._process.kill()
        self.wait()

    def output(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-30:])

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self.copied = json.loads(line)["totalProcessed"]


@contextmanager
def copier(servers: str, folder: Path) -> Iterator[Copier]:
    with skipped_without_jars():
        program = Copier(servers, folder)
    program.start()
    try:
        yield program
    finally:
        program.kill()


def write(servers: str) -> list[bytes]:
    """Write records without a transaction: the program takes every offset for a record."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, **RECONNECT})
    values = [f"record {number}".encode() for number in range(RECORDS)]
    for value in values:
        producer.produce(INPUT, value, partition=0)
    assert producer.flush(60) == 0
    return values


def read(servers: str, topic: str) -> list[bytes]:
    """The values that a read_committed consumer is given."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    try:
        while True:
            message = consumer.poll(30)
            assert message is not None, f"nothing more after {len(values)} records"
            if message.error() is not None:
                return values
            values.append(message.value() or b"")
    finally:
        consumer.close()


@pytest.mark.jvm
@pytest.mark.slow
def test_a_partition_is_copied_once_in_order_though_copier_and_broker_are_killed(
    one_broker_stage: Stage, tmp_path: Path
) -> None:
    broker = one_broker_stage.broker
    create_topics(broker.bootstrap_servers, (INPUT, OUTPUT), 1)
    originals = write(broker.bootstrap_servers)
    with copier(one_broker_stage.servers, tmp_path) as program:
        wait_until(lambda: program.copied >= 300, timeout=60)
        program.kill()
        program.start()
        wait_until(lambda: program.copied >= 300, timeout=60)
        broker.kill()
        broker.start()
        assert program.wait() == 0, program.output()
    copies = read(broker.bootstrap_servers, OUTPUT)
    assert len(copies) == len(originals)
    assert copies == originals
