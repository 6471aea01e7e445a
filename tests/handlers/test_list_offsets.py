"""ListOffsets and OffsetForLeaderEpoch: where records are, by time and by epoch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kafkapy
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.handlers.produce_client import batch, create_topic, produce
from tests.network.raw_client import RawClient

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6


@pytest.fixture
def client(kafka_broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(kafka_broker.bootstrap_servers) as connected:
        yield connected


def list_offset(
    client: RawClient, timestamp: int, *, version: int = 11, partition: int = 0, leader_epoch: int = -1
) -> ListOffsetsPartitionResponse:
    wanted = ListOffsetsPartition(
        partition_index=partition, timestamp=timestamp, current_leader_epoch=leader_epoch
    )
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[wanted])])
    (topic,) = client.ask(request, version).topics
    answer: ListOffsetsPartitionResponse = topic.partitions[0]
    return answer


@pytest.fixture
def filled(client: RawClient) -> RawClient:
    """Offsets 0 to 4 with the timestamps 1000, 3000, 2000, 2000, 4000."""
    create_topic(client, "orders")
    for timestamp in (1000, 3000, 2000, 2000, 4000):
        produce(client, "orders", batch(b"a", timestamp=timestamp))
    return client


@pytest.mark.parametrize(
    ("timestamp", "offset", "found"),
    [
        (LATEST, 5, -1),
        (EARLIEST, 0, -1),
        (EARLIEST_LOCAL, 0, -1),
        (MAX_TIMESTAMP, 4, 4000),
        (LATEST_TIERED, -1, -1),
        (PENDING_UPLOAD, -1, -1),
        (0, 0, 1000),
        (1000, 0, 1000),
        (1001, 1, 3000),
        (3000, 1, 3000),
        (3001, 4, 4000),
        (4001, -1, -1),
    ],
)
def test_an_offset_is_found_by_its_time(filled: RawClient, timestamp: int, offset: int, found: int) -> None:
    answer = list_offset(filled, timestamp)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, offset, found)


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_knows_the_ends(filled: RawClient, version: int) -> None:
    assert [list_offset(filled, which, version=version).offset for which in (EARLIEST, LATEST)] == [0, 5]


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_special_timestamps_are_refused_where_the_version_has_none(
    filled: RawClient, timestamp: int, since: int
) -> None:
    assert list_offset(filled, timestamp, version=since - 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert list_offset(filled, timestamp, version=since).error_code == 0


def test_deleted_records_are_not_found(filled: RawClient) -> None:
    partitions = [DeleteRecordsPartition(partition_index=0, offset=2)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="orders", partitions=partitions)])
    assert filled.ask(request, 2).topics[0].partitions[0].low_watermark == 2
    assert list_offset(filled, EARLIEST).offset == 2
    assert list_offset(filled, 0).offset == 2
    assert list_offset(filled, 2001).offset == 4


def test_an_empty_log_has_ends_and_nothing_else(client: RawClient) -> None:
    create_topic(client, "orders")
    wanted = (EARLIEST, LATEST, MAX_TIMESTAMP, 0)
    assert [list_offset(client, timestamp).offset for timestamp in wanted] == [0, 0, -1, -1]


def test_unknown_partitions_and_epochs_are_refused(filled: RawClient) -> None:
    assert list_offset(filled, LATEST, partition=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list_offset(filled, LATEST, leader_epoch=3).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert list_offset(filled, -9).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("epoch", "answer"), [(0, (0, 5)), (3, (-1, -1))])
def test_an_epoch_ends_where_the_next_begins(filled: RawClient, epoch: int, answer: tuple[int, int]) -> None:
    wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="orders", partitions=[wanted])])
    (found,) = filled.ask(request, 4).topics[0].partitions
    assert (found.leader_epoch, found.end_offset) == answer


def test_a_partition_that_is_named_twice_is_refused_each_time(filled: RawClient) -> None:
    twice = [ListOffsetsPartition(partition_index=index, timestamp=EARLIEST) for index in (0, 1, 0)]
    topics = [ListOffsetsTopic(name="orders", partitions=twice[:2]), ListOffsetsTopic(name="orders")]
    topics[1].partitions = twice[2:]
    answer = filled.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 11)
    assert [[each.error_code for each in topic.partitions] for topic in answer.topics] == [
        [ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.INVALID_REQUEST],
    ]
