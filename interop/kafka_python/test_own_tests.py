"""kafka-python's own tests of clients, administration, logins and TLS pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from interop.kafka_python.source_release import own_tests
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.server_process import ServerProcess

_SETTINGS: Final = {
    # Their configuration has these.
    "broker.id": "0",
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "durability": "os",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
_NOT_SERVED: Final = {"test_describe_metadata_quorum": "KRaft"}
_FILES: Final = ("admin", "consumer", "producer")
_LEAST: Final = 50
"""The tests that have to pass."""
_LOGINS_AND_TLS: Final = 11
"""Three tests of logins by each of three mechanisms, and two of TLS."""
_CHECKOUT: Final = Path(__file__).resolve().parents[2]


@pytest.fixture
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    if request.config.getoption("--against") != "kafkapy":
        pytest.skip("this is about one broker with settings of its own")
    kafkapy = KafkapyProcess(tmp_path_factory.mktemp("own"), properties=_SETTINGS)
    kafkapy.properties["advertised.listeners"] = f"PLAINTEXT://{kafkapy.bootstrap_servers}"
    with kafkapy:
        yield kafkapy


@pytest.mark.slow
@pytest.mark.capability("groups")
def test_kafka_pythons_own_tests_pass(broker: ServerProcess) -> None:
    arguments = [f"test/integration/test_{name}_integration.py" for name in _FILES]
    for name in _NOT_SERVED:
        arguments += ["--deselect", f"test/integration/test_admin_integration.py::{name}"]
    assert _passed(arguments, KAFKA_URI=f"kafka://{broker.bootstrap_servers}") >= _LEAST


@pytest.mark.slow
def test_kafka_pythons_own_tests_of_logins_and_tls_pass(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--against") != "kafkapy":
        pytest.skip("this is about brokers that the tests start")
    arguments = ["-p", "interop.kafka_python.own_brokers"]
    arguments += [f"test/integration/test_{name}_integration.py" for name in ("sasl", "ssl")]
    assert _passed(arguments, PYTHONPATH=str(_CHECKOUT)) == _LOGINS_AND_TLS


def _passed(arguments: Iterable[str], **variables: str) -> int:
    """How many of their tests have passed, where all that ran did."""
    folder = own_tests()
    environment = {**os.environ, "KAFKA_VERSION": "4.3.0", "KAFKA_ROOT": str(folder), **variables}
    command = [sys.executable, "-m", "pytest", "-c", "pytest.ini", "-p", "no:cacheprovider", "--tb", "short"]
    command += ["--show-capture", "no", "-rA", "-W", "ignore", *arguments]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, "\n".join((run.stdout + run.stderr).splitlines()[-60:])
    return len(re.findall(r"^PASSED ", run.stdout, re.MULTILINE))
