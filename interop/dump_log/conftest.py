"""Directories of Apache Kafka, made once for all tests here."""

from __future__ import annotations

import pytest

from interop.dump_log.kafka_directories import KafkaDirectories, make_kafka_directories
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import RELEASE, kafka_jars


@pytest.fixture(scope="session")
def kafka_4(tmp_path_factory: pytest.TempPathFactory) -> KafkaDirectories:
    """Of the release that everything here is compared with."""
    return _made(tmp_path_factory, RELEASE)


@pytest.fixture(scope="session")
def kafka_3(tmp_path_factory: pytest.TempPathFactory) -> KafkaDirectories:
    """Of the last release that could use ZooKeeper."""
    return _made(tmp_path_factory, "3.9.1")


def _made(tmp_path_factory: pytest.TempPathFactory, release: str) -> KafkaDirectories:
    with skipped_without_jars():
        kafka_jars(release)
    return make_kafka_directories(tmp_path_factory.mktemp(f"kafka-{release}"), release)
