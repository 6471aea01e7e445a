"""Fetch: limits, waiting, errors, epochs, sessions."""

from __future__ import annotations

from typing import Any

import pytest

from interop.differential.batches import batch
from interop.differential.brokers import Broker, Differs, Pair
from interop.differential.data import fetch, fetch_request, produce
from kafkapy.protocol.compression import Compression
from kafkapy.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kafkapy.protocol.types import random_uuid

pytestmark = pytest.mark.jvm


def fill(broker: Broker, topic: str, *counts: int, partitions: int = 1, size: int = 100) -> None:
    """Batches of so many records in every partition."""
    for number, count in enumerate(counts):
        records = batch(count, size=size)
        produce(broker, f"{topic}: batch {number}", topic, *[records] * partitions)


def delete_records(broker: Broker, topic: str, before: int) -> None:
    partition = DeleteRecordsPartition(partition_index=0, offset=before)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=5000
    )
    broker.ask(f"{topic}: delete before {before}", request, 2)


def test_offsets_in_every_version(pair: Pair) -> None:
    def offsets(broker: Broker) -> None:
        topic = broker.topic()
        fill(broker, topic, 3, 1, 5)
        delete_records(broker, topic, 2)
        for version in broker.versions(FetchRequest):
            for isolation in (0, 1):
                for offset in (0, 1, 2, 3, 4, 8, 9, 10, 2**40):
                    label = f"v{version} isolation {isolation} offset {offset}"
                    fetch(broker, label, topic, offset, version=version, isolation_level=isolation)
            fetch(broker, f"v{version} offset -2", topic, -2, version=version)
            fetch(broker, f"v{version} isolation 7", topic, 3, version=version, isolation_level=7)

    pair.compare(offsets, Differs("* isolation 7", "*", "an unknown isolation level reads as uncommitted"))


def test_limits(pair: Pair) -> None:
    def limits(broker: Broker) -> None:
        topic = broker.topic(partitions=3)
        fill(broker, topic, 1, 5, 1, 1, partitions=3)
        for size in (0, 1, 200, 900, 1100, 1_000_000):
            fetch(broker, f"partition max bytes {size}", topic, 0, 0, 0, partition_max_bytes=size)
            fetch(broker, f"max bytes {size}", topic, 0, 0, 0, max_bytes=size)
            fetch(broker, f"max bytes {size}, v4", topic, 1, 0, 2, max_bytes=size, version=4)
            fetch(broker, f"both {size}", topic, 4, 8, 0, max_bytes=size, partition_max_bytes=size)
        fetch(broker, "negative partition max bytes", topic, 0, 0, 0, partition_max_bytes=-1)
        fetch(broker, "negative max bytes", topic, 0, 0, 0, max_bytes=-1)
        fetch(broker, "nothing there, min bytes 0", topic, 8, 8, 8, min_bytes=0, max_wait_ms=60_000)
        fetch(broker, "nothing there", topic, 8, 8, 8, max_wait_ms=50)
        fetch(broker, "too little there", topic, 7, 8, 8, min_bytes=10_000, max_wait_ms=50)
        fetch(broker, "an error does not wait", topic, 8, 99, 8, max_wait_ms=60_000)
        fetch(broker, "negative wait", topic, 8, max_wait_ms=-1)
        broker.ask("no topics", FetchRequest(topics=[], max_wait_ms=60_000, min_bytes=1), 12)

    pair.compare(limits, Differs("negative *max bytes", "*", "a negative limit counts as 0"))


def test_waiting(pair: Pair) -> None:
    def waiting(broker: Broker) -> None:
        topic = broker.topic(partitions=2)
        reader = broker.connect()
        settings: list[dict[str, Any]] = [{}, {"min_bytes": 300}, {"isolation_level": 1}]
        for number, fields in enumerate(settings):
            request = fetch_request(broker, topic, 2 * number, 2 * number, max_wait_ms=4_000, **fields)
            reader.begin(request, 12)
            produce(broker, f"more {number}", topic, batch(2, size=200), batch(2, size=200))
            answer = reader.quietly_end(request, 12)
            broker.note(f"woken {number}", {"woken": any(p.records for p in answer.responses[0].partitions)})

    pair.compare(waiting)


def test_unknown_places(pair: Pair) -> None:
    def unknown(broker: Broker) -> None:
        topic = broker.topic()
        fill(broker, topic, 1)
        for version in broker.versions(FetchRequest):
            fetch(broker, f"v{version} partition", topic, 0, 0, version=version)
            partition = FetchPartition(partition=0, partition_max_bytes=1000)
            named = {"topic_id": random_uuid()} if version >= 13 else {"topic": "nobody-made-this"}
            request = FetchRequest(topics=[FetchTopic(**named, partitions=[partition])], max_wait_ms=60_000)
            broker.ask(f"v{version} topic", request, version)
            partition.partition = -1
            broker.ask(f"v{version} topic and negative partition", request, version)

    pair.compare(unknown)


