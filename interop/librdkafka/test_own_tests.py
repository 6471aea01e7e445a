"""librdkafka's own tests of transactions, groups of both protocols, and share groups pass.

They start clients, and mostly wait for them: all runs are at work at the same time.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from interop.librdkafka.program import built_tests
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_process import KafkaProcess
from interop.support.waiting import wait_until
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.server_process import ServerProcess

_SETTINGS: Final = {"num.partitions": "4", "group.initial.rebalance.delay.ms": "1000"}
"""Some tests let members join together, and expect that one rebalance gives all of them their partitions."""


class Run(NamedTuple):
    tests: str
    """Their numbers."""
    parts: int
    """How many parts of them have to pass."""
    subtests: str = ""
    """What the names of the parts contain."""
    protocol: str = "classic"


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
            name: stack.enter_context(Process(program, broker, run, tmp_path_factory.mktemp("run")))
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


class Process:
    """A run of the tests, as a process in a folder of its own."""

    def __init__(self, program: Path, broker: ServerProcess, run: Run, folder: Path) -> None:
        self._run, self._report, self._log = run, folder / "report.json", folder / "output"
        configuration = folder / "test.conf"
        configuration.write_text(f"bootstrap.servers={broker.bootstrap_servers}\ntest.timeout.multiplier=4\n")
        environment = {
            **os.environ,
            "RDKAFKA_TEST_CONF": str(configuration),
            "TEST_REPORT": str(self._report),
            "TEST_KAFKA_VERSION": "4.3.0",
            "TEST_CONSUMER_GROUP_PROTOCOL": run.protocol,
            "TESTS": run.tests.replace(" ", ","),
        }
        if run.subtests:
            environment["SUBTESTS"] = run.subtests
        # Without those that need no broker, and as many at a time as there are.
        command = [str(program), "-L", f"-p{len(run.tests.split())}"]
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def require_passed(self) -> None:
        """Wait for its end: each test has passed, and not because its parts were left out."""
        status = self._process.wait(300)
        output = re.sub(r"\x1b\S*?m", "", self._log.read_text(errors="replace"))
        failures = re.findall(r"^### Test .*\n.*", output, re.MULTILINE)
        assert status == 0, "\n".join(failures)
        tests = json.loads(self._report.read_text())["tests"].values()
        passed = {each["name"][:4] for each in tests if each["state"] == "PASSED"}
        assert passed >= {*self._run.tests.split()}
        assert output.count(": PASS (") >= self._run.parts
