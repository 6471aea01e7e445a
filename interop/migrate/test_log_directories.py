"""Two log directories go to Apache Kafka and back as two."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from interop.migrate.migration import run_kafkapy
from interop.support.kafka_process import KafkaProcess
from interop.support.waiting import wait_until
from tests.tools.migrate.harness import TOPICS, open_directory, write_directory

pytestmark = pytest.mark.jvm


def test_two_log_directories_stay_two_in_4_3(tmp_path: Path) -> None:
    home, there, back = (
        [tmp_path / name / data for data in ("data", "more")] for name in ("home", "there", "back")
    )
    before = write_directory(*home)
    run_kafkapy("export", _names(home), _names(there), "--to", "kraft")
    placed = _partitions(there)
    server = KafkaProcess(tmp_path / "there", properties={"log.dirs": _names(there)}, heap="512m")
    with server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        wait_until(lambda: TOPICS.keys() <= admin.list_topics(timeout=30).topics.keys())
    assert _partitions(there) == placed
    run_kafkapy("import", _names(there), _names(back))
    assert open_directory(*back) == before
    assert _partitions(back) == placed


def _names(paths: list[Path]) -> str:
    return ",".join(map(str, paths))


def _partitions(paths: list[Path]) -> list[set[str]]:
    return [{each.name for each in path.glob("*-[0-9]") if "metadata" not in each.name} for path in paths]
