"""librdkafka's own tests of transactions, groups of both protocols, and share groups pass.

They start clients, and mostly wait for them: all runs are at work at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from interop.librdkafka.program import built_tests
from interop.librdkafka.run import Process, Run
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_process import KafkaProcess
from interop.support.waiting import wait_until
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.server_process import ServerProcess

_SETTINGS: Final = {"num.partitions": "4", "group.initial.rebalance.delay.ms": "1000"}
"""Some tests let members join together, and expect that one rebalance gives all of them their partitions."""


TRANSACTIONS: Final = {
    # All parts but one: do_test_misuse_txn wants an answer of its own process within 1 ms.
    "producers and copiers": Run("0103", 3, subtests="producer_txn"),
    "empty": Run("0103", 4, subtests="empty_txn"),
    "fenced": Run("0103", 2, subtests="fenced_txn"),
    "deleted records": Run("0103", 1, subtests="without_kip360"),
    "watermarks": Run("0103", 1, subtests="isolation_level"),
    "markers": Run("0103", 1, subtests="control_message"),
}
GROUPS: Final = {
    "classic": Run("0019 0030 0061 0102 0130 0132 0140", 19),
    "consumer": Run("0019 0030 0061 0102 0130 0140", 16, protocol="consumer"),
    "classic rebalances": Run("0113", 7, subtests="close consumer"),
    "consumer rebalances": Run("0113", 7, subtests="close consumer", protocol="consumer"),
    "share": Run("0172 0173 0176 0177", 9, subtests="mixed"),
}
RUNS: Final = {**TRANSACTIONS, **GROUPS}


@pytest.fixture(scope="module")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    kinds = {"kafkapy": KafkapyProcess, "kafka": KafkaProcess}
    kind = kinds.get(request.config.getoption("--against"))
    if kind is None:
        pytest.skip("this is about one broker with settings of its own")
    with ExitStack() as stack:
        with skipped_without_jars():
            started = stack.enter_context(kind(tmp_path_factory.mktemp("own"), properties=_SETTINGS))
        # Apache Kafka makes its offsets topic for the first group, which it refuses until it has loaded it.
        wait_until(lambda: _has_coordinators(started), timeout=60)
        yield started


def _has_coordinators(broker: ServerProcess) -> bool:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "first", "log_level": 0})
    with closing(consumer):
        try:
            consumer.committed([TopicPartition("first", 0)], timeout=5)
        except KafkaException:
            return False
    return True


@pytest.fixture(scope="module")
def processes(
    broker: ServerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Process]]:
    program = built_tests(number for run in RUNS.values() for number in run.tests.split())
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                Process(program, broker.bootstrap_servers, run, tmp_path_factory.mktemp("run"))
            )
            for name, run in RUNS.items()
        }


@pytest.mark.slow
@pytest.mark.capability("transactions")
@pytest.mark.parametrize("name", TRANSACTIONS)
def test_librdkafkas_own_tests_of_transactions_pass(processes: dict[str, Process], name: str) -> None:
    processes[name].require_passed()


@pytest.mark.slow
@pytest.mark.capability("groups")
@pytest.mark.parametrize("name", GROUPS)
def test_librdkafkas_own_tests_of_groups_pass(processes: dict[str, Process], name: str) -> None:
    processes[name].require_passed()
