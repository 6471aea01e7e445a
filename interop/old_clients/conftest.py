"""The broker under test; `--against kafka` is Apache Kafka 3.9.1 here, the last that serves old clients."""

from __future__ import annotations

import pytest

from interop.conftest import ServerFactory
from interop.support.kafka_process import KafkaProcess
from interop.support.kafkapy_process import KafkapyProcess

LAST_FOR_OLD_CLIENTS = "3.9.1"


@pytest.fixture(scope="session")
def new_server(request: pytest.FixtureRequest) -> ServerFactory:
    if request.config.getoption("--against") == "kafkapy":
        return lambda folder: KafkapyProcess(folder, properties={"group.initial.rebalance.delay.ms": "0"})
    return lambda folder: KafkaProcess(folder, release=LAST_FOR_OLD_CLIENTS, heap="512m")


@pytest.fixture
def offsets_of_v0(request: pytest.FixtureRequest) -> None:
    """Skips where OffsetCommit v0 is refused: Apache Kafka keeps its offsets in ZooKeeper, or not at all."""
    if request.config.getoption("--against") == "kafka":
        pytest.skip("Apache Kafka without ZooKeeper refuses OffsetCommit v0")
