"""A broker that is killed leaves no transaction half done.

It is killed at any step of a commit or an abort.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.crash.load import create_topic
from tests.servers.kafkapy_process import KafkapyProcess

KILLS = int(os.environ.get("KAFKAPY_KILLS", "6"))
SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))
TOPIC, PARTITIONS = "topic", 4
SECONDS = 30.0
PATIENCE_SECONDS = 120.0


class Writer:
    """A client that writes its number to all partitions in each transaction.

    Chance ends the transaction.
    """

    def __init__(self, bootstrap_servers: str, name: str, seed: int) -> None:
        self.settings = {"bootstrap.servers": bootstrap_servers, "transactional.id": name, "log_level": 0}
        self._name = name
        self._random = random.Random(seed)
        self.outcomes: dict[str, bool] = {}
        """What the client was told of each transaction; one whose end is not known is missing."""
        self._told = threading.Condition()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.failure: BaseException | None = None

    def wait_for_more_than(self, count: int) -> None:
        """Wait until the client was told of more transactions, or failed."""
        with self._told:
            assert self._told.wait_for(lambda: len(self.outcomes) > count or self.failure, PATIENCE_SECONDS)

    def _run(self) -> None:
        try:
            number = 0
            while not self.stopping.is_set():
                producer = Producer(self.settings)
                self._until_done(lambda: producer.init_transactions(SECONDS))  # noqa: B023
                while not self.stopping.is_set():
                    number += 1
                    try:
                        self._transaction(producer, f"{self._name}-{number}")
                    except KafkaException:
                        break  # a new producer aborts what is open
        except BaseException as failure:
            with self._told:
                self.failure = failure
                self._told.notify_all()

    def _transaction(self, producer: Producer, value: str) -> None:
        commit = self._random.random() < 0.6
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, value, partition=partition)
        if commit:
            self._until_done(lambda: producer.commit_transaction(SECONDS))
        else:
            producer.flush(SECONDS)
            self._until_done(lambda: producer.abort_transaction(SECONDS))
        with self._told:
            self.outcomes[value] = commit
            self._told.notify_all()

    def _until_done(self, call: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                call()
                return
            except KafkaException as problem:
                error: KafkaError = problem.args[0]
                if not error.retriable() or time.monotonic() > deadline:
                    raise


def read(bootstrap_servers: str) -> list[list[str]]:
    """What is committed in each partition."""
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": "reader", "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    found: list[list[str]] = [[] for _ in range(PARTITIONS)]
    ended: set[int] = set()
    while len(ended) < PARTITIONS:
        message = consumer.poll(SECONDS)
        assert message is not None, "the partitions have no end"
        partition = message.partition()
        assert partition is not None
        if message.error() is None:
            value = message.value()
            assert isinstance(value, bytes)
            found[partition].append(value.decode())
        else:
            ended.add(partition)
    consumer.close()
    return found


@pytest.mark.slow
def test_no_transaction_is_torn_when_the_broker_is_killed(tmp_path: Path) -> None:
    print("seed", SEED)
    chance = random.Random(SEED)
    settings = {
        "transaction.state.log.num.partitions": "2",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    }
    with KafkapyProcess(tmp_path, properties=settings) as broker:
        create_topic(broker.bootstrap_servers, TOPIC, PARTITIONS, {})
        writers = [Writer(broker.bootstrap_servers, name, SEED + index) for index, name in enumerate("abc")]
        for writer in writers:
            writer.thread.start()
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.5, 2.5))
            broker.kill()
            broker.start()
        told_before = [len(writer.outcomes) for writer in writers]
        for writer, count in zip(writers, told_before, strict=True):
            writer.wait_for_more_than(count)
        for writer in writers:
            writer.stopping.set()
        for writer in writers:
            writer.thread.join(PATIENCE_SECONDS)
            assert writer.failure is None, writer.failure
            # It aborts what is open, and waits for what is ending.
            Producer(writer.settings).init_transactions(SECONDS)
        first, *others = read(broker.bootstrap_servers)
    for other in others:
        assert sorted(other) == sorted(first), f"seed {SEED}: a transaction is torn"
    assert len(set(first)) == len(first), f"seed {SEED}: a transaction is there twice"
    for writer in writers:
        for value, commit in writer.outcomes.items():
            assert (value in first) is commit, f"seed {SEED}: the client was told otherwise of {value}"
    told = [commit for writer in writers for commit in writer.outcomes.values()]
    print(f"{sum(told)} committed, {len(told) - sum(told)} aborted, {len(first)} found")
    assert sum(told) > KILLS
