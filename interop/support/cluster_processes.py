"""Brokers of one cluster as processes, on a ZooKeeper.

with ZooKeeperProcess(tmp_path / "zookeeper") as zookeeper, ClusterProcesses(tmp_path, zookeeper) as cluster:
    Producer({"bootstrap.servers": cluster.bootstrap_servers})
    cluster[2].kill()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka.admin import AdminClient, ClusterMetadata, TopicMetadata

from interop.support.waiting import wait_until
from interop.support.zookeeper_ensemble import ZooKeeperEnsemble
from interop.support.zookeeper_process import ZooKeeperProcess
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.server_process import ServerProcess

SETTINGS: Final = {
    "zookeeper.session.timeout.ms": "4000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}


MakeBroker = Callable[[Path, Mapping[str, str]], ServerProcess]
"""Makes a broker in a folder, with these properties."""


def kafkapy_broker(folder: Path, properties: Mapping[str, str]) -> ServerProcess:
    """A broker of this checkout."""
    return KafkapyProcess(folder, properties=properties)


class ClusterProcesses:
    """Brokers 1, 2, 3 … in folders of their own, by default kafkapy of this checkout."""

    def __init__(
        self,
        folder: Path,
        zookeeper: ZooKeeperProcess | ZooKeeperEnsemble,
        *,
        brokers: int = 3,
        chroot: str = "",
        properties: Mapping[str, str] | None = None,
        make: MakeBroker = kafkapy_broker,
    ) -> None:
        connect = f"{zookeeper.bootstrap_servers}{chroot}"
        self._brokers: dict[int, ServerProcess] = {}
        for number in range(1, brokers + 1):
            settings = {
                **SETTINGS,
                "broker.id": str(number),
                "zookeeper.connect": connect,
                **(properties or {}),
            }
            self._brokers[number] = make(folder / f"broker-{number}", settings)
        self._started = ExitStack()

    def __getitem__(self, number: int) -> ServerProcess:
        return self._brokers[number]

    def __iter__(self) -> Iterator[ServerProcess]:
        return iter(self._brokers.values())

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self)

    def metadata(self) -> ClusterMetadata:
        """What a client is told of the cluster."""
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0}).list_topics(
            timeout=10
        )

    def topic(self, name: str) -> TopicMetadata:
        return self.metadata().topics[name]

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of a partition's leader, -1 without one."""
        return int(self.topic(topic).partitions[partition].leader)

    def wait_until_in_sync(self, topic: str, replicas: int = 3, *, timeout: float = 30) -> None:
        """Wait until every partition has a leader and so many replicas in sync."""

        def is_in_sync() -> bool:
            partitions = self.topic(topic).partitions.values()
            return bool(partitions) and all(
                each.leader >= 0 and len(each.isrs) == replicas for each in partitions
            )

        wait_until(is_in_sync, timeout=timeout, ignoring=KeyError)

    def __enter__(self) -> Self:
        for broker in self:
            self._started.enter_context(broker)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._started.close()
