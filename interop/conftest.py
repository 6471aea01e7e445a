"""The broker under test, fresh topics, and the outcomes behind the report card.

`--against kafkapy` (the default) runs this checkout; `--against kafka` runs Apache Kafka itself: a test that
fails there is wrong. `--outcomes FILE` writes what each test showed, for scripts/report_card.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from interop.support.capabilities import CAPABILITIES
from interop.support.kafka_process import KafkaProcess
from interop.support.kafkapy_process import KafkapyProcess
from interop.support.maven import JarsUnavailableError
from interop.support.server_process import ServerProcess
from interop.support.waiting import wait_until

ServerFactory = Callable[[Path], ServerProcess]
MakeTopic = Callable[..., str]

_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("interop")
    group.addoption(
        "--against", choices=("kafkapy", "kafka"), default="kafkapy", help="the broker under test"
    )
    group.addoption("--outcomes", type=Path, help="write what each test showed to this JSON file")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "capability(name): what the test shows of the client, for the report card"
    )
    # What a client library does inside itself is not ours to mend.
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning")
    config.addinivalue_line("filterwarnings", "ignore::ResourceWarning")
    if (path := config.getoption("--outcomes")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(config.getoption("--against"), path))


class Outcomes:
    """Writes what the tests showed of each client, whichever of pytest-xdist's workers ran them."""

    def __init__(self, against: str, path: Path) -> None:
        self._against, self._path = against, path
        self._found: list[object] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._found += [value for name, value in report.user_properties if name == "outcome"]

    def pytest_sessionfinish(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps({"against": self._against, "outcomes": self._found}, indent=1))


@pytest.fixture(scope="session")
def new_server(request: pytest.FixtureRequest) -> ServerFactory:
    """Makes a broker of the kind under test in a folder, not started."""
    if request.config.getoption("--against") == "kafkapy":
        return lambda folder: KafkapyProcess(folder, properties={"group.initial.rebalance.delay.ms": "0"})
    return KafkaProcess


@pytest.fixture(scope="session")
def server(new_server: ServerFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The one broker that the tests share."""
    try:
        started = new_server(tmp_path_factory.mktemp("server")).start()
    except JarsUnavailableError as problem:
        pytest.skip(f"Apache Kafka is not available: {problem}")
    yield started
    alive, output = started.running, started.output()
    started.stop()
    assert alive, f"the broker ended during the tests:\n{output}"


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
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def make(partitions: int = 1, **configs: str) -> str:
        topic = f"{name}-{next(_numbers)}"
        # Retention would take records whose timestamps are old.
        settings = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in configs.items()}}
        admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(30)
        wait_until(lambda: topic in admin.list_topics(timeout=30).topics)
        return topic

    return make


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    marks = list(item.iter_markers("capability"))
    for mark in marks:
        assert mark.args[0] in CAPABILITIES, f"{item.nodeid}: {mark.args[0]!r} is no capability"
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
