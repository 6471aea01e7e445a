"""A raw connection to a broker of the test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from raw_client import RawClient

import kafkapy


@pytest.fixture
def client(kafka_broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(kafka_broker.bootstrap_servers) as connected:
        yield connected
