"""sarama's own functional tests of producers, transactions, groups and offsets pass."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Final

import pytest

from interop.sarama.program import built_tests

TESTS: Final = {
    "transactions": (
        "TestFuncTxnProduceNoBegin",
        "TestFuncTxnCommitNoMessages",
        "TestFuncTxnProduce",
        "TestFuncTxnProduceEpochBump",
        "TestFuncInitProducerId3",
        "TestFuncDescribeTransactions",
        "TestFuncListTransactions",
        "TestFuncDescribeProducers",
    ),
    "groups": (
        "TestFuncAdminListConsumerGroupOffsetsBatch",
        "TestFuncClientCoordinator",
        "TestFuncConsumerGroupCooperative",
    ),
    "records": ("TestFuncMultiPartitionProduce", "TestFuncConsumerOffsetOutOfRange"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "subject", [pytest.param(name, marks=pytest.mark.capability(name)) for name in TESTS]
)
def test_saramas_own_tests_pass(bootstrap_servers: str, subject: str) -> None:
    tests = TESTS[subject]
    # The variable names the proxy before the brokers; the changed tests take the broker's address from it.
    environment = {
        **os.environ,
        "TOXIPROXY_ADDR": f"kafka://{bootstrap_servers.partition(',')[0]}",
        "KAFKA_VERSION": "4.3.0",
    }
    command = [str(built_tests()), "-test.v", "-test.timeout", "1m", "-test.run", f"^({'|'.join(tests)})$"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, "\n".join((run.stdout + run.stderr).splitlines()[-60:])
    assert {*re.findall(r"^--- PASS: (\S+)", run.stdout, re.MULTILINE)} == {*tests}
