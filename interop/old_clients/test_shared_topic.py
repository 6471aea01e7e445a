"""Clients from 0.8.2 to today write to one topic, and each of them reads all of it."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from interop.old_clients import java_clients
from interop.old_clients.writers_and_readers import (
    Client,
    comparable,
    java_of,
    kafka_python_of,
    librdkafka_of,
)
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.records import Received, sample_records, text_records

CODECS = ("none", "gzip", "snappy", "lz4")
"""Those that every client knows."""

CLIENTS = [
    *(kafka_python_of(version) for version in ((0, 8, 2), (0, 9), (0, 10, 0), (0, 10, 2), (0, 11), (4, 0))),
    *(librdkafka_of(fallback) for fallback in ("0.8.2.1", "0.9.0", "0.10.0", None)),
    *(java_of(release) for release in java_clients.RELEASES),
]


class Shared(NamedTuple):
    topic: str
    content: list[Received]
    """What is in it, as the newest clients see it."""


@pytest.fixture(scope="module")
def shared(bootstrap_servers: str) -> Shared:
    """A topic to which every client has written.

    Each used every codec, and every shape of record that it knows.
    """
    with skipped_without_jars():
        for release in java_clients.RELEASES:
            java_clients.jars(release)
    topic = "shared-by-all"
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    config = {"retention.ms": "-1"}  # It would take records whose timestamps are old.
    admin.create_topics([NewTopic(topic, 1, config=config)])[topic].result(30)
    content: list[Received] = []
    for number, client in enumerate(CLIENTS):
        for codec in CODECS:
            all_shapes = codec == CODECS[number % len(CODECS)]
            records = sample_records(rare_nulls=False) if all_shapes else text_records(40)
            if client.magic < 2:
                records = [record._replace(headers=()) for record in records]
            client.produce(bootstrap_servers, topic, records, codec)
            content += [
                comparable(Received(0, offset, record), client.magic)
                for offset, record in enumerate(records, len(content))
            ]
    return Shared(topic, content)


@pytest.mark.jvm
@pytest.mark.capability("records")
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_each_client_reads_what_all_have_written(
    bootstrap_servers: str, shared: Shared, client: Client
) -> None:
    received = client.consume(bootstrap_servers, shared.topic, len(shared.content))
    assert [got.offset for got in received] == list(range(len(shared.content)))
    for got, expected in zip(received, shared.content, strict=True):
        assert comparable(got, client.magic) == comparable(expected, client.magic), f"offset {got.offset}"
