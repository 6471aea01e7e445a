"""The server under test.

`--against kafka` means 3.9.1, the last release that serves old clients.
"""

from __future__ import annotations

import pytest

from interop.conftest import ServerFactory
from interop.support.kafka_process import KafkaProcess

LAST_FOR_OLD_CLIENTS = "3.9.1"


@pytest.fixture(scope="session")
def new_server(request: pytest.FixtureRequest, new_server: ServerFactory) -> ServerFactory:
    if request.config.getoption("--against") == "kafka":
        return lambda folder: KafkaProcess(folder, release=LAST_FOR_OLD_CLIENTS, heap="512m")
    return new_server


@pytest.fixture
def offsets_of_v0(request: pytest.FixtureRequest) -> None:
    """Skips a test against what does not keep offsets in ZooKeeper, as OffsetCommit v0 wants."""
    if request.config.getoption("--against") == "kafka":
        pytest.skip("Apache Kafka without ZooKeeper refuses OffsetCommit v0")
