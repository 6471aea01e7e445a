"""A cluster in which each broker is Apache Kafka 3.9.1 or kafkapy, on one ZooKeeper.

    with MixedCluster(tmp_path, zookeeper, "/mixed", {1: KAFKA, 2: KAFKA, 3: KAFKAPY}) as cluster:
        Producer({"bootstrap.servers": cluster.bootstrap_servers})
        cluster.replace(1, KAFKAPY)

A broker keeps its id, its address and its data directory when it is replaced by one of the other kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self, cast

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from interop.support.cluster_processes import SETTINGS
from interop.support.waiting import wait_until
from interop.support.zookeeper_process import ZooKeeperKafkaProcess, ZooKeeperProcess
from kafkapy.inter_broker.peers import PeerAddress, PeerError, TcpPeers
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition
from tests.ports import free_ports
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.server_process import ServerProcess

KAFKA: Final = "Apache Kafka"
KAFKAPY: Final = "kafkapy"

_SETTINGS: Final = {
    **SETTINGS,
    "replica.lag.time.max.ms": "4000",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.retry.backoff.ms": "500",
}
_HALF_CHANGED: Final = "Controller moved to another broker when moving some"
"""What Apache Kafka logs if it is deposed within a change (KAFKA-12315)."""

KNOWN_SECONDS: Final = 1.0
"""How old the controller's node is when everybody has heard of it."""

_KAFKA_SETTINGS: Final = {
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.initial.task.delay.ms": "500",
    "num.network.threads": "2",
}


class Shown(NamedTuple):
    """What one broker shows of the cluster.

    A client library may ask another broker than it was given.
    """

    controller_id: int
    topics: dict[str, dict[int, MetadataResponsePartition]]


