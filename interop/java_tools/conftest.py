"""The tools come from Maven, into .cache/ of the checkout, on the first run."""

from __future__ import annotations

import pytest

from interop.support.kafka_jars import kafka_jars
from interop.support.maven import JarsUnavailableError


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    try:
        kafka_jars()
    except JarsUnavailableError as problem:
        pytest.skip(f"Apache Kafka's tools are not available: {problem}")
