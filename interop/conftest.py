"""Fixtures: the server under test, new topics, and the outcomes for the report card.

`--against kafkapy` (the default) runs a broker of this checkout, `--against cluster` three on a ZooKeeper,
and `--against kafka` Apache Kafka itself: a test that fails there is wrong. `--outcomes FILE` writes what
each test showed, for scripts/report_card.
"""

from __future__ import annotations

import itertools
import json
import re
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from interop.support.capabilities import CAPABILITIES
from interop.support.cluster_server import ClusterServer
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import kafka_jars
from interop.support.kafka_process import KafkaProcess
from interop.support.known_topics import create_topics
from interop.support.time_limit import TimeLimit
from interop.support.zookeeper_process import RELEASE, ZooKeeperProcess
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.server_process import ServerProcess

ServerFactory = Callable[[Path], ServerProcess]
MakeTopic = Callable[..., str]

_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("interop")
    group.addoption(
        "--against", choices=("kafkapy", "cluster", "kafka"), default="kafkapy", help="the server under test"
    )
    group.addoption("--outcomes", type=Path, help="write what each test showed to this JSON file")
    group.addoption("--begin-within", type=float, help="skip the tests that begin later, in seconds")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "capability(name): what the test shows of the client, for the report card"
    )
    # These warnings come from inside a client library.
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning")
    config.addinivalue_line("filterwarnings", "ignore::ResourceWarning")
    # What a client has left open may only be found after the last test.
    warnings.filterwarnings("ignore", category=ResourceWarning)
    # What has failed must pass, however late it is.
    if (seconds := config.getoption("--begin-within")) and not config.getoption("--last-failed"):
        config.pluginmanager.register(TimeLimit(seconds))
    if (path := config.getoption("--outcomes")) and not hasattr(config, "workerinput"):
        again = path.exists() and config.getoption("--last-failed")
        before = json.loads(path.read_text())["outcomes"] if again else []
        config.pluginmanager.register(Outcomes(config.getoption("--against"), path, before))


class Outcomes:
    """Writes the outcomes of the tests of each client, from all workers of pytest-xdist.

    If the tests that failed `before` run again, the others keep their outcomes.
    """

    def __init__(self, against: str, path: Path, before: Iterable[dict[str, str]]) -> None:
        self._against, self._path = against, path
        self._found: list[object] = [each for each in before if each["outcome"] != "failed"]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._found += [value for name, value in report.user_properties if name == "outcome"]

    def pytest_sessionfinish(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps({"against": self._against, "outcomes": self._found}, indent=1))


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """One ZooKeeper; each cluster has a tree of its own below a chroot."""
    with skipped_without_jars():
        kafka_jars(RELEASE)
    with ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper")) as process:
        yield process


@pytest.fixture(scope="session")
def new_server(request: pytest.FixtureRequest) -> ServerFactory:
    """Makes a server of the kind under test in a folder; it is not started."""
    kinds: dict[str, ServerFactory] = {
        "kafkapy": lambda folder: KafkapyProcess(
            folder, properties={"group.initial.rebalance.delay.ms": "0"}
        ),
        "cluster": ClusterServer,
        "kafka": KafkaProcess,
    }
    return kinds[request.config.getoption("--against")]


@pytest.fixture(scope="session")
def server(new_server: ServerFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The one server that the tests share."""
    with ExitStack() as stack:
        with skipped_without_jars():
            started = stack.enter_context(new_server(tmp_path_factory.mktemp("server")))
        yield started
        assert started.running, f"a broker ended during the tests:\n{started.output()}"


@pytest.fixture(scope="session")
def bootstrap_servers(server: ServerProcess) -> str:
    return server.bootstrap_servers


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for a topic or group that no other test uses."""
    readable = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name.removeprefix("test_")).strip("-")
    return f"{readable[:60]}-{next(_numbers)}"


@pytest.fixture
def make_topic(bootstrap_servers: str, name: str) -> MakeTopic:
    """`make_topic(partitions=1, retention_ms="1")` creates a topic and returns its name."""

    def make(partitions: int = 1, **configs: str) -> str:
        topic = f"{name}-{next(_numbers)}"
        # Retention would take records whose timestamps are old.
        settings = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in configs.items()}}
        create_topics(bootstrap_servers, (topic,), partitions, config=settings)
        return topic

    return make


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    marks = list(item.iter_markers("capability"))
    for mark in marks:
        assert mark.args[0] in CAPABILITIES, f"{item.nodeid}: {mark.args[0]!r} is not a capability"
    if marks and (report.when == "call" or (report.when == "setup" and not report.passed)):
        reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
        report.user_properties += [
            (
                "outcome",
                {
                    "client": Path(item.path).parent.name,
                    "capability": mark.args[0],
                    "test": item.name,
                    "outcome": report.outcome,
                    "reason": reason,
                },
            )
            for mark in marks
        ]
    return report
