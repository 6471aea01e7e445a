from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from interop.support.kafka_process import KafkaProcess
from kafkapy.cli import main
from tests.ports import free_ports

Run = Callable[..., Result]
RunJson = Callable[..., Any]

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class SecureKafka(KafkaProcess):
    """Apache Kafka with ACLs and, besides its listener for everybody, one with logins."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        controller = self.properties["listeners"].partition(",")[2]
        self.with_login = f"127.0.0.1:{free_ports(1)[0]}"
        listeners = f"PLAINTEXT://{self.bootstrap_servers},SASL_PLAINTEXT://{self.with_login}"
        self.log_dirs = [str(self.data), str(folder / "more")]
        self.properties |= {
            "listeners": f"{listeners},{controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
            ),
            "log.dirs": ",".join(self.log_dirs),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{_PLAIN} user_alice="secret";',
            "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice",
            "delegation.token.secret.key": "key of the tokens",
        }


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """The Apache Kafka that the commands are for."""
    with skipped_without_jars():
        kafka_jars()
    with SecureKafka(tmp_path_factory.mktemp("kafka")) as process:
        yield process


@pytest.fixture(autouse=True)
def _own_contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("KAFKAPY_CONTEXT", raising=False)


@pytest.fixture
def kafkapy(kafka: SecureKafka) -> Run:
    """Runs a command for Apache Kafka."""

    def run(*arguments: str, server: str = kafka.bootstrap_servers, **options: Any) -> Result:
        command = [*arguments, "--bootstrap-server", server]
        result = CliRunner().invoke(main, command, prog_name="kafkapy", **options)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        return result

    return run


@pytest.fixture
def done(kafkapy: Run) -> RunJson:
    """Runs a command that succeeds, and returns the JSON that it prints."""

    def run(*arguments: str, **options: Any) -> Any:
        result = kafkapy(*arguments, "--format", "json", **options)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return run
