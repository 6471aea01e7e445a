"""The requests to the transaction coordinator.

They come from transactional producers and from admin clients.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kafkapy
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkapy.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    TransactionState,
)
from kafkapy.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkapy.protocol.messages.list_transactions import ListTransactionsRequest
from tests.network.raw_client import RawClient, eventually

TRANSACTION = 1


@pytest.fixture
def client() -> Iterator[RawClient]:
    with kafkapy.Broker() as broker, RawClient(broker.bootstrap_servers) as connected:
        connected.ask(
            CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=2, replication_factor=1)]),
            5,
        )
        find = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["x"])
        (found,) = connected.ask(find, 4).coordinators
        assert found.error_code == ErrorCode.NONE
        assert f"{found.host}:{found.port}" == broker.bootstrap_servers
        yield connected


def init(client: RawClient, version: int = 5, **fields: object) -> InitProducerIdResponse:
    request = InitProducerIdRequest(
        **{"transactional_id": "x", "transaction_timeout_ms": 60_000, **fields}  # type: ignore[arg-type]
    )
    answer = client.ask(request, version)
    assert isinstance(answer, InitProducerIdResponse)
    return answer


def add(client: RawClient, producer_id: int, epoch: int, *partitions: int, version: int = 3) -> list[int]:
    """Add partitions of t; the error of each."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=list(partitions))],
    )
    (topic,) = client.ask(request, version).results_by_topic_v3_and_below
    assert [each.partition_index for each in topic.results_by_partition] == list(partitions)
    return [each.partition_error_code for each in topic.results_by_partition]


def end(
    client: RawClient, producer_id: int, epoch: int, *, commit: bool = True, version: int = 5
) -> EndTxnResponse:
    request = EndTxnRequest(
        transactional_id="x", producer_id=producer_id, producer_epoch=epoch, committed=commit
    )
    answer = client.ask(request, version)
    assert isinstance(answer, EndTxnResponse)
    return answer


def describe(client: RawClient, name: str = "x") -> TransactionState:
    (state,) = client.ask(DescribeTransactionsRequest(transactional_ids=[name]), 0).transaction_states
    assert isinstance(state, TransactionState)
    return state


@pytest.mark.parametrize(("version", "epoch"), [(0, 0), (4, 0), (5, 1)])
def test_a_transaction_is_begun_and_committed(client: RawClient, version: int, epoch: int) -> None:
    producer = init(client)
    assert (producer.error_code, producer.producer_epoch) == (ErrorCode.NONE, 0)
    assert add(client, producer.producer_id, 0, 0, 1) == [0, 0]
    state = describe(client)
    assert (state.transaction_state, state.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [("t", [0, 1])]
    answer = end(client, producer.producer_id, 0, version=version)
    assert answer.error_code == ErrorCode.NONE
    if version == 5:
        assert (answer.producer_id, answer.producer_epoch) == (producer.producer_id, 1)
    eventually(lambda: describe(client).transaction_state == "CompleteCommit", "the transaction ends")
    assert describe(client).producer_epoch == epoch
    assert describe(client).topics == []
    assert end(client, producer.producer_id, 0, version=version).error_code == ErrorCode.NONE
    aborted = end(client, producer.producer_id, 0, commit=False, version=version)
    assert aborted.error_code == ErrorCode.INVALID_TXN_STATE


def test_a_fenced_producer_hears_of_it_as_its_version_says(client: RawClient) -> None:
    producer_id = init(client).producer_id
    init(client)
    old, new = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED
    for version, error in ((1, old), (2, new)):
        assert add(client, producer_id, 0, 0, version=version) == [error]
        assert end(client, producer_id, 0, version=version).error_code == error
        request = AddOffsetsToTxnRequest(
            transactional_id="x", producer_id=producer_id, producer_epoch=0, group_id="g"
        )
        assert client.ask(request, version).error_code == error
    for version, error in ((3, old), (4, new)):
        answer = init(client, version, producer_id=producer_id, producer_epoch=9)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error, -1, -1)


def test_no_partition_is_added_if_one_does_not_exist(client: RawClient) -> None:
    producer_id = init(client).producer_id
    errors = add(client, producer_id, 0, 0, 2)
    assert errors == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert describe(client).transaction_state == "Empty"


