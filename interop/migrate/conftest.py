"""Skips the suite if Java or the jars are missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from interop.support.zookeeper_process import ZooKeeperProcess


@pytest.fixture(scope="session", autouse=True)
def _jars() -> None:
    with skipped_without_jars():
        for release in ("4.3.1", "3.9.1"):
            kafka_jars(release)


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[str]:
    """The address of a ZooKeeper, with a path of its own below it."""
    pytest.importorskip("kazoo")
    with ZooKeeperProcess(tmp_path / "zookeeper") as process:
        yield f"{process.bootstrap_servers}/kafka"
