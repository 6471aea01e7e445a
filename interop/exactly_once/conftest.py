"""The stage of the tests: one broker, or a cluster for those that want it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from interop.exactly_once.stage import Stage, cluster, one_broker
from interop.support.kafka_process import KafkaProcess
from interop.support.maven import JarsUnavailableError
from tests.servers.kafkapy_process import KafkapyProcess

SEED: Final = int(os.environ.get("KAFKAPY_SEED", "2026"))


def _kafkapy(folder: Path, properties: Mapping[str, str]) -> KafkapyProcess:
    return KafkapyProcess(folder, properties=properties)


def _kafka(folder: Path, properties: Mapping[str, str]) -> KafkaProcess:
    return KafkaProcess(folder, properties=properties)


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """With `--against cluster` three brokers of this checkout."""
    against = request.config.getoption("--against")
    start = cluster if against == "cluster" else one_broker
    try:
        with start(tmp_path, _kafka if against == "kafka" else _kafkapy, seed=SEED) as started:
            yield started
    except JarsUnavailableError as problem:
        pytest.skip(str(problem))


@pytest.fixture
def one_broker_stage(request: pytest.FixtureRequest) -> Stage:
    if request.config.getoption("--against") == "cluster":
        pytest.skip("this is about one broker")
    stage: Stage = request.getfixturevalue("stage")
    return stage