def test_a_client_adds_no_partition_of_an_internal_topic(client: RawClient) -> None:
    producer_id = init(client).producer_id
    internal = ["__transaction_state", "__consumer_offsets", "__share_group_state"]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[
            *(AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in internal),
            AddPartitionsToTxnTopic(name="t", partitions=[0, 2]),
        ],
    )
    for version in (0, 3):
        answers = client.ask(request, version).results_by_topic_v3_and_below
        errors = {
            answer.name: [each.partition_error_code for each in answer.results_by_partition]
            for answer in answers
        }
        assert errors == {
            **{name: [ErrorCode.TOPIC_AUTHORIZATION_FAILED] for name in internal},
            "t": [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        }
    assert describe(client).transaction_state == "Empty"


def test_the_partition_of_a_groups_offsets_is_added(client: RawClient) -> None:
    producer_id = init(client).producer_id
    request = AddOffsetsToTxnRequest(
        transactional_id="x", producer_id=producer_id, producer_epoch=0, group_id="g"
    )
    assert client.ask(request, 4).error_code == ErrorCode.NONE
    (topic,) = describe(client).topics
    assert (topic.topic, topic.partitions) == ("__consumer_offsets", [0])


def test_brokers_add_and_verify_partitions_of_many_transactions_at_once(client: RawClient) -> None:
    producer_id = init(client).producer_id
    add(client, producer_id, 0, 0)

    def transaction(epoch: int, *, verify_only: bool, name: str = "x") -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=producer_id,
            producer_epoch=epoch,
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 1])],
        )

    request = AddPartitionsToTxnRequest(
        transactions=[
            transaction(0, verify_only=True),
            transaction(1, verify_only=True),
            transaction(0, verify_only=False),
            transaction(0, verify_only=True),
            transaction(0, verify_only=True, name="y"),
        ]
    )
    results = client.ask(request, 5).results_by_transaction
    assert [
        [each.partition_error_code for each in result.topic_results[0].results_by_partition]
        for result in results
    ] == [
        [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE],
        [ErrorCode.PRODUCER_FENCED] * 2,
        [ErrorCode.NONE] * 2,
        [ErrorCode.NONE] * 2,
        [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2,
    ]
    assert [each.partitions for each in describe(client).topics] == [[0, 1]]


def test_wrong_requests_are_refused(client: RawClient) -> None:
    assert init(client, transactional_id="").error_code == ErrorCode.INVALID_REQUEST
    assert init(client, producer_id=1).error_code == ErrorCode.INVALID_REQUEST
    assert init(client, producer_epoch=1).error_code == ErrorCode.INVALID_REQUEST
    too_long = init(client, transaction_timeout_ms=900_001)
    assert too_long.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert describe(client, "nobody").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert describe(client, "").error_code == ErrorCode.INVALID_REQUEST


def test_transactions_are_listed_by_what_they_are(client: RawClient) -> None:
    producer_id = init(client).producer_id
    other_id = init(client, transactional_id="y").producer_id
    add(client, producer_id, 0, 0)

    def listed(version: int = 1, **filters: object) -> list[str]:
        request = ListTransactionsRequest(**filters)  # type: ignore[arg-type]
        return sorted(each.transactional_id for each in client.ask(request, version).transaction_states)

    assert listed() == ["x", "y"]
    assert listed(state_filters=["Ongoing", "PrepareCommit"]) == ["x"]
    assert listed(producer_id_filters=[other_id, 5]) == ["y"]
    assert listed(duration_filter=3_600_000, state_filters=["Ongoing"]) == []
    assert listed(2, transactional_id_pattern="[xz]") == ["x"]
    assert listed(2, transactional_id_pattern="") == ["x", "y"]
    refused = client.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    answer = client.ask(ListTransactionsRequest(state_filters=["ongoing", "Empty"]), 0)
    assert answer.unknown_state_filters == ["ongoing"]
    assert [(each.transactional_id, each.transaction_state) for each in answer.transaction_states] == [
        ("y", "Empty")
    ]


def test_version_2_of_transactions_is_announced(client: RawClient) -> None:
    answer = client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    assert ("transaction.version", 2) in {
        (each.name, each.max_version_level) for each in answer.finalized_features
    }
