"""MirrorMaker 2 in its dedicated mode, as a process: from one server to another and back.

with MirrorMaker(tmp_path, {"a": servers, "b": others}) as mirror_maker:
    ...  # the topics from-a-… of a are on b as a.from-a-…
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from interop.support.kafka_jars import connect_command
from tests.ports import free_ports

_EACH_FLOW: Final = {
    "enabled": "true",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "refresh.topics.interval.seconds": "2",
    "refresh.groups.interval.seconds": "2",
    "sync.topic.configs.interval.seconds": "2",
    "sync.topic.acls.interval.seconds": "2",
    # Each batch is a point from which offsets can be translated.
    "offset.lag.max": "0",
}
_EACH_WORKER: Final = {
    "exactly.once.source.support": "enabled",
    "offset.flush.interval.ms": "500",
    # A worker that died is missed after the session's timeout, and its tasks are given away at once.
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "0",
    "plugin.discovery": "service_load",
}
"""Of the worker for each cluster: MirrorMaker 2 takes such settings only with the cluster's name."""
_ALL: Final = {
    "tasks.max": "1",
    "dedicated.mode.enable.internal.rest": "true",
    "replication.factor": "1",
    **{f"{topic}.topic.replication.factor": "1" for topic in ("checkpoints", "heartbeats", "offset-syncs")},
    **{f"{use}.storage.replication.factor": "1" for use in ("config", "offset", "status")},
    "offset.storage.partitions": "5",
    "plugin.discovery": "service_load",
    "worker.sync.timeout.ms": "20000",
    "consumer.reconnect.backoff.max.ms": "500",
    "producer.reconnect.backoff.max.ms": "500",
    "admin.reconnect.backoff.max.ms": "500",
}


class MirrorMaker:
    """The process, between two clusters.

    The topics `from-NAME-…` of each cluster are mirrored to the other.
    """

    def __init__(self, folder: Path, clusters: Mapping[str, str]) -> None:
        self._log = folder / "mirror_maker.out"
        self._properties = folder / "mirror_maker.properties"
        settings = {
            **_ALL,
            "clusters": ",".join(clusters),
            "listeners": f"http://127.0.0.1:{free_ports(1)[0]}",
        }
        for name, servers in clusters.items():
            settings[f"{name}.bootstrap.servers"] = servers
            settings.update({f"{name}.{key}": value for key, value in _EACH_WORKER.items()})
        for source, target in permutations(clusters, 2):
            flow = {**_EACH_FLOW, "topics": f"from-{source}-.*", "groups": f"from-{source}-.*"}
            settings.update({f"{source}->{target}.{key}": value for key, value in flow.items()})
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = connect_command("-Xmx384m", "-Dkafkapy.log.level=INFO")
        self._command = [*command, "org.apache.kafka.connect.mirror.MirrorMaker", str(self._properties)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        return self

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def printed(self) -> list[str]:
        return self._log.read_text(errors="replace").splitlines()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
