"""Two workers of Kafka Connect on a server of their own, which a test may kill."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.conftest import ServerFactory
from interop.connect.worker import RestError, Worker
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import connect_jars
from tests.servers.server_process import ServerProcess


class ConnectCluster:
    """A server and the workers that use it."""

    def __init__(self, server: ServerProcess, workers: list[Worker]) -> None:
        self.server, self.workers = server, workers

    @property
    def worker(self) -> Worker:
        """One that runs; any of them answers for all."""
        return next(worker for worker in self.workers if worker.running)

    def restart_failed(self, connector: str) -> None:
        """Restart what has failed of a connector, as its operator would.

        Connect does not do that itself.
        """
        with contextlib.suppress(RestError, OSError):
            status = self.worker.get(f"connectors/{connector}/status")
            if any(each["state"] == "FAILED" for each in (status["connector"], *status["tasks"])):
                self.worker.ask("POST", f"connectors/{connector}/restart?includeTasks=true&onlyFailed=true")

    def restart_server(self) -> None:
        self.server.kill()
        self.server.start()


@pytest.fixture(scope="package")
def connect(new_server: ServerFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectCluster]:
    folder: Path = tmp_path_factory.mktemp("connect")
    with skipped_without_jars():
        connect_jars()
        server = new_server(folder / "server")
    with server:
        workers = [Worker(folder, server.bootstrap_servers, name=name) for name in ("a", "b")]
        try:
            for worker in workers:
                worker.launch()
            for worker in workers:
                worker.wait_until_ready()
            yield ConnectCluster(server, workers)
            assert server.running, f"the server ended:\n{server.output()}"
        finally:
            for worker in workers:
                worker.kill()


@pytest.fixture(autouse=True)
def no_connector_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Delete what a test made, so that a failed one does not keep the workers busy."""
    yield
    if "connect" in request.fixturenames:
        cluster: ConnectCluster = request.getfixturevalue("connect")
        with contextlib.suppress(RestError, OSError):
            for connector in cluster.worker.get("connectors"):
                cluster.worker.ask("DELETE", f"connectors/{connector}")
