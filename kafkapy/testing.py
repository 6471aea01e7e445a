"""The pytest plugin: `kafka_broker`, `kafka_cluster` and `schema_registry` for tests.

    @pytest.mark.kafka(topics={"orders": 6}, config={"message.max.bytes": 2_000_000})
    def test_orders(kafka_broker):
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})

Each test has a broker of its own, so that no test sees another's topics. A broker starts in less than a tenth
of a second. A `kafka_cluster` has three, which a test may stop, kill and start. To share them, set
`kafka_broker_scope = session` (or module, class, package) in pytest's configuration. To change the settings
of all brokers, override the fixture `kafka_broker_config`; the mark is for the tests below it. To give each
broker data, override `kafka_broker_seed`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import pytest

if TYPE_CHECKING:
    from kafkapy.cluster import Cluster
    from kafkapy.inprocess import AsyncBroker, Broker, ClockName
    from kafkapy.registry.server import SchemaRegistry
    from kafkapy.seeded import Seed, SeededBrokers

Scope = Literal["session", "package", "module", "class", "function"]

_SETTING = "kafka_broker_scope"
_STAND_IN = "kafka_stand_in"
_MARK = "kafka"
_ARGUMENTS = {"topics", "config", "clock"}
_NODES: dict[str, type[pytest.Collector]] = {
    "class": pytest.Class,
    "module": pytest.Module,
    "package": pytest.Package,
    "session": pytest.Session,
}
"""What shares a broker, by the scope."""

_TOLD = {
    "==": "the records are not the same",
    "in": "the record is not among the others",
    "not in": "the record is among the others",
}
"""What is wrong with records if a comparison fails."""


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
    if names := early_config.getini(_STAND_IN):
        from kafkapy import stand_ins

        for name in names:
            if name not in stand_ins.NAMES:
                raise pytest.UsageError(f"{_STAND_IN}={name}: expected {', '.join(stand_ins.NAMES)}")
            stand_ins.install(name, early_config)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(_SETTING, "scope of the kafka_broker fixture", default="function")
    parser.addini(_STAND_IN, "what starts brokers of kafkapy in place of containers", type="args", default=[])


def pytest_configure(config: pytest.Config) -> None:
    scope = config.getini(_SETTING)
    if scope not in get_args(Scope):
        raise pytest.UsageError(f"{_SETTING}={scope}: expected {', '.join(get_args(Scope))}")

    config.addinivalue_line(
        "markers",
        f"{_MARK}(topics={{name: partitions}}, config={{setting: value}}, clock): of a broker or cluster",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a mark that a shared broker cannot heed."""
    scope = item.config.getini(_SETTING)
    if scope == "function" or not {"kafka_broker", "kafka_cluster"} & {*getattr(item, "fixturenames", ())}:
        return
    sharing = item.getparent(_NODES[scope])
    heeded = () if sharing is None else tuple(sharing.iter_markers(_MARK))
    # Projects have marks of this name for purposes of their own.
    if any(mark not in heeded and mark.kwargs.keys() & _ARGUMENTS for mark in item.iter_markers(_MARK)):
        raise pytest.UsageError(
            f"{item.nodeid}: its broker is shared ({_SETTING}={scope}), so the mark {_MARK} of one test has"
            " no effect; mark what shares the broker"
        )


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Show records that are not as expected as tables."""
    shown = sys.modules.get("kafkapy.observe.record")
    if op not in _TOLD or shown is None or not (shown.are_records(left) or shown.are_records(right)):
        return None
    if not all(shown.are_records(side) or side == [] for side in (left, right)):
        return None
    tables = [shown.table(side).splitlines() for side in (left, right)]
    return [_TOLD[op], *tables[0], "", "but", *tables[1]]


class _Marked(NamedTuple):
    """What the marks of a node and those above it say of its broker; the nearest count."""

    topics: dict[str, int]
    config: dict[str, object]
    clock: ClockName


def _marked(node: pytest.Item | pytest.Collector) -> _Marked:
    topics: dict[str, int] = {}
    config: dict[str, object] = {}
    clock: ClockName = "real"
    for mark in reversed(list(node.iter_markers(_MARK))):
        named = (mark.kwargs.get("topics", {}), mark.kwargs.get("config", {}))
        is_named = not mark.args and mark.kwargs.keys() <= _ARGUMENTS
        if not is_named or not all(isinstance(each, Mapping) for each in named):
            raise pytest.UsageError(
                f"{node.nodeid}: the mark {_MARK} takes topics={{…}}, config={{…}} and clock=…"
            )
        topics |= mark.kwargs.get("topics", {})
        config |= mark.kwargs.get("config", {})
        clock = mark.kwargs.get("clock", clock)
    return _Marked(topics, config, clock)


def _scope(fixture_name: str, config: pytest.Config) -> Scope:
    scope: Scope = config.getini(_SETTING)
    return scope


@pytest.fixture(scope="session")
def kafka_broker_config() -> Mapping[str, object]:
    """Settings of the `kafka_broker`, which override its defaults for tests; empty by default."""
    return {}


@pytest.fixture(scope="session")
def kafka_broker_seed() -> Seed | None:
    """What each `kafka_broker` has at its start: None for nothing.

    Override it with a function that fills a broker, which is called once; or with the path of a snapshot.
    """
    return None


class _Seeded:
    """The brokers with seeded data, by what fills them and by their settings."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, str, ClockName], SeededBrokers] = {}
        self._last: SeededBrokers | None = None

    def brokers(self, seed: Seed, config: Mapping[str, object], clock: ClockName) -> SeededBrokers:
        """Those that have this data; only those that were asked for last have one ready."""
        from kafkapy.seeded import SeededBrokers

        key = (seed, repr(sorted(config.items())), clock)
        if key not in self._known:
            self._known[key] = SeededBrokers(seed, config, clock)
        found = self._known[key]
        if self._last not in (None, found):
            self._last.rest()
        self._last = found
        return found

    def close(self) -> None:
        for each in self._known.values():
            each.close()


