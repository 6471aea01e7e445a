"""Where Java or the jars are missing, nothing is migrated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.support.kafka_jars import kafka_jars
from interop.support.maven import JarsUnavailableError
from interop.support.zookeeper_process import ZooKeeperProcess


@pytest.fixture(scope="session", autouse=True)
def _jars() -> None:
    try:
        for release in ("4.3.1", "3.9.1"):
            kafka_jars(release)
    except JarsUnavailableError as problem:
        pytest.skip(f"Apache Kafka is not available: {problem}")


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[str]:
    """The address of a ZooKeeper, with a path of its own below it."""
    pytest.importorskip("kazoo")
    with ZooKeeperProcess(tmp_path / "zookeeper") as process:
        yield f"{process.bootstrap_servers}/kafka"
