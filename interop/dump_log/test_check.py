"""A directory that a broker wrote is sound, whichever broker it was and however it stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.dump_log.kafka_directories import KafkaDirectories
from interop.dump_log.topics import create_topics, fill
from kafkapy.tools.check.check import Check
from kafkapy.tools.check.finding import Finding, Severity
from tests.servers.kafkapy_process import KafkapyProcess

pytestmark = pytest.mark.jvm


def findings(path: Path) -> list[str]:
    return [
        finding.text()
        for finding in Check([str(path)], deep=True).run(lambda _: None)
        if not expected(finding)
    ]


def expected(finding: Finding) -> bool:
    """A segment that compaction replaced goes after a minute."""
    return finding.severity is Severity.HARMLESS and finding.path.endswith(".deleted")


@pytest.mark.parametrize("release", ["kafka_3", "kafka_4"])
def test_no_false_alarm(release: str, request: pytest.FixtureRequest) -> None:
    directories: KafkaDirectories = request.getfixturevalue(release)
    assert findings(directories.stopped) == []
    assert findings(directories.killed) == []
    found, summary = directories.running
    assert [finding.text() for finding in found] == []
    assert len(summary.live) == 1
    assert summary.partitions > 8


def test_damage_in_a_directory_of_kafka_is_found(kafka_4: KafkaDirectories) -> None:
    log = max(kafka_4.stopped.glob("codecs-0/*.log"), key=lambda each: each.stat().st_size)
    data = log.read_bytes()
    log.write_bytes(data[:200] + bytes([data[200] ^ 4]) + data[201:])
    try:
        check = Check([str(kafka_4.stopped)], deep=True)
        [found] = [finding for finding in check.run(lambda _: None) if not expected(finding)]
    finally:
        log.write_bytes(data)
    assert found.severity is Severity.DAMAGED
    assert found.path == str(log)
    assert check.summary.exit_status == 1


@pytest.mark.parametrize("stop", ["stop", "kill"])
def test_a_directory_that_stock_clients_filled_here_is_sound(tmp_path: Path, stop: str) -> None:
    broker = KafkapyProcess(tmp_path, properties={"log.cleaner.backoff.ms": "300"})
    try:
        broker.start()
        create_topics(broker.bootstrap_servers)
        fill(broker.bootstrap_servers, transactions=False)
        check = Check([str(broker.data)], deep=True)
        assert [each.text() for each in check.run(lambda _: None) if not expected(each)] == []
        assert check.summary.live == [str(broker.data)]
    finally:
        getattr(broker, stop)()
    assert findings(broker.data) == []