def test_zstd_for_old_consumers(pair: Pair) -> None:
    def zstd(broker: Broker) -> None:
        for wanted in ("producer", "zstd"):
            topic = broker.topic(compression_type=wanted)
            produce(broker, f"{wanted}: produce", topic, batch(compression=Compression.ZSTD))
            for version in broker.versions(FetchRequest):
                fetch(broker, f"{wanted}: v{version}", topic, 0, version=version)

    early = "a client before v10 may not know zstd: UNSUPPORTED_COMPRESSION_TYPE, as Apache Kafka 3.9 answers"
    pair.compare(zstd, *(Differs(f"zstd: v{version}", "*", early) for version in range(4, 10)))


def test_leader_epochs(pair: Pair) -> None:
    def epochs(broker: Broker) -> None:
        topic = broker.topic()
        fill(broker, topic, 3)
        for version in broker.versions(FetchRequest, 9):
            for epoch in (-2, -1, 0, 1, 99):
                fetch(broker, f"v{version} epoch {epoch}", topic, 0, version=version, leader_epoch=epoch)
        for version in broker.versions(FetchRequest, 12):
            for epoch in (-2, 0, 1, 99):
                for offset in (0, 3, 4):
                    label = f"v{version} fetched epoch {epoch} offset {offset}"
                    fetch(broker, label, topic, offset, version=version, last_fetched_epoch=epoch)

    pair.compare(epochs, Differs("v* epoch -2", "*", "only -1 stands for an epoch that is not known"))


def test_followers(pair: Pair) -> None:
    def followers(broker: Broker) -> None:
        topic = broker.topic()
        fill(broker, topic, 1)
        for version in broker.versions(FetchRequest):
            fields: dict[str, Any] = (
                {"replica_state": ReplicaState(replica_id=9)} if version >= 15 else {"replica_id": 9}
            )
            fetch(broker, f"v{version}", topic, 0, version=version, **fields)

    alone = "a broker alone names itself as the leader, with its address"
    pair.compare(followers, Differs("*", "node_endpoints*", alone))


@pytest.mark.parametrize("version", [7, 12, 13, 17])
def test_sessions(pair: Pair, version: int) -> None:
    def sessions(broker: Broker) -> None:
        topic = broker.topic(partitions=3)
        fill(broker, topic, 1, 1, partitions=3)

        def ask(label: str, *offsets: int, epoch: int, session: int = 0, **fields: Any) -> int:
            request = fetch_request(
                broker, topic, *offsets, version=version, session_id=session, session_epoch=epoch, **fields
            )
            answer = broker.ask(label, request, version)
            return int(answer.session_id)

        session = ask("open", 0, 0, 0, epoch=0)
        ask("nothing new", 2, 2, 2, epoch=1, session=session)
        ask("quiet", epoch=2, session=session)
        produce(broker, "more", topic, batch(1))
        ask("news", epoch=3, session=session)
        ask("news again", epoch=4, session=session)
        ask("one moves", 3, epoch=5, session=session)
        ask("wrong epoch", epoch=99, session=session)
        ask("old epoch", epoch=5, session=session)
        ask("unknown session", epoch=1, session=session ^ 1)
        ask("no such id", epoch=1, session=0)
        ask("negative epoch", epoch=-5, session=session)
        ask("the right one still", epoch=6, session=session)
        ask("an error", 99, epoch=7, session=session)
        ask("the error again", epoch=8, session=session)
        ask("mended", 3, epoch=9, session=session)
        ask("forget one", epoch=10, session=session, forget=[1])
        produce(broker, "more for all", topic, batch(1), batch(1), batch(1))
        ask("without the forgotten", epoch=11, session=session, max_bytes=1)
        ask("its turn", epoch=12, session=session, max_bytes=1)
        ask("asked for again", -1, 0, epoch=13, session=session)
        ask("unknown partition", -1, -1, -1, 0, epoch=14, session=session)
        delete_records(broker, topic, 1)
        ask("log start moved", 4, 3, 3, epoch=15, session=session)
        ask("forget all", epoch=16, session=session, forget=[0, 1, 2, 3])
        ask("session is gone", epoch=17, session=session)
        session = ask("second", 0, epoch=0)
        ask("full request in the session", 0, 0, epoch=0, session=session)
        ask("the old is closed", epoch=1, session=session)
        session = ask("third", 0, epoch=0)
        ask("close", 0, epoch=-1, session=session)
        ask("is closed", epoch=1, session=session)

    pair.compare(sessions)


def test_sessions_that_change_between_names_and_ids(pair: Pair) -> None:
    def change(broker: Broker) -> None:
        topic = broker.topic()
        for first, then in ((12, 13), (13, 12)):
            request = fetch_request(broker, topic, 0, version=first, session_epoch=0)
            session = broker.ask(f"v{first}", request, first).session_id
            for epoch in (9, 1):
                request = fetch_request(broker, topic, version=then, session_epoch=epoch, session_id=session)
                broker.ask(f"v{then} in it, epoch {epoch}", request, then)

    pair.compare(change)
