"""`kafkapy import` shows what Apache Kafka 3.9 wrote in ZooKeeper mode.

Torn logs are among that.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.migrate.migration import depart, import_and_check, kafka_with

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


def test_a_stopped_zookeeper_directory_of_3_9_opens_here_with_its_settings(
    tmp_path: Path, zookeeper: str
) -> None:
    departed = depart(kafka_with(zookeeper), tmp_path, killed=False, transactions=True)
    import_and_check(departed, tmp_path, "--zookeeper", zookeeper)


def test_a_torn_zookeeper_directory_of_3_9_opens_here_without_zookeeper(
    tmp_path: Path, zookeeper: str
) -> None:
    departed = depart(kafka_with(zookeeper), tmp_path, killed=True, torn=True, transactions=True)
    told = import_and_check(departed, tmp_path, but=("settings of", "quotas"))
    assert "get retention.ms=-1, so that nothing is deleted" in told