@pytest.fixture(scope="session")
def _kafka_seeded() -> Iterator[_Seeded]:
    seeded = _Seeded()
    yield seeded
    seeded.close()


@pytest.fixture(scope=_scope)
def kafka_cluster(
    request: pytest.FixtureRequest, kafka_broker_config: Mapping[str, object]
) -> Iterator[Cluster]:
    """A running `kafkapy.Cluster` of three brokers, with what marks `kafka` say of it."""
    from kafkapy.cluster import Cluster

    topics, marked, clock = _marked(request.node)
    with Cluster(brokers=3, config={**kafka_broker_config, **marked}, clock=clock) as cluster:
        cluster.create_topics(topics)
        yield cluster


@pytest.fixture(scope=_scope)
def kafka_broker(
    request: pytest.FixtureRequest,
    kafka_broker_config: Mapping[str, object],
    kafka_broker_seed: Seed | None,
    _kafka_seeded: _Seeded,
) -> Iterator[Broker]:
    """A running `kafkapy.Broker` with its seed, and the topics and settings of marks `kafka`."""
    from kafkapy.inprocess import Broker

    topics, marked, clock = _marked(request.node)
    config = {**kafka_broker_config, **marked}
    if kafka_broker_seed is None:
        with Broker(config=config, clock=clock) as broker:
            broker.create_topics(topics)
            yield broker
        return
    seeded = _kafka_seeded.brokers(kafka_broker_seed, config, clock)
    broker = seeded.take()
    try:
        broker.create_topics(topics)
        yield broker
    finally:
        seeded.give_back(broker)


@pytest.fixture(scope=_scope)
def async_kafka_broker(kafka_broker: Broker) -> AsyncBroker:
    """The `kafka_broker`, with calls that a test awaits."""
    from kafkapy.inprocess import AsyncBroker

    return AsyncBroker.of(kafka_broker)


@pytest.fixture(scope=_scope)
def schema_registry(kafka_broker: Broker) -> Iterator[SchemaRegistry]:
    """A running `kafkapy.SchemaRegistry` beside the `kafka_broker`, which keeps its schemas."""
    from kafkapy.registry.server import SchemaRegistry

    with SchemaRegistry(kafka_broker.bootstrap_servers) as registry:
        yield registry
