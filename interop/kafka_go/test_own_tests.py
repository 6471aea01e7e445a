"""kafka-go's own tests of records, groups and topics pass."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from typing import Final

import pytest

from interop.kafka_go.program import built_tests
from tests.servers.kafkapy_process import KafkapyProcess

TESTS: Final = {
    "records": (
        "TestConn",
        "TestReader",
        "TestReaderOnNonZeroPartition",
        "TestWriter",
        "TestBatchDontExpectEOF",
        "TestClientProduceAndConsume",
        "TestClientProduceCompressed",
        "TestClientFetchCompressed",
        "TestClientRawProduceCompressed",
        "TestClientListOffsets",
    ),
    "groups": (
        "TestConsumerGroup",
        "TestCloseLeavesGroup",
        "TestConsumerGroupWithTopic",
        "TestConsumerGroupWithGroupTopicsMultiple",
        "TestClientJoinGroup",
        "TestClientSyncGroup",
        "TestClientHeartbeat",
        "TestClientLeaveGroup",
        "TestClientOffsetCommit",
        "TestClientDeleteOffset",
        "TestClientDescribeGroups",
        "TestClientListGroups",
        "TestClientDeleteGroups",
    ),
    "topics": (
        "TestClientApiVersions",
        "TestClientMetadata",
        "TestClientCreateTopics",
        "TestClientDeleteTopics",
        "TestClientCreatePartitions",
        "TestClientDescribeConfigs",
        "TestClientIncrementalAlterConfigs",
        "TestClientElectLeaders",
        "TestClientAlterPartitionReassignments",
        "TestClientListPartitionReassignments",
        "TestClientAlterClientQuotas",
    ),
}
LEFT_OUT: Final = "TestConn/test_delete_topics|TestWriter/.*SASL|TestReader/.*SASL"
"""The first ask for a deleted topic, which creates it again: with partitions, as kafkapy answers first."""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The port of a broker at the host and with the id that the tests expect."""
    properties = {"broker.id": "1", "group.initial.rebalance.delay.ms": "0", "durability": "os"}
    folder = tmp_path_factory.mktemp("kafka-go")
    broker = KafkapyProcess(folder, properties=properties, address="localhost")
    broker.properties["advertised.listeners"] = f"PLAINTEXT://{broker.bootstrap_servers}"
    with broker:
        yield broker.bootstrap_servers.rpartition(":")[2]
        assert broker.running, f"the broker ended during the tests:\n{broker.output()}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "subject", [pytest.param(name, marks=pytest.mark.capability(name)) for name in TESTS]
)
def test_kafka_gos_own_tests_pass(port: str, subject: str) -> None:
    tests = TESTS[subject]
    environment = {**os.environ, "KAFKA_PORT": port, "KAFKA_VERSION": "3.7.0", "KAFKA_SKIP_NETTEST": "1"}
    pattern = f"^({'|'.join(tests)})$"
    command = [str(built_tests()), "-test.v", "-test.timeout", "3m", "-test.run", pattern]
    run = subprocess.run(
        [*command, "-test.skip", LEFT_OUT], env=environment, capture_output=True, text=True, check=False
    )
    failed = re.findall(r"--- FAIL: \S+", run.stdout)
    assert run.returncode == 0, "\n".join([*failed, *(run.stdout + run.stderr).splitlines()[-60:]])
    assert {*re.findall(r"^--- PASS: (\S+)", run.stdout, re.MULTILINE)} == {*tests}
