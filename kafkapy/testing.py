"""The pytest plugin: a `kafka_broker` fixture for any test that talks to Kafka.

    def test_orders(kafka_broker):
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})

Each test has a broker of its own: starting one takes less than a tenth of a second, and no test sees
another's topics. `kafka_broker_scope = session` (or module, class, package) in pytest's configuration
shares one. For other settings override the fixture `kafka_broker_config`, which returns a dict of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, get_args

import pytest

if TYPE_CHECKING:
    from kafkapy.inprocess import Broker

Scope = Literal["session", "package", "module", "class", "function"]

_SETTING = "kafka_broker_scope"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(_SETTING, "scope of the kafka_broker fixture", default="function")


def pytest_configure(config: pytest.Config) -> None:
    scope = config.getini(_SETTING)
    if scope not in get_args(Scope):
        raise pytest.UsageError(f"{_SETTING}={scope}: expected {', '.join(get_args(Scope))}")


def _scope(fixture_name: str, config: pytest.Config) -> Scope:
    scope: Scope = config.getini(_SETTING)
    return scope


@pytest.fixture(scope="session")
def kafka_broker_config() -> Mapping[str, object]:
    """Settings of the `kafka_broker`, over those fit for tests; override it to change them."""
    return {}


@pytest.fixture(scope=_scope)
def kafka_broker(kafka_broker_config: Mapping[str, object]) -> Iterator[Broker]:
    """A running `kafkapy.Broker`."""
    from kafkapy.inprocess import Broker

    with Broker(config=kafka_broker_config) as broker:
        yield broker
