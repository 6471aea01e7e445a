"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

import pytest

from interop.differential.batches import START, batch
from interop.differential.brokers import Broker, Differs, Pair
from interop.differential.data import produce
from kafkapy.protocol.compression import Compression
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

pytestmark = pytest.mark.jvm

SPECIAL = (-1, -2, -3, -4, -5, -6, -7, -100)


def list_offsets(
    broker: Broker, label: str, topic: str, version: int, *timestamps: int, epoch: int = -1, **fields: int
) -> None:
    """Ask for one timestamp at a time.

    A special one that a version does not have spoils the others.
    """
    for timestamp in timestamps:
        partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
        request = ListOffsetsRequest(
            topics=[ListOffsetsTopic(name=topic, partitions=[partition])],
            timeout_ms=5000,
            **{"replica_id": -1, **fields},
        )
        broker.ask(f"v{version} {label} {timestamp}", request, version)


def test_times_in_every_version(pair: Pair) -> None:
    def times(broker: Broker) -> None:
        topic, empty = broker.topic(), broker.topic()
        produce(broker, "produce 1", topic, batch(3, timestamp=START))
        produce(broker, "produce 2", topic, batch(3, timestamp=START + 500, compression=Compression.GZIP))
        produce(broker, "produce 3", topic, batch(3, timestamp=START + 100))
        around = (
            0,
            START - 1,
            START,
            START + 1,
            START + 3,
            START + 101,
            START + 501,
            START + 502,
            START + 503,
        )
        for version in broker.versions(ListOffsetsRequest):
            list_offsets(broker, "at", topic, version, *SPECIAL, *around)
            list_offsets(broker, "empty at", empty, version, *SPECIAL, 0, START)
            if version >= 2:
                list_offsets(broker, "committed at", topic, version, -1, -3, START, isolation_level=1)
                list_offsets(broker, "isolation 7 at", topic, version, -1, isolation_level=7)
            if version >= 4:
                for epoch in (0, 1, 99, -2):
                    list_offsets(broker, f"epoch {epoch} at", topic, version, -1, -2, START, epoch=epoch)
            list_offsets(broker, "unknown topic at", "nobody-made-this", version, -1, -2, START)

    pair.compare(times, Differs("* isolation 7 *", "*", "an unknown isolation level reads as uncommitted"))


def test_replicas_and_duplicates(pair: Pair) -> None:
    def odd(broker: Broker) -> None:
        topic = broker.topic()
        produce(broker, "produce", topic, batch())
        for version in broker.versions(ListOffsetsRequest):
            for replica in (-2, -3, 0, 1, 9):
                list_offsets(
                    broker, f"replica {replica} at", topic, version, -1, -2, START, replica_id=replica
                )
            partitions = [
                ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 0, 1, -1)
            ]
            topics = [ListOffsetsTopic(name=topic, partitions=partitions)]
            broker.ask(f"v{version} duplicates", ListOffsetsRequest(replica_id=-1, topics=topics), version)
            broker.ask(f"v{version} nothing", ListOffsetsRequest(replica_id=-1, topics=[]), version)

    pair.compare(odd, Differs("* duplicates", "*", "kafkapy answers a partition as often as it is asked for"))


def test_ends_of_epochs(pair: Pair) -> None:
    def ends(broker: Broker) -> None:
        topic, empty = broker.topic(), broker.topic()
        produce(broker, "produce", topic, batch())
        for version in broker.versions(OffsetForLeaderEpochRequest):
            for name in (topic, empty, "nobody-made-this"):
                for current in (-1, 0, 1) if version >= 2 else (-1,):
                    for epoch in (-2, -1, 0, 1, 99):
                        wanted = OffsetForLeaderPartition(
                            partition=0, current_leader_epoch=current, leader_epoch=epoch
                        )
                        request = OffsetForLeaderEpochRequest(
                            replica_id=-1, topics=[OffsetForLeaderTopic(topic=name, partitions=[wanted])]
                        )
                        broker.ask(f"v{version} {name} current {current} epoch {epoch}", request, version)

    pair.compare(ends)