class MixedCluster:
    """Brokers by their ids; `start` starts them in that order, so the first is the controller."""

    def __init__(
        self,
        folder: Path,
        zookeeper: ZooKeeperProcess,
        chroot: str,
        kinds: Mapping[int, str],
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """`properties` are settings of all brokers."""
        self._folder = folder
        self._properties = {
            **_SETTINGS,
            "zookeeper.connect": f"{zookeeper.bootstrap_servers}{chroot}",
            **(properties or {}),
        }
        self._addresses = {
            number: f"127.0.0.1:{port}" for number, port in zip(kinds, free_ports(len(kinds)), strict=True)
        }
        self.kinds = dict(kinds)
        self._brokers = {number: self._make(number, kind) for number, kind in kinds.items()}
        self._log_starts: dict[int, int] = {}
        """Where the output of the running process of each broker begins in its log."""
        self._tree = KazooClient(zookeeper.bootstrap_servers)
        self._chroot = chroot
        self._started = ExitStack()

    def _make(self, number: int, kind: str) -> ServerProcess:
        folder, address = self._folder / f"broker-{number}", self._addresses[number]
        settings = {**self._properties, "broker.id": str(number)}
        broker: ServerProcess
        if kind == KAFKA:
            listener = {f"{name}listeners": f"PLAINTEXT://{address}" for name in ("", "advertised.")}
            broker = ZooKeeperKafkaProcess(
                folder, "", properties={**settings, **_KAFKA_SETTINGS, **listener}, heap="256m"
            )
        else:
            broker = KafkapyProcess(folder, properties=settings)
        broker.bootstrap_servers = address
        return broker

    def replace(self, number: int, kind: str) -> None:
        """Stop a broker and start one of `kind` with its id, its address and its data.

        Apache Kafka does not start while a killed broker is still registered with its id.
        """
        self._brokers[number].stop()
        self.wait_until_gone(number)
        self.kinds[number] = kind
        self._brokers[number] = self._make(number, kind)
        self._start(number)

    def _start(self, number: int) -> None:
        path = self._brokers[number].log_path
        self._log_starts[number] = path.stat().st_size if path.exists() else 0
        self._brokers[number].start()

    def start_all(self, *, without: int | None = None) -> None:
        """Start the brokers that do not run, all or all but one."""
        for number, broker in self._brokers.items():
            if not broker.running and number != without:
                self.wait_until_gone(number)
                self._start(number)

    def wait_until_gone(self, number: int) -> None:
        """Wait until no broker is registered with this id."""
        wait_until(lambda: not self._is_registered(number), pause=0.01)

    def wait_until_back(self, number: int) -> None:
        """Wait until a broker is registered with this id."""
        wait_until(lambda: self._is_registered(number), timeout=60, pause=0.01)

    def _is_registered(self, number: int) -> bool:
        return self._tree.exists(f"{self._chroot}/brokers/ids/{number}") is not None

    def depose(self) -> None:
        """Delete the controller's node, so that a controller is elected.

        Apache Kafka's brokers may miss that a controller came and went at once, and then elect none.
        """
        path = f"{self._chroot}/controller"

        def is_known() -> bool:
            stat = self._tree.exists(path)
            return stat is not None and time.time() - stat.created >= KNOWN_SECONDS

        wait_until(is_known)
        with contextlib.suppress(NoNodeError):
            self._tree.delete(path)

    def half_changed(self) -> list[int]:
        """The Apache Kafkas that were deposed within a change.

        When such a broker is the controller again, it may tell the others nothing: it must be restarted.
        """
        return [
            number
            for number, broker in self._brokers.items()
            if self.kinds[number] == KAFKA
            and broker.running
            and _HALF_CHANGED.encode() in broker.log_path.read_bytes()[self._log_starts[number] :]
        ]

    def __getitem__(self, number: int) -> ServerProcess:
        return self._brokers[number]

    def __iter__(self) -> Iterator[ServerProcess]:
        return iter(self._brokers.values())

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self._addresses.values())

    def admin(self, number: int | None = None) -> AdminClient:
        """An admin client of the cluster, or of one broker."""
        servers = self.bootstrap_servers if number is None else self._addresses[number]
        return AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def metadata(self, number: int | None = None) -> Shown:
        """What a broker shows, if none is given any one that runs."""
        if number is None:
            number = next(each for each, broker in self._brokers.items() if broker.running)
        response = asyncio.run(self._ask(number, MetadataRequest(topics=None)))
        return Shown(
            response.controller_id,
            {
                str(topic.name): {partition.partition_index: partition for partition in topic.partitions}
                for topic in response.topics
            },
        )

    async def _ask(self, number: int, request: MetadataRequest) -> MetadataResponse:
        peer = TcpPeers(0).connect(PeerAddress(number, *self._brokers[number].address), "test")
        try:
            return cast("MetadataResponse", await peer.ask(request, seconds=10))
        finally:
            peer.close()

    def topic(self, name: str, number: int | None = None) -> dict[int, MetadataResponsePartition]:
        """The partitions of a topic, none if the broker does not know it."""
        return self.metadata(number).topics.get(name, {})

    def create(self, name: str, assignment: Sequence[Sequence[int]] = ((1, 2, 3),), **settings: str) -> None:
        """Create a topic with these replicas, and wait until all are in sync.

        The first replica is the preferred leader.
        """
        replicas = [list(each) for each in assignment]
        config = {key.replace("_", "."): value for key, value in settings.items()}
        admin = self.admin()
        new = NewTopic(name, len(replicas), replica_assignment=replicas, config=config)

        def is_created() -> bool:
            try:
                admin.create_topics([new])[name].result()
            except KafkaException as error:
                if "marked for deletion" in str(error):
                    return False  # an earlier topic of this name is not quite gone
                raise
            return True

        wait_until(is_created)
        self.wait_until_in_sync(name, len(replicas[0]))

    def in_sync(self, topic: str, partition: int = 0, *, number: int | None = None) -> tuple[int, list[int]]:
        """The leader and the in-sync replicas of a partition, if need be as one broker shows them."""
        found = self.topic(topic, number).get(partition)
        return (-1, []) if found is None else (found.leader_id, sorted(found.isr_nodes))

    def elect_preferred(self, topic: str, partitions: int = 1) -> None:
        """Let the preferred leaders lead, and wait until they do."""
        admin = self.admin()
        chosen = [TopicPartition(topic, index) for index in range(partitions)]
        admin.elect_leaders(ElectionType.PREFERRED, chosen).result(30)
        wait_until(
            lambda: all(each.leader_id == each.replica_nodes[0] for each in self.topic(topic).values())
        )

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of a partition's leader, -1 without one."""
        return self.in_sync(topic, partition)[0]

    def wait_for_controller(self, number: int) -> None:
        """Wait until every broker that runs names this controller."""
        running = [each for each, broker in self._brokers.items() if broker.running]
        wait_until(lambda: all(self.metadata(each).controller_id == number for each in running))

    def wait_until_in_sync(self, topic: str, replicas: int = 3, *, timeout: float = 60) -> None:
        """Wait until every running broker shows a leader and so many replicas in sync everywhere."""
        wait_until(lambda: self.is_in_sync(topic, replicas), timeout=timeout, ignoring=PeerError, pause=0.2)

    def is_in_sync(self, topic: str, replicas: int = 3) -> bool:
        """Whether every running broker shows a leader and so many replicas in sync everywhere."""
        running = [number for number, broker in self._brokers.items() if broker.running]
        shown = [self.topic(topic, number).values() for number in running]
        return all(
            partitions and all(each.leader_id >= 0 and len(each.isr_nodes) == replicas for each in partitions)
            for partitions in shown
        )

    def wait_for_in_sync(self, topic: str, replicas: Sequence[int], partition: int = 0) -> None:
        """Wait until the brokers of these replicas show that they alone are in sync.

        An Apache Kafka that has asked a frozen controller asks the next one 30 s later. It may have to: a
        kafkapy that becomes controller after an Apache Kafka takes brokers that have started meanwhile out
        of the in-sync replicas, and these come back.
        """
        for number in replicas:
            self._wait_for_in_sync(number, topic, sorted(replicas), partition)

    def _wait_for_in_sync(self, number: int, topic: str, wanted: list[int], partition: int) -> None:
        wait_until(lambda: self.in_sync(topic, partition, number=number)[1] == wanted, timeout=90)

    def children(self, path: str) -> list[str]:
        """The names of the nodes below a node of the cluster's tree."""
        return sorted(self._tree.get_children(f"{self._chroot}{path}"))

    def child_changes(self, path: str) -> int:
        """How often a node was made or deleted below a node of the cluster's tree."""
        _, stat = self._tree.get(f"{self._chroot}{path}")
        changes: int = stat.cversion
        return changes

    def node(self, path: str) -> bytes:
        """The content of a node of the cluster's tree."""
        data: bytes = self._tree.get(f"{self._chroot}{path}")[0]
        return data

    def log_bytes(self, number: int, topic: str, partition: int = 0) -> dict[str, bytes]:
        """The contents of the .log files of a replica, by file name."""
        folder = self._brokers[number].data / f"{topic}-{partition}"
        return {path.name: path.read_bytes().rstrip(b"\0") for path in sorted(folder.glob("*.log"))}

    def __enter__(self) -> Self:
        self._tree.start()
        self._started.callback(self._tree.close)
        self._started.callback(self._tree.stop)
        for number in self._brokers:
            self._start(number)
            self._started.callback(self._kill, number)
        return self

    def _kill(self, number: int) -> None:
        self._brokers[number].kill()

    def close(self) -> None:
        """Kill all brokers."""
        self._started.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
