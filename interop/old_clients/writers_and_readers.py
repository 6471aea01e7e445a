"""Clients of every age, each with the message format that it writes and reads.

Magic 0 has no timestamps, magic 1 has, magic 2 has headers too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from interop.confluent_kafka import client as librdkafka
from interop.kafka_python import client as kafka_python
from interop.old_clients import java_clients
from interop.support.records import Received, Record

OLD_LIBRDKAFKA = {"api_version_request": "false"}
"""Without asking the broker for its versions, librdkafka goes by broker.version.fallback."""

Produce = Callable[[str, str, Sequence[Record], str], None]
"""Send records with a codec to partition 0 of a topic."""
Consume = Callable[[str, str, int], list[Received]]
"""The first so many records of partition 0 of a topic."""


class Client(NamedTuple):
    name: str
    magic: int
    produce: Produce
    consume: Consume


def comparable(received: Received, magic: int) -> Received:
    """What a reader of this format can tell of a record."""
    record = received.record
    if magic < 2:
        record = record._replace(headers=())
    if magic < 1:
        record = record._replace(timestamp=-1)
    return received._replace(record=record)


def kafka_python_of(version: tuple[int, ...]) -> Client:
    magic = 0 if version < (0, 10) else 1 if version < (0, 11) else 2
    config: dict[str, Any] = {"api_version": version}

    def produce(bootstrap_servers: str, topic: str, records: Sequence[Record], codec: str) -> None:
        compression = None if codec == "none" else codec
        kafka_python.produce(
            bootstrap_servers,
            topic,
            records,
            partition=0,
            linger_ms=20,
            compression_type=compression,
            **config,
        )

    def consume(bootstrap_servers: str, topic: str, count: int) -> list[Received]:
        return kafka_python.consume(bootstrap_servers, topic, count, **config)

    return Client(f"kafka-python {'.'.join(map(str, version))}", magic, produce, consume)


def librdkafka_of(fallback: str | None) -> Client:
    """librdkafka as it talks to a broker of this version; None: as it talks to this one."""
    config: dict[str, Any] = (
        {} if fallback is None else {**OLD_LIBRDKAFKA, "broker_version_fallback": fallback}
    )
    # From 0.10 on it asks the broker all the same, and uses what it has.
    magic = 0 if fallback in ("0.8.2.1", "0.9.0") else 2

    def produce(bootstrap_servers: str, topic: str, records: Sequence[Record], codec: str) -> None:
        librdkafka.produce(
            bootstrap_servers, topic, records, partition=0, linger_ms=20, compression_codec=codec, **config
        )

    consume = partial(librdkafka.consume, **config)
    return Client(f"librdkafka for {fallback or 'any'}", magic, produce, consume)


def java_of(release: str) -> Client:
    magic = java_clients.RELEASES.index(release)

    def produce(bootstrap_servers: str, topic: str, records: Sequence[Record], codec: str) -> None:
        java_clients.produce(release, bootstrap_servers, topic, records, codec=codec)

    return Client(f"Java {release}", min(magic, 2), produce, partial(java_clients.consume, release))
