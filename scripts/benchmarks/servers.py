"""The servers that are compared, by the name of their column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from interop.support.kafka_process import PERFORMANCE_FLAGS, KafkaProcess
from interop.support.kafkapy_process import KafkapyProcess
from interop.support.server_process import ServerProcess

# One client machine opens 2,000 connections and a few more: kafkapy's own limit is 2,000 for one address.
_MANY_CONNECTIONS = {"max.connections.per.ip": "5000"}

SERVERS: dict[str, Callable[[Path], ServerProcess]] = {
    "kafkapy": lambda folder: KafkapyProcess(folder, properties={"durability": "os", **_MANY_CONNECTIONS}),
    "kafkapy-fsync": lambda folder: KafkapyProcess(
        folder, properties={"durability": "fsync", **_MANY_CONNECTIONS}
    ),
    "kafka": lambda folder: KafkaProcess(folder, jvm_flags=PERFORMANCE_FLAGS),
    "kafka-fsync": lambda folder: KafkaProcess(
        folder, properties={"log.flush.interval.messages": "1"}, jvm_flags=PERFORMANCE_FLAGS
    ),
}

DESCRIPTIONS = {
    "kafkapy": "kafkapy, durability=os",
    "kafkapy-fsync": "kafkapy, durability=fsync",
    "kafka": "Apache Kafka 4.3.1 as it comes (page cache), KRaft, one node, -Xmx1g",
    "kafka-fsync": "Apache Kafka 4.3.1 with log.flush.interval.messages=1, otherwise the same",
}
