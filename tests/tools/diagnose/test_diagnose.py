"""The archive of `kafkapy diagnose`: what is in it, and that no secret is."""

from __future__ import annotations

import re
import stat
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkapy.cli import main
from kafkapy.tools.diagnose.command import diagnose
from kafkapy.tools.diagnose.redaction import HIDDEN, Redaction
from tests.metrics.prometheus import serving
from tests.metrics.test_scrapes import create, produce

JAAS = (
    'org.apache.kafka.common.security.scram.ScramLoginModule required username="adm"'
    ' password="planted-1" user_bob="planted-2" extra=planted-3;'
)
SETTINGS = {
    "log.dirs": "DATA",
    "log.retention.hours": "7",
    "ssl.keystore.password": "planted-4",
    "ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\\nplanted5\\n-----END PRIVATE KEY-----",
    "listener.name.in.scram-sha-256.sasl.jaas.config": JAAS,
    "my.own.setting": "planted-6",
    "sasl.oauthbearer.token.endpoint.url": "https://me:planted-7@login.example/token",
    "password.encoder.secret": "planted-8",
}
LOG = """\
INFO started
INFO somebody logged planted-1, planted-2 and planted-3
WARNING token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJwbGFudGVkLTkifQ.planted-9 was refused
WARNING password=planted-A, stored_key: "planted-B" secret='planted-C' tokenId=planted-D
"""


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    (data / "orders-0").mkdir(parents=True)
    (data / "orders-0" / "00000000000000000000.log").write_bytes(b"planted-records")
    (data / "metadata.db").write_bytes(b"SCRAM-SHA-256 planted-scram")
    (data / "log-start-offset-checkpoint").write_text("0\n1\norders 0 5\n")
    path = tmp_path / "server.properties"
    lines = {**SETTINGS, "log.dirs": str(data)}
    path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(diagnose, [str(each) for each in arguments], catch_exceptions=False)


def contents(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        found = {}
        for entry in archive.getmembers():
            file = archive.extractfile(entry)
            assert file is not None
            found[entry.name.removeprefix("kafkapy/")] = file.read().decode()
        return found


def test_no_secret_is_in_the_archive(properties: Path, tmp_path: Path) -> None:
    log, archive = tmp_path / "server.log", tmp_path / "out.tar.gz"
    log.write_text(LOG)
    result = run("--config", properties, "--log", log, "--output", archive)
    assert result.exit_code == 0, result.output
    found = contents(archive)
    assert "planted" not in "".join(found.values()) + result.output
    assert "log.retention.hours=7" in found["settings.properties"]
    assert f"ssl.keystore.password={HIDDEN}" in found["settings.properties"]
    assert found["log-0.txt"].startswith("INFO started\n")
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600


def test_a_stopped_broker_is_told_by_its_files(properties: Path, tmp_path: Path) -> None:
    archive = tmp_path / "out.tar.gz"
    assert run("--config", properties, "--output", archive).exit_code == 0
    found = contents(archive)
    assert "orders-0/00000000000000000000.log" in found["data-0.txt"]
    assert "--- log-start-offset-checkpoint\n0\n1\norders 0 5\n" in found["data-0.txt"]
    assert "package uvloop " in found["versions.txt"]
    assert f"file system of {tmp_path / 'data'}: " in found["versions.txt"]


def test_it_says_what_it_contains_before_it_is_written(properties: Path, tmp_path: Path) -> None:
    archive = tmp_path / "out.tar.gz"
    result = run("--config", properties, "--output", archive, "--dry-run")
    assert not archive.exists()
    shown = {line.split()[0] for line in result.output.splitlines()[1:]}
    assert run("--config", properties, "--output", archive).exit_code == 0
    assert shown == set(contents(archive))


def test_an_archive_is_not_overwritten(properties: Path, tmp_path: Path) -> None:
    archive = tmp_path / "out.tar.gz"
    archive.write_text("mine")
    with pytest.raises(Exception, match="is there already"):
        run("--config", properties, "--output", archive)
    assert archive.read_text() == "mine"


def test_a_running_broker_is_asked(tmp_path: Path) -> None:
    archive = tmp_path / "out.tar.gz"
    with serving() as served:
        create(served.broker, "orders")
        produce(served.broker, "orders", 3)
        options = ["--bootstrap-server", served.broker.bootstrap_servers]
        change = ["configs", "alter", "topics", "orders", "--set", "retention.ms=1d", *options]
        assert CliRunner().invoke(main, change).exit_code == 0
        result = run(*options, "--metrics", f"{served.url}/metrics", "--output", archive)
    assert result.exit_code == 0, result.output
    found = contents(archive)
    assert 'kafka_server_brokertopicmetrics_messagesin_total{topic="orders"} 3' in found["metrics.txt"]
    assert "orders" in found["cluster-topics-list.txt"]
    assert re.search(r"orders +retention.ms +86400000 ", found["cluster-configs-describe-topics.txt"])
    assert "min.insync.replicas" in found["cluster-configs-describe-brokers.txt"]
    assert "exit status" not in "".join(found.values())


def test_what_cannot_be_told_does_not_end_it(tmp_path: Path) -> None:
    archive = tmp_path / "out.tar.gz"
    assert run("--metrics", "http://127.0.0.1:1/metrics", "--output", archive).exit_code == 0
    assert contents(archive)["metrics.txt"].startswith("This cannot be told: ")


def test_short_secrets_are_hidden_in_the_settings_only() -> None:
    redaction = Redaction({"ssl.key.password": "abc"})
    assert redaction.settings() == f"ssl.key.password={HIDDEN}\n"
    assert redaction.text("abcd") == "abcd"


def test_names_and_protocols_are_no_secrets() -> None:
    broker = {
        "listeners": "SASL_PLAINTEXT://kafka:9092",
        "sasl.enabled.mechanisms": "PLAIN",
        "super.users": "User:kafka",
        "listener.name.in.plain.sasl.jaas.config": 'X required username="kafka" password="planted-1";',
    }
    client = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "kafka"}
    shown = Redaction(broker, client).settings()
    assert f"listeners={broker['listeners']}\n" in shown
    assert "sasl.enabled.mechanisms=PLAIN\nsuper.users=User:kafka\n" in shown
    assert "planted" not in Redaction(broker, client).text("kafka planted-1")


def test_a_clients_secret_does_not_take_the_place_of_the_brokers(tmp_path: Path) -> None:
    archive, log = tmp_path / "out.tar.gz", tmp_path / "server.log"
    server, client = tmp_path / "server.properties", tmp_path / "client.properties"
    log.write_text("planted-broker planted-client\n")
    server.write_text("ssl.key.password=planted-broker\n")
    client.write_text("ssl.key.password=planted-client\n")
    options = ("--config", server, "--command-config", client, "--log", log)
    assert run(*options, "--output", archive).exit_code == 0
    assert contents(archive)["log-0.txt"] == f"{HIDDEN} {HIDDEN}\n"
