"""Each test has a broker of its own, on which the shop has been open for a while."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from shop.intake import Intake

import kafkapy
from tests.seed import fill


@pytest.fixture(scope="session")
def kafka_broker_config() -> dict[str, object]:
    return {"auto.create.topics.enable": False}


@pytest.fixture(scope="session")
def kafka_broker_seed() -> Callable[[kafkapy.Broker], None]:
    return fill


@pytest.fixture
def servers(kafka_broker: kafkapy.Broker) -> str:
    return kafka_broker.bootstrap_servers


@pytest.fixture
async def intake(servers: str) -> AsyncIterator[Intake]:
    async with Intake(servers) as intake:
        yield intake
