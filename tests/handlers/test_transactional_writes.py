"""What producers write in transactions, and how markers end them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kafkapy
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkapy.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkapy.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kafkapy.protocol.messages.end_txn import EndTxnRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkapy.protocol.messages.produce import PartitionProduceResponse
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafkapy.protocol.special_timestamps import LATEST
from tests.groups.consumer import consumer_world
from tests.groups.streams import streams_world
from tests.handlers.group_client import find_coordinator
from tests.handlers.produce_client import batch, create_topic, produce_request
from tests.network.raw_client import RawClient, eventually

TRANSACTION = 1
READ_COMMITTED = 1


@pytest.fixture
def client(kafka_broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(kafka_broker.bootstrap_servers) as connected:
        find_coordinator(connected, "g")
        connected.ask(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["x"]), 4)
        create_topic(connected, "t", 2)
        yield connected


class Transaction:
    """A transactional producer."""

    def __init__(self, client: RawClient, version: int = 11) -> None:
        """`version` is that of its Produce requests."""
        self.client = client
        self.version = version
        eventually(self._begin, "the transaction before is aborted")

    def _begin(self) -> bool:
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        answer = self.client.ask(request, 5)
        assert answer.error_code in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return bool(answer.error_code == ErrorCode.NONE)

    def add(self, *partitions: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=list(partitions))],
        )
        (topic,) = self.client.ask(request, 3).results_by_topic_v3_and_below
        assert [each.partition_error_code for each in topic.results_by_partition] == [0] * len(partitions)

    def batch(self, sequence: int, value: bytes = b"v", **options: int) -> bytes:
        producer = {"producer_id": self.producer_id, "producer_epoch": self.epoch, **options}
        return batch(value, base_sequence=sequence, transactional=True, **producer)

    def send(self, *batches: bytes | None) -> list[PartitionProduceResponse]:
        request = produce_request("t", *batches)
        request.transactional_id = "x"
        return list(self.client.ask(request, self.version).responses[0].partition_responses)

    def write(self, sequence: int, value: bytes = b"v") -> ErrorCode:
        (answer,) = self.send(self.batch(sequence, value))
        return ErrorCode(answer.error_code)

    def end(self, *, commit: bool, version: int = 4) -> None:
        request = EndTxnRequest(
            transactional_id="x", producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )
        answer = self.client.ask(request, version)
        assert answer.error_code == ErrorCode.NONE
        if version >= 5:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def commit_offset(self, offset: int, version: int, *, group: str = "g", **member: Any) -> ErrorCode:
        request = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=group,
            **member,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="t",
                    partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)],
                )
            ],
        )
        (topic,) = self.client.ask(request, version).topics
        return ErrorCode(topic.partitions[0].error_code)


def end_offset(client: RawClient, partition: int = 0) -> int:
    """The last stable offset."""
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=READ_COMMITTED,
        topics=[
            ListOffsetsTopic(
                name="t", partitions=[ListOffsetsPartition(partition_index=partition, timestamp=LATEST)]
            )
        ],
    )
    (topic,) = client.ask(request, 2).topics
    return int(topic.partitions[0].offset)


def settled(client: RawClient, offset: int, partition: int = 0) -> None:
    eventually(lambda: end_offset(client, partition) == offset, f"the last stable offset is {offset}")


def fetched_offset(client: RawClient, *, require_stable: bool, partition: int | None = 0) -> tuple[int, int]:
    """The error and offset of the group's partition; None for all partitions."""
    topics = (
        None if partition is None else [OffsetFetchRequestTopics(name="t", partition_indexes=[partition])]
    )
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)], require_stable=require_stable
    )
    (group,) = client.ask(request, 8).groups
    found = group.topics[0].partitions[0]
    return found.error_code, found.committed_offset


