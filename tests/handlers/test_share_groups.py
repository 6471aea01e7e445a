"""Share groups over the wire.

Members are given records and acknowledge them, and others get the rest.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import kafkapy
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from kafkapy.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkapy.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkapy.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkapy.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from kafkapy.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kafkapy.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafkapy.protocol.types import uuid_to_text
from tests.handlers.produce_client import batch, create_topic, produce_request
from tests.handlers.share_client import ShareMember
from tests.network.raw_client import RawClient, eventually

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
GROUP_RESOURCE = 32
AT_ONCE = {"group.share.assignment.interval.ms": 0}
UNVERIFIED = {**AT_ONCE, "transaction.partition.verification.enable": False}
"""The broker takes transactions of which no coordinator knows."""


def configure(client: RawClient, group: str, settings: Mapping[str, str]) -> None:
    configs = [
        AlterableConfig(name=name, config_operation=0, value=value) for name, value in settings.items()
    ]
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=configs)
    (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == 0, answer


@pytest.fixture
def broker() -> Iterator[kafkapy.Broker]:
    with kafkapy.Broker(config=AT_ONCE) as started:
        yield started


@pytest.fixture
def client(broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as connected:
        connected.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        configure(connected, "g", {"share.auto.offset.reset": "earliest"})
        yield connected


@pytest.fixture
def other(broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as connected:
        yield connected


@pytest.fixture
def unverified_broker() -> Iterator[kafkapy.Broker]:
    with kafkapy.Broker(config=UNVERIFIED) as started:
        yield started


@pytest.fixture
def unverified(unverified_broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(unverified_broker.bootstrap_servers) as connected:
        connected.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        configure(connected, "g", {"share.auto.offset.reset": "earliest"})
        yield connected


@pytest.fixture
def member(unverified: RawClient) -> ShareMember:
    """A member of a group that reads what is committed."""
    configure(unverified, "g", {"share.isolation.level": "read_committed"})
    member = ShareMember(unverified, "t", create_topic(unverified, "t"))
    member.join()
    return member


class Transaction:
    """The transaction of a producer, which no coordinator knows."""

    def __init__(self, broker: kafkapy.Broker, client: RawClient, producer_id: int) -> None:
        self._broker = broker
        self._client = client
        self._producer_id = producer_id
        self._sequence = 0

    def write(self, *values: bytes) -> None:
        producer = {"producer_id": self._producer_id, "producer_epoch": 0, "transactional": True}
        request = produce_request("t", batch(*values, base_sequence=self._sequence, **producer))
        request.transactional_id = f"x{self._producer_id}"
        (answer,) = self._client.ask(request, 9).responses[0].partition_responses
        assert answer.error_code == 0, answer
        self._sequence += len(values)

    def end(self, *, commit: bool) -> None:
        topic = WritableTxnMarkerTopic(name="t", partition_indexes=[0])
        marker = WritableTxnMarker(
            producer_id=self._producer_id, producer_epoch=0, transaction_result=commit, topics=[topic]
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        answered = self._broker.call(lambda core: core.inter_broker.ask(core.node_id, request, seconds=60))
        (answer,) = answered.markers
        assert answer.topics[0].partitions[0].error_code == 0, answer


def produce(client: RawClient, topic: str, *values: bytes) -> None:
    answer = client.ask(produce_request(topic, batch(*values)), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % each for each in range(start, start + count)]


def start_offset(client: RawClient, group: str = "g") -> tuple[int, int]:
    """The start offset of the one share partition of a group, and its lag."""
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)]
    )
    (answer,) = client.ask(request, 1).groups
    assert answer.error_code == 0, answer
    ((found,),) = [topic.partitions for topic in answer.topics]
    return found.start_offset, found.lag


def test_partitions_of_no_group_are_refused(client: RawClient) -> None:
    create_topic(client, "t")
    topic = DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])
    group = DescribeShareGroupOffsetsRequestGroup(group_id="", topics=[topic])
    (answer,) = client.ask(DescribeShareGroupOffsetsRequest(groups=[group]), 1).groups
    assert (answer.error_code, answer.topics) == (ErrorCode.INVALID_GROUP_ID, [])


def test_records_for_no_group_are_refused(client: RawClient, caplog: pytest.LogCaptureFixture) -> None:
    topic = FetchTopic(topic_id=create_topic(client, "t"), partitions=[FetchPartition(partition_index=0)])
    request = ShareFetchRequest(
        group_id="", member_id="m", share_session_epoch=0, max_wait_ms=100, max_records=1, topics=[topic]
    )
    ((found,),) = [each.partitions for each in client.ask(request, 1).responses]
    assert found.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "cannot be loaded: INVALID_REQUEST" in caplog.text


def test_a_member_is_given_records_once_it_accepts_them(client: RawClient) -> None:
    member = ShareMember(client, "t", create_topic(client, "t"))
    assert member.join() == [0]
    produce(client, "t", *numbers(10))
    given = member.fetch()
    assert given.ranges == [(0, 9, 1)]
    assert given.values == numbers(10)
    assert member.acknowledge((0, 9, [ACCEPT])) == ErrorCode.NONE
    produce(client, "t", *numbers(5, start=10))
    assert member.fetch().ranges == [(10, 14, 1)]


def test_acknowledgements_come_with_the_next_fetch(client: RawClient) -> None:
    member = ShareMember(client, "t", create_topic(client, "t"))
    member.join()
    produce(client, "t", *numbers(4))
    assert member.fetch().ranges == [(0, 3, 1)]
    given = member.fetch((0, 3, [ACCEPT, RELEASE, REJECT, RELEASE]), max_wait_ms=0)
    assert given.acknowledge_error == ErrorCode.NONE
    ranges = given.ranges or member.fetch().ranges
    assert ranges == [(1, 1, 2), (3, 3, 2)], "what was released is delivered again"


def test_two_members_never_have_the_same_record(client: RawClient, other: RawClient) -> None:
    topic_id = create_topic(client, "t")
    one = ShareMember(client, "t", topic_id, member="one")
    two = ShareMember(other, "t", topic_id, member="two")
    one.join()
    two.join()
    for start in range(0, 20, 5):
        produce(client, "t", *numbers(5, start))
    first = one.fetch(max_records=5)
    second = two.fetch(max_records=5)
    assert first.ranges == [(0, 4, 1)]
    assert second.ranges == [(5, 9, 1)]
    assert two.acknowledge((0, 4, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
    assert one.acknowledge((0, 4, [ACCEPT])) == ErrorCode.NONE


def test_a_strict_limit_divides_a_batch(client: RawClient, other: RawClient) -> None:
    topic_id = create_topic(client, "t")
    one = ShareMember(client, "t", topic_id, member="one")
    two = ShareMember(other, "t", topic_id, member="two")
    one.join()
    two.join()
    produce(client, "t", *numbers(10))
    first = one.fetch(max_records=4, share_acquire_mode=1)
    assert (first.ranges, first.values) == ([(0, 3, 1)], numbers(4))
    second = two.fetch(max_records=4, share_acquire_mode=1)
    assert (second.ranges, second.values) == ([(4, 7, 1)], numbers(4, start=4))


def test_records_of_a_lost_connection_go_to_others(client: RawClient, broker: kafkapy.Broker) -> None:
    topic_id = create_topic(client, "t")
    produce(client, "t", *numbers(3))
    with RawClient(broker.bootstrap_servers) as lost:
        gone = ShareMember(lost, "t", topic_id, member="gone")
        gone.join()
        assert gone.fetch().ranges == [(0, 2, 1)]
        staying = ShareMember(client, "t", topic_id, member="stays")
        staying.join()
        assert staying.fetch(max_wait_ms=0).ranges == []
    assert staying.fetch().ranges == [(0, 2, 2)]


def test_a_session_that_ends_releases_what_was_not_acknowledged(client: RawClient) -> None:
    member = ShareMember(client, "t", create_topic(client, "t"))
    member.join()
    produce(client, "t", *numbers(6))
    assert member.fetch().ranges == [(0, 5, 1)]
    assert member.acknowledge((0, 2, [ACCEPT]), last=True) == ErrorCode.NONE
    member.session_epoch = 0
    assert member.fetch().ranges == [(3, 5, 2)]


def test_a_member_is_told_how_long_records_are_locked(client: RawClient) -> None:
    configure(client, "g", {"share.record.lock.duration.ms": "15000"})
    member = ShareMember(client, "t", create_topic(client, "t"))
    member.join()
    produce(client, "t", *numbers(1))
    response = member.ask_for(member.request())
    assert response.acquisition_lock_timeout_ms == 15_000


def test_a_record_is_archived_after_the_last_delivery(client: RawClient) -> None:
    configure(client, "g", {"share.delivery.count.limit": "2"})
    member = ShareMember(client, "t", create_topic(client, "t"))
    member.join()
    produce(client, "t", *numbers(1))
    assert member.fetch().ranges == [(0, 0, 1)]
    assert member.acknowledge((0, 0, [RELEASE])) == ErrorCode.NONE
    assert member.fetch().ranges == [(0, 0, 2)]
    assert member.acknowledge((0, 0, [RELEASE])) == ErrorCode.NONE
    produce(client, "t", *numbers(1, start=1))
    assert member.fetch().ranges == [(1, 1, 1)]


def test_locks_can_be_renewed(client: RawClient) -> None:
    member = ShareMember(client, "t", create_topic(client, "t"))
    member.join()
    produce(client, "t", *numbers(2))
    member.fetch()
    assert member.acknowledge((0, 1, [RENEW])) == ErrorCode.INVALID_REQUEST, "it must be announced"
    assert member.acknowledge((0, 1, [RENEW]), is_renew_ack=True) == ErrorCode.NONE
    nothing = {"max_records": 0, "max_bytes": 0, "min_bytes": 0, "max_wait_ms": 0}
    given = member.fetch((0, 1, [RENEW]), is_renew_ack=True, **nothing)
    assert given.acknowledge_error == ErrorCode.NONE
    configure(client, "g", {"share.renew.acknowledge.enable": "false"})
    refused = member.acknowledge((0, 1, [RENEW]), is_renew_ack=True)
    assert refused == ErrorCode.INVALID_RECORD_STATE
    request = member.request((0, 1, [RENEW]), is_renew_ack=True)
    assert client.ask(request, 2).error_code == ErrorCode.INVALID_REQUEST


def test_state_survives_a_restart(tmp_path: Path) -> None:
    with (
        kafkapy.Broker(config=AT_ONCE, data_dir=tmp_path) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        configure(client, "g", {"share.auto.offset.reset": "earliest"})
        topic_id = create_topic(client, "t")
        member = ShareMember(client, "t", topic_id)
        member.join()
        produce(client, "t", *numbers(10))
        assert member.fetch().ranges == [(0, 9, 1)]
        types = [ACCEPT, ACCEPT, RELEASE, REJECT, ACCEPT]
        assert member.acknowledge((0, 4, types)) == ErrorCode.NONE
        assert start_offset(client) == (0, 6), "the move of the start offset comes with the next write"
    with (
        kafkapy.Broker(config=AT_ONCE, data_dir=tmp_path) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        again = ShareMember(client, "t", topic_id)
        again.epoch = member.epoch
        eventually(lambda: again.heartbeat().error_code == 0, "the group is loaded")
        given = again.fetch()
        assert given.ranges[0] == (2, 2, 2), "what was released is known to have been delivered once"
        assert given.ranges[1:] == [(5, 9, 2)], "what was not acknowledged was released with the connection"
        assert given.values == [b"2", *numbers(5, start=5)]


def test_a_group_without_settings_begins_at_the_end(client: RawClient) -> None:
    topic_id = create_topic(client, "t")
    produce(client, "t", *numbers(3))
    member = ShareMember(client, "t", topic_id, group="late")
    member.join()
    assert member.fetch(max_wait_ms=100).ranges == []
    produce(client, "t", *numbers(1, start=3))
    assert member.fetch().ranges == [(3, 3, 1)]


def test_a_group_begins_with_the_records_of_the_last_hour(client: RawClient) -> None:
    topic_id = create_topic(client, "t")
    now_ms = int(time.time() * 1000)
    for minutes, value in ((120, b"old"), (70, b"older than an hour"), (30, b"recent"), (5, b"new")):
        written = batch(value, timestamp=now_ms - minutes * 60_000)
        (answer,) = client.ask(produce_request("t", written), 9).responses[0].partition_responses
        assert answer.error_code == 0

    def first(duration: str) -> list[tuple[int, int, int]]:
        group = duration.lower()
        configure(client, group, {"share.auto.offset.reset": f"by_duration:{duration}"})
        member = ShareMember(client, "t", topic_id, group=group)
        member.join()
        return member.fetch(max_wait_ms=100).ranges

    assert first("PT1H") == [(2, 3, 1)]
    assert first("PT1H30M") == [(1, 3, 1)]
    assert first("P1D") == [(0, 3, 1)]
    assert first("PT1M") == [], "there are none, and it begins at the end"
    produce(client, "t", b"newest")
    late = ShareMember(client, "t", topic_id, group="pt1m", member="late")
    late.join()
    assert late.fetch().ranges == [(4, 4, 1)]


def test_an_open_transaction_is_not_delivered_to_who_reads_committed(
    unverified_broker: kafkapy.Broker, unverified: RawClient, member: ShareMember
) -> None:
    produce(unverified, "t", b"before")
    transaction = Transaction(unverified_broker, unverified, 7)
    transaction.write(b"open", b"as well")
    produce(unverified, "t", b"after")
    assert member.fetch().ranges == [(0, 0, 1)]
    assert member.fetch(max_wait_ms=100).ranges == []
    transaction.end(commit=True)
    assert member.fetch().values == [b"open", b"as well", b"after"]


def test_an_aborted_transaction_is_not_delivered_to_who_reads_committed(
    unverified_broker: kafkapy.Broker, unverified: RawClient, member: ShareMember
) -> None:
    aborted, committed = (Transaction(unverified_broker, unverified, each) for each in (7, 8))
    aborted.write(b"aborted 0", b"aborted 1")
    committed.write(b"committed 2")
    produce(unverified, "t", b"plain 3")
    aborted.write(b"aborted 4")
    aborted.end(commit=False)  # at 5
    committed.write(b"committed 6")
    aborted.write(b"of the next transaction 7")
    committed.end(commit=True)  # at 8
    aborted.end(commit=True)  # at 9
    produce(unverified, "t", b"plain 10")
    values: list[bytes] = []
    while (given := member.fetch(max_wait_ms=100)).ranges:
        values += given.values
        for first, last, _ in given.ranges:
            assert {0, 1, 4}.isdisjoint(range(first, last + 1)), "it is not delivered"
            assert member.acknowledge((first, last, [ACCEPT])) == ErrorCode.NONE
    later = [b"committed 6", b"of the next transaction 7", b"plain 10"]
    assert values == [b"committed 2", b"plain 3", *later]
    assert start_offset(unverified)[1] == 0, "the aborted ones need no acknowledgement"


def test_what_was_given_back_is_checked_for_aborted_transactions_again(
    unverified_broker: kafkapy.Broker, unverified: RawClient, member: ShareMember
) -> None:
    configure(unverified, "g", {"share.isolation.level": "read_uncommitted"})
    transaction = Transaction(unverified_broker, unverified, 7)
    transaction.write(b"open")
    produce(unverified, "t", b"after")
    assert member.fetch().values == [b"open", b"after"]
    transaction.end(commit=False)
    configure(unverified, "g", {"share.isolation.level": "read_committed"})
    assert member.acknowledge((0, 1, [RELEASE])) == ErrorCode.NONE
    assert member.fetch().values == [b"after"]


def test_what_is_deleted_from_the_log_is_not_delivered(client: RawClient) -> None:
    member = ShareMember(client, "t", create_topic(client, "t"))
    member.join()
    produce(client, "t", *numbers(4))
    assert member.fetch().ranges == [(0, 3, 1)]
    produce(client, "t", *numbers(4, start=4))
    partition = DeleteRecordsPartition(partition_index=0, offset=6)
    topic = DeleteRecordsTopic(name="t", partitions=[partition])
    client.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=5000), 2)
    assert member.fetch().ranges == [(6, 7, 1)]
    assert member.acknowledge((0, 3, [ACCEPT])) == ErrorCode.NONE, "nobody needs it any more"


def test_sessions_are_checked(client: RawClient) -> None:
    member = ShareMember(client, "t", create_topic(client, "t"))
    member.session_epoch = 5
    assert client.ask(member.request(), 2).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert member.acknowledge((0, 0, [ACCEPT])) == ErrorCode.SHARE_SESSION_NOT_FOUND
    member.session_epoch = 0
    assert member.acknowledge((0, 0, [ACCEPT])) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert client.ask(member.request((0, 0, [ACCEPT])), 2).error_code == ErrorCode.INVALID_REQUEST
    member.join()
    member.fetch(max_wait_ms=0)
    member.session_epoch = 7
    assert client.ask(member.request(), 2).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    request = member.request()
    request.member_id = ""
    assert client.ask(request, 2).error_code == ErrorCode.INVALID_REQUEST


def test_no_more_members_than_allowed_have_a_session() -> None:
    limits = {"group.share.max.size": 10, "group.share.max.share.sessions": 10}
    with (
        kafkapy.Broker(config={**AT_ONCE, **limits}) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        topic_id = create_topic(client, "t")
        members = [ShareMember(client, "t", topic_id, member=f"m{number}") for number in range(11)]
        for member in members[:10]:
            member.fetch(max_wait_ms=0)
        late, request = members[10], members[10].request(max_wait_ms=200)
        before = time.monotonic()
        assert client.ask(request, 2).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
        waited = time.monotonic() - before  # the loop's clock counts whole milliseconds
        assert waited > 0.198, "a member that asks again at once would gain nothing"
        members[0].session_epoch = -1
        members[0].fetch(max_wait_ms=0)
        late.fetch(max_wait_ms=0)


def test_acknowledgements_that_make_no_sense_are_refused(client: RawClient) -> None:
    member = ShareMember(client, "t", create_topic(client, "t"))
    member.join()
    produce(client, "t", *numbers(4))
    member.fetch()
    for said, error in (
        ((2, 1, [ACCEPT]), ErrorCode.INVALID_REQUEST),
        ((0, 1, []), ErrorCode.INVALID_REQUEST),
        ((0, 3, [ACCEPT, ACCEPT]), ErrorCode.INVALID_REQUEST),
        ((0, 0, [9]), ErrorCode.INVALID_REQUEST),
        ((0, 9, [ACCEPT]), ErrorCode.INVALID_REQUEST),
        ((50, 60, [ACCEPT]), ErrorCode.INVALID_REQUEST),
    ):
        assert member.acknowledge(said) == error, said
    assert member.acknowledge((0, 3, [ACCEPT]), partition=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert member.acknowledge((0, 3, [ACCEPT])) == ErrorCode.NONE
    assert member.acknowledge((0, 3, [ACCEPT])) == ErrorCode.NONE, "they are below the start offset"


def alter_start(client: RawClient, offset: int, topic: str = "t", partition: int = 0) -> tuple[int, int]:
    """AlterShareGroupOffsets; the errors of the group and of the partition."""
    wanted = AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
    topics = [AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[wanted])]
    answer = client.ask(AlterShareGroupOffsetsRequest(group_id="g", topics=topics), 0)
    return answer.error_code, answer.responses[0].partitions[0].error_code if answer.responses else 0


def test_an_operator_moves_the_start_offset_of_an_empty_group(client: RawClient) -> None:
    topic_id = create_topic(client, "t")
    member = ShareMember(client, "t", topic_id)
    member.join()
    produce(client, "t", *numbers(10))
    member.fetch()
    member.acknowledge((0, 9, [ACCEPT]), last=True)

    assert alter_start(client, 4) == (ErrorCode.NON_EMPTY_GROUP, 0)
    assert member.leave() == ErrorCode.NONE
    assert alter_start(client, 4) == (ErrorCode.NONE, ErrorCode.NONE)
    assert alter_start(client, 4, topic="unknown") == (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert alter_start(client, 4, partition=3) == (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert start_offset(client) == (4, 6)
    member.epoch = member.session_epoch = 0
    member.join()
    assert member.fetch().ranges == [(4, 9, 1)]


@pytest.mark.parametrize("offset", [-(2**63), 2**63 - 1])
def test_a_lag_that_no_answer_can_hold_is_the_largest(client: RawClient, offset: int) -> None:
    create_topic(client, "t")
    produce(client, "t", *numbers(10))
    assert alter_start(client, offset) == (ErrorCode.NONE, ErrorCode.NONE)
    assert start_offset(client) == (offset, min(10 - offset, 2**63 - 1))


def test_an_operator_deletes_the_offsets_of_a_topic(client: RawClient) -> None:
    topic_id = create_topic(client, "t")
    member = ShareMember(client, "t", topic_id)
    member.join()
    produce(client, "t", *numbers(3))
    member.fetch()

    def delete(topic: str) -> tuple[int, int]:
        topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic)]
        answer = client.ask(DeleteShareGroupOffsetsRequest(group_id="g", topics=topics), 0)
        return answer.error_code, answer.responses[0].error_code if answer.responses else 0

    assert delete("t") == (ErrorCode.NON_EMPTY_GROUP, 0)
    member.acknowledge((0, 2, [ACCEPT]), last=True)
    member.leave()
    assert delete("t") == (ErrorCode.NONE, ErrorCode.NONE)
    assert delete("t") == (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert delete("unknown") == (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    member.epoch = member.session_epoch = 0
    member.join()
    assert member.fetch().ranges == [(0, 2, 1)]


def test_a_group_is_listed_described_and_deleted(client: RawClient) -> None:
    topic_id = create_topic(client, "t")
    member = ShareMember(client, "t", topic_id)
    member.join()

    def listed(**filters: list[str]) -> list[tuple[str, str, str, str]]:
        found = client.ask(ListGroupsRequest(**filters), 5).groups
        return [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in found]

    assert listed(types_filter=["share"]) == [("g", "share", "Stable", "share")]
    assert listed(types_filter=["consumer"]) == []
    assert listed(states_filter=["Empty"]) == []
    (group,) = client.ask(ShareGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert (group.group_state, group.assignor_name) == ("Stable", "simple")
    ((described,),) = [group.members]
    assert (described.member_id, described.subscribed_topic_names) == ("m", ["t"])
    (assigned,) = described.assignment.topic_partitions
    assert (assigned.topic_name, assigned.partitions) == ("t", [0])
    (missing,) = client.ask(ShareGroupDescribeRequest(group_ids=["none"]), 1).groups
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND

    def delete() -> int:
        (result,) = client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
        return int(result.error_code)

    assert delete() == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    assert listed(states_filter=["Empty"]) == [("g", "share", "Empty", "share")]
    assert delete() == ErrorCode.NONE
    assert listed() == []
    assert delete() == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_topic_is_deleted_and_created_again(client: RawClient) -> None:
    topic_id = create_topic(client, "t")
    member = ShareMember(client, "t", topic_id)
    member.join()
    produce(client, "t", *numbers(3))
    assert member.fetch().ranges == [(0, 2, 1)]
    client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000), 6)
    assert member.fetch(max_wait_ms=0).error == ErrorCode.UNKNOWN_TOPIC_ID
    assert member.acknowledge((0, 2, [ACCEPT])) == ErrorCode.UNKNOWN_TOPIC_ID
    member.topic_id = create_topic(client, "t")
    produce(client, "t", *numbers(2))
    member.join()
    member.session_epoch = 0
    assert member.fetch().ranges == [(0, 1, 1)]


def test_the_coordinator_of_a_share_partition_is_found_by_its_key(client: RawClient) -> None:
    topic_id = create_topic(client, "t")
    key = f"g:{uuid_to_text(topic_id)}:0"
    find = FindCoordinatorRequest(key_type=2, coordinator_keys=[key, "g", f"g:{uuid_to_text(topic_id)}:x"])
    good, *bad = client.ask(find, 6).coordinators
    assert (good.error_code, good.node_id) == (ErrorCode.NONE, 1)
    assert [each.error_code for each in bad] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize(
    ("request_type", "topic_type", "module"),
    [
        (
            delete_share_group_state.DeleteShareGroupStateRequest,
            delete_share_group_state.DeleteStateData,
            delete_share_group_state,
        ),
        (
            initialize_share_group_state.InitializeShareGroupStateRequest,
            initialize_share_group_state.InitializeStateData,
            initialize_share_group_state,
        ),
        (
            read_share_group_state.ReadShareGroupStateRequest,
            read_share_group_state.ReadStateData,
            read_share_group_state,
        ),
        (
            read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
            read_share_group_state_summary.ReadStateSummaryData,
            read_share_group_state_summary,
        ),
        (
            write_share_group_state.WriteShareGroupStateRequest,
            write_share_group_state.WriteStateData,
            write_share_group_state,
        ),
    ],
    ids=["delete", "initialize", "read", "summary", "write"],
)
def test_states_of_share_partitions_are_for_brokers_alone(
    client: RawClient, request_type: Any, topic_type: Any, module: Any
) -> None:
    topic_id = create_topic(client, "t")
    member = ShareMember(client, "t", topic_id)
    member.join()
    produce(client, "t", b"a")
    partitions = [module.PartitionData(partition=number) for number in (0, 1)]
    request = request_type(group_id="g", topics=[topic_type(topic_id=topic_id, partitions=partitions)])
    for version in range(request.VERSIONS[0], request.VERSIONS[-1] + 1):
        (topic,) = client.ask(request, version).results
        assert [(each.partition, each.error_code) for each in topic.partitions] == [
            (0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            (1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ]
    assert member.fetch().values == [b"a"], "the broker asks itself"
