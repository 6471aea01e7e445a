"""The pytest plugin: the fixtures `kafka_broker` and `kafka_cluster` for tests.

    def test_orders(kafka_broker):
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})

Each test has a broker of its own, so that no test sees another's topics. A broker starts in less than a tenth
of a second. A `kafka_cluster` has three, which a test may stop, kill and start. To share them, set
`kafka_broker_scope = session` (or module, class, package) in pytest's configuration. To change the settings
of brokers, override the fixture `kafka_broker_config`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Literal, get_args

import pytest

if TYPE_CHECKING:
    from kafkapy.cluster import Cluster
    from kafkapy.inprocess import Broker

Scope = Literal["session", "package", "module", "class", "function"]

_SETTING = "kafka_broker_scope"


class _BrokerModules:
    """Finds the broker's modules before pytest does, which would rewrite their asserts.

    pytest rewrites all of a package with a plugin. For the broker's modules that takes two seconds, at the
    first broker of each run that has no cache of an earlier one, such as every run in CI.
    """

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith("kafkapy.") else None


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Let no module of the broker be rewritten, those that a conftest.py imports included."""
    sys.meta_path.insert(0, _BrokerModules)
    early_config.add_cleanup(lambda: sys.meta_path.remove(_BrokerModules))


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
    """Settings of the `kafka_broker`, which override its defaults for tests; empty by default."""
    return {}


@pytest.fixture(scope=_scope)
def kafka_cluster(kafka_broker_config: Mapping[str, object]) -> Iterator[Cluster]:
    """A running `kafkapy.Cluster` of three brokers, with the settings of `kafka_broker_config`."""
    from kafkapy.cluster import Cluster

    with Cluster(brokers=3, config=kafka_broker_config) as cluster:
        yield cluster


@pytest.fixture(scope=_scope)
def kafka_broker(kafka_broker_config: Mapping[str, object]) -> Iterator[Broker]:
    """A running `kafkapy.Broker`."""
    from kafkapy.inprocess import Broker

    with Broker(config=kafka_broker_config) as broker:
        yield broker