@pytest.mark.parametrize(
    ("version", "error"), [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_a_partition_that_is_not_part_of_the_transaction_takes_no_batch(
    client: RawClient, version: int, error: ErrorCode
) -> None:
    transaction = Transaction(client, version)
    transaction.add(1)
    assert [each.error_code for each in transaction.send(transaction.batch(0), transaction.batch(0))] == [
        error,
        ErrorCode.NONE,
    ]
    transaction.add(0)
    assert transaction.write(0) is ErrorCode.NONE
    transaction.end(commit=True)
    settled(client, 2)
    settled(client, 2, partition=1)


def test_version_12_adds_the_partition(client: RawClient) -> None:
    transaction = Transaction(client, 12)
    assert [each.error_code for each in transaction.send(transaction.batch(0), transaction.batch(0))] == [
        0,
        0,
    ]
    assert transaction.write(1) is ErrorCode.NONE
    assert end_offset(client) == 0, "the transaction is open"
    transaction.end(commit=True, version=5)
    settled(client, 3)
    for _ in range(3):  # each at once after the end of the one before
        assert transaction.write(0) is ErrorCode.NONE
        transaction.end(commit=False, version=5)
    settled(client, 9)
    assert transaction.write(1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("commit", [True, False])
def test_a_batch_that_comes_after_the_end_begins_no_transaction(client: RawClient, commit: bool) -> None:
    transaction = Transaction(client)
    transaction.add(0)
    assert transaction.write(0) is ErrorCode.NONE
    transaction.end(commit=commit)
    settled(client, 2)
    assert transaction.write(1) is ErrorCode.TRANSACTION_ABORTABLE
    assert end_offset(client) == 2
    transaction.add(1)
    assert transaction.write(1) is ErrorCode.TRANSACTION_ABORTABLE, "the next one has another partition"


def test_a_producer_of_an_old_epoch_is_fenced(client: RawClient) -> None:
    old = Transaction(client)
    old.add(0)
    Transaction(client)
    assert old.write(0) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_request_has_batches_of_one_producer(client: RawClient) -> None:
    transaction = Transaction(client)
    transaction.add(0, 1)
    other = transaction.batch(0, producer_id=transaction.producer_id + 1)
    answers = transaction.send(transaction.batch(0), other)
    assert [each.error_code for each in answers] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert transaction.write(0) is ErrorCode.NONE


def test_offsets_are_unstable_until_their_transaction_ends(client: RawClient) -> None:
    transaction = Transaction(client, 12)
    assert transaction.commit_offset(5, 5) is ErrorCode.NONE
    unstable = (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert fetched_offset(client, require_stable=True) == unstable
    assert fetched_offset(client, require_stable=False) == (ErrorCode.NONE, -1)
    transaction.end(commit=True, version=5)
    eventually(lambda: fetched_offset(client, require_stable=True) == (0, 5), "the offset counts")
    assert transaction.commit_offset(9, 5) is ErrorCode.NONE
    assert fetched_offset(client, require_stable=True, partition=None) == unstable
    assert fetched_offset(client, require_stable=False) == (ErrorCode.NONE, 5)
    transaction.end(commit=False, version=5)
    eventually(lambda: fetched_offset(client, require_stable=True) == (0, 5), "the offset is dropped")


@pytest.mark.parametrize(
    ("version", "error"), [(0, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_offsets_before_version_5_need_their_group_in_the_transaction(
    client: RawClient, version: int, error: ErrorCode
) -> None:
    transaction = Transaction(client)
    transaction.add(0)
    assert transaction.commit_offset(5, version) is error
    request = AddOffsetsToTxnRequest(
        transactional_id="x",
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        group_id="g",
    )
    assert client.ask(request, 3).error_code == ErrorCode.NONE
    assert transaction.commit_offset(5, version) is ErrorCode.NONE
    transaction.end(commit=True)
    eventually(lambda: fetched_offset(client, require_stable=True) == (0, 5), "the offset counts")


def test_offsets_need_the_name_of_a_group(client: RawClient) -> None:
    transaction = Transaction(client, 12)
    for version in range(6):
        assert transaction.commit_offset(5, version, group="") is ErrorCode.INVALID_GROUP_ID


def hang(client: RawClient, producer_id: int, *, epoch: int = 3, partition: int = 0) -> None:
    """Begin a transaction that no coordinator has."""
    records = batch(b"v", base_sequence=0, transactional=True, producer_id=producer_id, producer_epoch=epoch)
    request = produce_request("t", records, partitions=[partition])
    request.transactional_id = "nobody's"
    (answer,) = client.ask(request, 9).responses[0].partition_responses
    assert answer.error_code == ErrorCode.NONE


def mark(client: RawClient, producer_id: int, epoch: int, *partitions: int, **fields: Any) -> list[ErrorCode]:
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=list(partitions))],
        **fields,
    )
    (result,) = client.ask(WriteTxnMarkersRequest(markers=[marker]), 1).markers
    return [ErrorCode(each.error_code) for each in result.topics[0].partitions]


@pytest.fixture
def unverified() -> Iterator[RawClient]:
    config = {"transaction.partition.verification.enable": False}
    with kafkapy.Broker(config=config) as broker, RawClient(broker.bootstrap_servers) as connected:
        connected.ask(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["x"]), 4)
        create_topic(connected, "t", 2)
        yield connected


def test_an_administrator_ends_a_transaction_that_hangs(unverified: RawClient) -> None:
    client, other = unverified, Transaction(unverified)
    other.add(1)  # another transaction is open
    hang(client, 777)
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 1, 9])])
    first, second, unknown = client.ask(request, 0).topics[0].partitions
    (producer,) = first.active_producers
    assert (producer.producer_id, producer.producer_epoch) == (777, 3)
    assert (producer.last_sequence, producer.current_txn_start_offset) == (0, 0)
    assert (second.error_code, second.active_producers) == (ErrorCode.NONE, [])
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert mark(client, 777, 2, 0, 9) == [ErrorCode.INVALID_PRODUCER_EPOCH, unknown_code]
    assert mark(client, 777, 3, 0, 9, coordinator_epoch=5) == [ErrorCode.NONE, unknown_code]
    assert end_offset(client) == 2
    assert client.ask(request, 0).topics[0].partitions[0].active_producers[0].current_txn_start_offset == -1


