"""The servers that are compared, by the name of their column."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from interop.support.kafka_process import PERFORMANCE_FLAGS, KafkaProcess
from interop.support.kafkapy_process import KafkapyProcess
from interop.support.maven import JarsUnavailableError
from interop.support.server_process import ServerProcess, ServerStartError
from kafkapy.errors import UserError

DESCRIPTIONS = {
    "kafkapy": "kafkapy, durability=os",
    "kafkapy-fsync": "kafkapy, durability=fsync",
    "kafka": "Apache Kafka 4.3.1 as it comes (page cache), KRaft, one node, -Xmx1g",
    "kafka-fsync": "Apache Kafka 4.3.1 with log.flush.interval.messages=1, otherwise the same",
}

# One client machine opens 2,000 connections and a few more: kafkapy's own limit is 2,000 for one address.
_MANY_CONNECTIONS = {"max.connections.per.ip": "5000"}

_PROPERTIES: dict[str, dict[str, str]] = {
    "kafkapy": {"durability": "os", **_MANY_CONNECTIONS},
    "kafkapy-fsync": {"durability": "fsync", **_MANY_CONNECTIONS},
    "kafka": {},
    "kafka-fsync": {"log.flush.interval.messages": "1"},
}

FAILURES = (JarsUnavailableError, ServerStartError, UserError, RuntimeError, AssertionError)
"""What a server, a client or a load raises when there is nothing to measure."""


def new_server(name: str, folder: Path, properties: Mapping[str, str] | None = None) -> ServerProcess:
    """The server of a column, not started, with `properties` over those of its column."""
    settings = {**_PROPERTIES[name], **(properties or {})}
    if name.startswith("kafkapy"):
        return KafkapyProcess(folder, properties=settings)
    return KafkaProcess(folder, properties=settings, jvm_flags=PERFORMANCE_FLAGS)
