"""Fixtures: a broker of the test process, and its commands."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafkapy import Broker
from kafkapy.cli import main
from tests.refused_connections import refused_connections_closed

Run = Callable[..., Result]
RunJson = Callable[..., Any]


@pytest.fixture(autouse=True)
def _own_contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or changes the contexts of this machine's user."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("KAFKAPY_CONTEXT", raising=False)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One broker for the tests of a module; they use topics of their own."""
    with Broker() as started:
        yield started


@pytest.fixture
def kafkapy(broker: Broker) -> Run:
    """`kafkapy("topics", "list")` runs the command for the broker."""

    def run(*arguments: str, **options: Any) -> Result:
        """The result of a command, whose options name the broker."""
        return invoke(*arguments, "--bootstrap-server", broker.bootstrap_servers, **options)

    return run


@pytest.fixture
def kafkapy_json(kafkapy: Run) -> RunJson:
    """The same with `--format json`; returns what was printed, if the command succeeds."""

    def run(*arguments: str, **options: Any) -> Any:
        """The output of a command that succeeds."""
        result = kafkapy(*arguments, "--format", "json", **options)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore sockets of failed TLS handshakes, which kafka-python leaves to the collector."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="module", autouse=True)
def _sockets_are_collected() -> Iterator[None]:
    """Collect them before the tests of other folders, which do not ignore them."""
    yield
    gc.collect()


@pytest.fixture(scope="session", autouse=True)
def _refused_connections_are_closed() -> Iterator[None]:
    with refused_connections_closed():
        yield


def invoke(*arguments: str, **options: Any) -> Result:
    """Run `kafkapy` with these arguments."""
    result = CliRunner().invoke(main, list(arguments), prog_name="kafkapy", **options)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result