def test_no_client_ends_anything_else_by_a_marker(unverified: RawClient) -> None:
    client, transaction = unverified, Transaction(unverified)
    transaction.add(0)
    assert transaction.write(0) is ErrorCode.NONE
    hang(client, 777, partition=1)
    refused = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    for result in (True, False):
        known = mark(client, transaction.producer_id, transaction.epoch, 0, transaction_result=result)
        assert known == refused, "its coordinator has it"
        assert mark(client, 778, 0, 0, transaction_result=result) == refused, "there is none"
    assert mark(client, 777, 3, 1, transaction_result=True) == refused, "it is not known to be complete"
    assert end_offset(client) == 0
    transaction.end(commit=True)
    eventually(lambda: end_offset(client) == 2, "the coordinator ends it")
    assert mark(client, 777, 3, 1) == [ErrorCode.NONE]
    assert mark(client, 777, 3, 1) == refused, "it has ended"


def test_a_marker_of_an_earlier_coordinator_is_fenced(
    kafka_broker: kafkapy.Broker, client: RawClient
) -> None:
    transaction = Transaction(client)
    transaction.add(0)
    assert transaction.write(0) is ErrorCode.NONE

    def abort(coordinator_epoch: int) -> ErrorCode:
        marker = WritableTxnMarker(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
            coordinator_epoch=coordinator_epoch,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        (result,) = kafka_broker.call(
            lambda core: core.inter_broker.ask(core.node_id, request, seconds=60)
        ).markers
        return ErrorCode(result.topics[0].partitions[0].error_code)

    assert abort(5) is ErrorCode.NONE
    assert abort(4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


@pytest.mark.parametrize("kind", [consumer_world, streams_world], ids=["consumer", "streams"])
def test_a_member_with_another_epoch_commits_no_offsets_and_its_producer_can_abort(
    client: RawClient, kind: Any
) -> None:
    joined = client.ask(kind.join("m"), 1 if kind is consumer_world else 0)
    assert joined.error_code == ErrorCode.NONE
    transaction = Transaction(client)
    for version in (5, 3):  # the first one adds the group to the transaction
        for epoch, error in (
            (joined.member_epoch, ErrorCode.NONE),
            (joined.member_epoch + 1, ErrorCode.ILLEGAL_GENERATION),
            (joined.member_epoch - 1, ErrorCode.ILLEGAL_GENERATION),
        ):
            member = {"member_id": "m", "generation_id_or_member_epoch": epoch}
            committed = transaction.commit_offset(7, version, **member)
            assert committed is error, (version, epoch)
    transaction.end(commit=False)
