"""The servers that are compared, by the name of their column."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException

from interop.support.cluster_processes import ClusterProcesses
from interop.support.kafka_process import PERFORMANCE_FLAGS, KafkaProcess
from interop.support.maven import JarsUnavailableError
from interop.support.zookeeper_process import ZooKeeperKafkaProcess, ZooKeeperProcess
from kafkapy.errors import UserError
from tests.servers.kafkapy_process import KafkapyProcess
from tests.servers.server_process import ServerProcess, ServerStartError

DESCRIPTIONS = {
    "kafkapy": "kafkapy, durability=os",
    "kafkapy-fsync": "kafkapy, durability=fsync",
    "kafka": "Apache Kafka 4.3.1 as it comes (page cache), KRaft, one node, -Xmx1g",
    "kafka-fsync": "Apache Kafka 4.3.1 with log.flush.interval.messages=1, otherwise the same",
}

CLUSTERS = {
    "kafkapy": "three brokers of kafkapy, durability=os",
    "kafkapy-fsync": "three brokers of kafkapy, durability=fsync, the default",
    "kafka": "three of Apache Kafka 3.9.1 as they come (page cache), in ZooKeeper mode, -Xmx1g each",
}

# One client machine opens 2,000 connections and a few more: kafkapy's own limit is 2,000 for one address.
_MANY_CONNECTIONS = {"max.connections.per.ip": "5000"}

_PROPERTIES: dict[str, dict[str, str]] = {
    "kafkapy": {"durability": "os", **_MANY_CONNECTIONS},
    "kafkapy-fsync": {"durability": "fsync", **_MANY_CONNECTIONS},
    "kafka": {},
    "kafka-fsync": {"log.flush.interval.messages": "1"},
}

FAILURES = (
    JarsUnavailableError,
    ServerStartError,
    UserError,
    RuntimeError,
    AssertionError,
    KafkaException,
    TimeoutError,
)
"""What a server, a client or a load raises when there is nothing to measure."""


def new_server(name: str, folder: Path, properties: Mapping[str, str] | None = None) -> ServerProcess:
    """The server of a column, not started, with `properties` over those of its column."""
    settings = {**_PROPERTIES[name], **(properties or {})}
    if name.startswith("kafkapy"):
        return KafkapyProcess(folder, properties=settings)
    return KafkaProcess(folder, properties=settings, jvm_flags=PERFORMANCE_FLAGS)


def new_cluster(name: str, folder: Path, zookeeper: ZooKeeperProcess) -> ClusterProcesses:
    """The three brokers of a column of CLUSTERS, not started."""
    if name.startswith("kafkapy"):
        return ClusterProcesses(folder, zookeeper, properties=_PROPERTIES[name])
    return ClusterProcesses(folder, zookeeper, properties=_PROPERTIES[name], make=_kafka_of_a_cluster)


def _kafka_of_a_cluster(folder: Path, properties: Mapping[str, str]) -> ServerProcess:
    connect = properties["zookeeper.connect"]
    return ZooKeeperKafkaProcess(
        folder, connect, properties=properties, heap="1g", jvm_flags=PERFORMANCE_FLAGS
    )
