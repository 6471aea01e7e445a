"""A worker of Kafka Connect, distributed, as a process with its REST interface.

    with Worker(tmp_path, servers, name="a", properties={}) as worker:
        worker.put("connectors/lines/config", {"connector.class": "FileStreamSource", ...})

Workers with the same `group.id` share connectors and tasks.
"""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from interop.support.kafka_jars import connect_command
from interop.support.waiting import wait_until
from tests.ports import free_ports

GROUP: Final = "connect-cluster"
INTERNAL_TOPICS: Final = {
    "config": "connect-configs",
    "offset": "connect-offsets",
    "status": "connect-status",
}

_PROPERTIES: Final = {
    "group.id": GROUP,
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    **{f"{use}.storage.topic": topic for use, topic in INTERNAL_TOPICS.items()},
    **{f"{use}.storage.replication.factor": "-1" for use in INTERNAL_TOPICS},
    "offset.storage.partitions": "5",
    "status.storage.partitions": "2",
    "exactly.once.source.support": "enabled",
    "offset.flush.interval.ms": "500",
    # A worker that died is missed after the session's timeout, and its tasks are given away at once.
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "0",
    "connector.client.config.override.policy": "All",
    "plugin.discovery": "service_load",
    # On a busy machine Connect's own limits pass before a broker is back.
    "worker.sync.timeout.ms": "20000",
    "task.shutdown.graceful.timeout.ms": "15000",
    # A broker that is back is soon found.
    "reconnect.backoff.max.ms": "500",
    "producer.reconnect.backoff.max.ms": "500",
    "consumer.reconnect.backoff.max.ms": "500",
}


class RestError(Exception):
    """What the worker answered instead: the status and the message."""


class Worker:
    """The process; start it again, and it has the same address."""

    def __init__(self, folder: Path, servers: str, *, name: str, **properties: str) -> None:
        port = free_ports(1)[0]
        self.id = f"127.0.0.1:{port}"
        """By which the status of a task names it."""
        self._log = folder / f"worker-{name}.out"
        self._properties = folder / f"worker-{name}.properties"
        settings = {
            **_PROPERTIES,
            "bootstrap.servers": servers,
            "listeners": f"http://{self.id}",
            "rest.advertised.host.name": "127.0.0.1",
            "client.id": f"worker-{name}",
            **{key.replace("_", "."): value for key, value in properties.items()},
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._command = [*connect_command("-Xmx256m"), "org.apache.kafka.connect.cli.ConnectDistributed"]
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        """Run, and wait for nothing."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [*self._command, str(self._properties)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def start(self) -> Self:
        """Run, and wait until it has joined its group."""
        self.launch()
        self.wait_until_ready()
        return self

    def wait_until_ready(self) -> None:
        wait_until(self._answers, timeout=90, pause=0.2)

    def _answers(self) -> bool:
        assert self.running, f"the worker ended:\n{self.output()}"
        try:
            # Only a member of the group that has read the configurations can list connectors.
            self.get("connectors")
        except (OSError, RestError):
            return False
        return True

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def output(self, last: int = 40) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-last:])

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def put(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return self.ask("PUT", path, body)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The answer to a REST request; raises RestError, or OSError if there is none."""
        request = urllib.request.Request(
            f"http://{self.id}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise RestError(error.code, error.read().decode(errors="replace")) from None
        return json.loads(text) if text else None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
