"""`kafkapy import`: a directory of Apache Kafka's, stopped or killed, shows the same in kafkapy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.support.maven import JarsUnavailableError
from interop.support.zookeeper_process import ZooKeeperProcess

pytestmark = pytest.mark.jvm

KAFKA = {"log.cleaner.backoff.ms": "200", "zookeeper.session.timeout.ms": "6000"}


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZooKeeperProcess]:
    try:
        with ZooKeeperProcess(tmp_path / "zookeeper") as process:
            yield process
    except JarsUnavailableError as problem:
        pytest.skip(str(problem))
