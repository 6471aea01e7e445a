"""Requests about many things are handled in turns.

Nothing that a request asks holds the event loop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

import kafkapy
import kafkapy.handlers.consumer_group_describe
import kafkapy.handlers.delete_groups
import kafkapy.handlers.describe_groups
import kafkapy.handlers.find_coordinator
from kafkapy import handlers
from kafkapy.broker.core import BrokerCore
from kafkapy.groups.coordinator import GroupCoordinator
from kafkapy.groups.offsets.commit import CHECKED_AT_ONCE
from kafkapy.groups.offsets.writes import OffsetWrites
from kafkapy.loop.turns import Turns
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages import alter_configs, incremental_alter_configs
from kafkapy.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
)
from kafkapy.protocol.messages.alter_configs import AlterConfigsRequest
from kafkapy.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kafkapy.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kafkapy.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kafkapy.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkapy.protocol.messages.create_partitions import CreatePartitionsRequest
from kafkapy.protocol.messages.create_topics import CreateTopicsRequest
from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkapy.protocol.messages.delete_records import DeleteRecordsRequest
from kafkapy.protocol.messages.delete_share_group_state import DeleteShareGroupStateRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkapy.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from kafkapy.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kafkapy.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kafkapy.protocol.messages.elect_leaders import ElectLeadersRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafkapy.protocol.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.list_offsets import ListOffsetsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.offset_commit import OffsetCommitRequest
from kafkapy.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafkapy.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kafkapy.protocol.messages.read_share_group_state import ReadShareGroupStateRequest
from kafkapy.protocol.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from kafkapy.protocol.messages.share_fetch import ShareFetchRequest
from kafkapy.protocol.messages.write_share_group_state import WriteShareGroupStateRequest
from tests.calls import calls_of
from tests.handlers.group_client import commit, join_request
from tests.handlers.group_client import find_coordinator as find
from tests.handlers.produce_client import batch, create_topic, fetch_request, produce_request
from tests.network.loop_watch import LoopWatch
from tests.network.raw_client import RawClient
from tests.protocol.long_messages import long_message

MANY = 50
NAMES = [f"n{number}" for number in range(MANY)]
EVERY = range(MANY)
Request = tuple[TopMessage, int]
"""A request and its version."""
NO_TOPIC = bytes(15) + b"1"
"""The id of a topic that does not exist."""


def many(cls: type[TopMessage], version: int, path: str, count: int = MANY, /, **values: Any) -> Request:
    """A request whose array at `path` has so many elements, and its version."""
    return long_message(cls, version, path, count, **values), version


REQUESTS: list[Request] = [
    (produce_request("t", *[batch(b"a")] * MANY, partitions=EVERY), 9),
    (fetch_request("t", *[0] * MANY), 12),
    many(ListOffsetsRequest, 7, "topics.partitions", name="t", replica_id=-1, timestamp=-1),
    (MetadataRequest(topics=None), 12),
    many(
        *(OffsetCommitRequest, 8, "topics.partitions"),
        group_id="g",
        name="t",
        generation_id_or_member_epoch=-1,
    ),
    (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 8),
    many(OffsetDeleteRequest, 0, "topics.partitions", group_id="g", name="t"),
    many(FindCoordinatorRequest, 4, "coordinator_keys"),
    many(LeaveGroupRequest, 5, "members", group_id="g"),
    many(DescribeGroupsRequest, 5, "groups"),
    many(DeleteGroupsRequest, 2, "groups_names"),
    (ListGroupsRequest(), 4),
    many(CreateTopicsRequest, 5, "topics", assignments=[], configs=[], validate_only=True),
    many(DeleteRecordsRequest, 2, "topics.partitions", name="t"),
    many(OffsetForLeaderEpochRequest, 4, "topics.partitions", topic="t"),
    many(DescribeConfigsRequest, 4, "resources", resource_type=2, configuration_keys=[]),
    (DescribeLogDirsRequest(topics=None), 4),
    (DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]), 0),
    (ElectLeadersRequest(topic_partitions=None), 2),
    many(AlterPartitionReassignmentsRequest, 0, "topics.partitions", name="t", replicas=None),
    many(DescribeUserScramCredentialsRequest, 0, "users"),
    many(DeleteTopicsRequest, 5, "topic_names"),
    many(DeleteTopicsRequest, 6, "topics"),
    many(CreatePartitionsRequest, 3, "topics", count=2, assignments=None),
    many(AlterConfigsRequest, 2, "resources", resource_type=2, configs=[]),
    many(IncrementalAlterConfigsRequest, 1, "resources", resource_type=2, configs=[]),
    (
        AlterClientQuotasRequest(
            entries=[
                AlterClientQuotasRequestEntryData(entity=[EntityData(entity_type="user", entity_name=name)])
                for name in NAMES
            ]
        ),
        1,
    ),
    many(DescribeLogDirsRequest, 4, "topics.partitions", topic="unknown"),
]

HOSTILE: list[Request] = [
    (
        DescribeConfigsRequest(
            include_synonyms=True,
            include_documentation=True,
            resources=[DescribeConfigsResource(resource_type=4, resource_name="1")] * 500,
        ),
        4,
    ),
    many(MetadataRequest, 9, "topics", 20_000, allow_auto_topic_creation=False),
    (produce_request("t", *[b""] * 20_000, partitions=[0] * 20_000), 9),
    many(DescribeGroupsRequest, 5, "groups", 30_000),
    many(DeleteGroupsRequest, 2, "groups_names", 30_000),
    many(AlterReplicaLogDirsRequest, 2, "dirs.topics.partitions", 20_000, path="/nowhere", name="t"),
    many(DeleteTopicsRequest, 5, "topic_names", 150_000),
    many(DescribeShareGroupOffsetsRequest, 0, "groups", 48_000, topics=[]),
    *(
        many(
            *(DescribeShareGroupOffsetsRequest, 0, "groups.topics.partitions", 96_000),
            group_id="g",
            topic_name=topic,
        )
        for topic in ("t", "unknown")
    ),
    many(
        *(ShareFetchRequest, 1, "topics.partitions", 48_000),
        group_id="g",
        member_id="m",
        topic_id=NO_TOPIC,
        acknowledgement_batches=[],
    ),
    many(AddPartitionsToTxnRequest, 3, "v3_and_below_topics", 49_000, v3_and_below_transactional_id="x"),
    many(
        *(AddPartitionsToTxnRequest, 3, "v3_and_below_topics.partitions", 90_000),
        v3_and_below_transactional_id="x",
        name="t",
    ),
    many(
        *(AlterShareGroupOffsetsRequest, 0, "topics.partitions", 49_000), group_id="g", topic_name="unknown"
    ),
]

SHARE_STATES: list[Request] = [
    many(cls, 0, "topics.partitions", count, group_id="g", topic_id=NO_TOPIC, state_batches=[])
    for cls, count in (
        (DeleteShareGroupStateRequest, 48_000),
        (InitializeShareGroupStateRequest, 30_000),
        (ReadShareGroupStateRequest, 30_000),
        (ReadShareGroupStateSummaryRequest, 30_000),
        (WriteShareGroupStateRequest, 20_000),
    )
]


@pytest.mark.parametrize(
    ("request_", "version"), [*HOSTILE, *SHARE_STATES], ids=lambda each: type(each).__name__
)
def test_a_hostile_request_does_not_hold_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: TopMessage, version: int
) -> None:
    """The limit itself is allowed.

    CPU time is measured, with garbage collection off, and a turn is over after some milliseconds of any time:
    a busy machine makes turns shorter, and only its cold caches take more CPU time.
    """
    watch = LoopWatch(monkeypatch)
    with watch.broker(tmp_path) as broker, RawClient(broker.bootstrap_servers) as connected:
        connected.socket.settimeout(300)
        find(connected, "any")
        find(connected, "any", key_type=1)
        find(connected, "g:AAAAAAAAAAAAAAAAAAAAAA:0", version=6, key_type=2)
        create_topic(connected, "t")
        assert request_.KEY is not None
        handlers.endpoint(request_.KEY)  # its module may have to be compiled
        data = encode_request(request_, version, 1, "raw")

        def exchange() -> None:
            sending = threading.Thread(target=connected.send, args=(data,))
            sending.start()
            connected.receive_frame()
            sending.join()
            find(connected, "any")  # the callback before has ended

        watch.check_each(exchange)  # codecs are compiled when the first of their kind comes


@pytest.mark.parametrize(("request_", "version"), SHARE_STATES, ids=lambda each: type(each).__name__)
def test_states_of_many_share_partitions_do_not_hold_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: TopMessage, version: int
) -> None:
    """This broker asks itself."""
    watch = LoopWatch(monkeypatch)
    with watch.broker(tmp_path) as broker, RawClient(broker.bootstrap_servers) as connected:
        find(connected, "g:AAAAAAAAAAAAAAAAAAAAAA:0", version=6, key_type=2)

        async def ask(core: BrokerCore) -> Any:
            return await core.inter_broker.ask(core.node_id, request_, seconds=300)

        responses = []

        def exchange() -> None:
            responses.append(broker.call(ask))
            find(connected, "any")  # the callback before has ended

        watch.check_each(exchange)
        ((partition, *_),) = [result.partitions for result in responses[-1].results]
        assert partition.error_code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_deleting_a_topic_with_many_offsets_does_not_hold_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = LoopWatch(monkeypatch)
    with watch.broker(tmp_path) as broker, RawClient(broker.bootstrap_servers) as connected:
        find(connected, "any")
        create_topic(connected, "many", 1_000)
        groups = [f"many{number}" for number in range(80)]
        for group in groups:
            commit(connected, group, {("many", number): 0 for number in range(1_000)})

        async def left(core: BrokerCore) -> int:
            return sum(len(core.groups.offsets.of_group(group)) for group in groups)

        assert broker.call(left) == 80_000
        with watch.watching():
            connected.ask(DeleteTopicsRequest(topic_names=["many"]), 5)
            deadline = time.monotonic() + 60
            while broker.call(left):
                assert time.monotonic() < deadline
        watch.check()


def test_others_are_served_between_two_pending_ids_that_are_given_up(
    client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [client.ask(join_request("new"), 9).member_id for _ in EVERY]
    leaves = calls_of(monkeypatch, GroupCoordinator, "leave_group")
    members = [MemberIdentity(member_id=each) for each in ids]
    response = client.ask(LeaveGroupRequest(group_id="new", members=members), 5)
    assert [(each.member_id, each.error_code) for each in response.members] == [(each, 0) for each in ids]
    assert max(len(at_once) for (_, _, at_once), _ in leaves) == 1


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (
            OffsetDeleteRequest(
                group_id="g",
                topics=[
                    OffsetDeleteRequestTopic(
                        name=f"many{topic}",
                        partitions=[OffsetDeleteRequestPartition(partition_index=n) for n in range(1_000)],
                    )
                    for topic in range(4)
                ],
            ),
            0,
        ),
        (DeleteGroupsRequest(groups_names=["g"]), 2),
    ],
    ids=lambda each: type(each).__name__,
)
def test_many_offsets_of_a_group_are_removed_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: TopMessage, version: int
) -> None:
    removals = calls_of(monkeypatch, OffsetWrites, "_remove")
    watch = LoopWatch(monkeypatch)
    with watch.broker(tmp_path) as broker, RawClient(broker.bootstrap_servers) as connected:
        find(connected, "any")
        for topic in range(4):
            create_topic(connected, f"many{topic}", 1_000)
            commit(connected, "g", {(f"many{topic}", number): 0 for number in range(1_000)})
        with watch.watching():
            connected.ask(request_, version)
        parts = [len(call.arguments[2]) for call in removals]
        assert sum(parts) == 4_000
        assert max(parts) <= 500
        watch.check()


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        many(
            *(AlterConfigsRequest, 2, "resources"),
            resource_type=2,
            configs=[alter_configs.AlterableConfig(name="retention.ms", value=None)],
        ),
        many(
            *(IncrementalAlterConfigsRequest, 1, "resources"),
            resource_type=2,
            configs=[incremental_alter_configs.AlterableConfig(name="retention.ms")] * 2,
        ),
    ],
    ids=lambda each: type(each).__name__,
)
def test_others_are_served_between_two_resources_that_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: TopMessage, version: int
) -> None:
    watch = LoopWatch(monkeypatch)
    with watch.broker(tmp_path) as broker, RawClient(broker.bootstrap_servers) as connected:
        with watch.watching():
            connected.ask(request_, version)
        assert watch.count >= MANY


@pytest.fixture
def client(kafka_broker: kafkapy.Broker) -> Iterator[RawClient]:
    """Has a topic of many partitions, offsets of all of them, and many groups."""
    with RawClient(kafka_broker.bootstrap_servers) as connected:
        find(connected, "any")
        create_topic(connected, "t", MANY)
        commit(connected, "g", {("t", number): 0 for number in EVERY})
        for name in NAMES:
            commit(connected, name, {("t", 0): 0})
        yield connected


@pytest.mark.parametrize(
    ("request_", "version"),
    [each for each in REQUESTS if not isinstance(each[0], OffsetCommitRequest)],
    ids=lambda each: type(each).__name__,
)
def test_a_request_about_many_things_is_handled_in_turns(
    kafka_broker: kafkapy.Broker,
    client: RawClient,
    monkeypatch: pytest.MonkeyPatch,
    request_: TopMessage,
    version: int,
) -> None:
    kafka_broker.core.turns.seconds = 0
    turns = calls_of(monkeypatch, Turns, "_give")
    client.ask(request_, version)
    assert len(turns) >= MANY - 1  # the first one is taken at once


def test_a_commit_of_many_offsets_is_handled_in_turns(
    kafka_broker: kafkapy.Broker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka_broker.core.turns.seconds = 0
    turns = calls_of(monkeypatch, Turns, "_give")
    count = 10 * CHECKED_AT_ONCE
    commit(client, "g", {("t", number): 0 for number in range(count)})
    assert len(turns) >= 9


class _Names(list[str]):
    """Counts how many of its names were looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[str]:
        for name in super().__iter__():
            self.looked_at += 1
            yield name


@pytest.mark.parametrize(
    ("handle", "request_"),
    [
        (handlers.find_coordinator.handle, FindCoordinatorRequest(key_type=9)),
        (handlers.describe_groups.handle, DescribeGroupsRequest()),
        (handlers.delete_groups.handle, DeleteGroupsRequest()),
        (handlers.consumer_group_describe.handle, ConsumerGroupDescribeRequest()),
    ],
    ids=lambda each: each.__module__.rpartition(".")[2],
)
def test_names_that_come_twice_are_found_in_turns(handle: Any, request_: Any) -> None:
    (field,) = {"coordinator_keys", "groups", "groups_names", "group_ids"} & set(dir(request_))
    names = _Names(NAMES)
    setattr(request_, field, names)
    next(handle(MagicMock(api_version=6), request_))
    assert names.looked_at <= 1
