"""Requests about many things are handled in turns.

Nothing that a request asks holds the event loop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
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
from kafkapy.groups.offsets.writes import OffsetWrites
from kafkapy.loop.turns import Turns
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import encode_request
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages import (
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    consumer_group_describe,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_share_group_state,
    delete_topics,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_share_group_offsets,
    describe_topic_partitions,
    describe_user_scram_credentials,
    elect_leaders,
    find_coordinator,
    incremental_alter_configs,
    initialize_share_group_state,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    read_share_group_state,
    read_share_group_state_summary,
    share_fetch,
    write_share_group_state,
)
from kafkapy.protocol.types import TopicPartition
from tests.handlers.group_client import commit, join_request
from tests.handlers.group_client import find_coordinator as find
from tests.handlers.produce_client import batch, create_topic, fetch_request, produce_request
from tests.network.loop_watch import LoopWatch
from tests.network.raw_client import RawClient

MANY = 50
NAMES = [f"n{number}" for number in range(MANY)]
EVERY = range(MANY)
NO_TOPIC = bytes(15) + b"1"
"""The id of a topic that does not exist."""

REQUESTS: list[tuple[TopMessage, int]] = [
    (produce_request("t", *[batch(b"a")] * MANY, partitions=EVERY), 9),
    (fetch_request("t", *[0] * MANY), 12),
    (
        list_offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=[
                list_offsets.ListOffsetsTopic(
                    name="t",
                    partitions=[
                        list_offsets.ListOffsetsPartition(partition_index=n, timestamp=-1) for n in EVERY
                    ],
                )
            ],
        ),
        7,
    ),
    (metadata.MetadataRequest(topics=None), 12),
    (
        offset_commit.OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=-1,
            topics=[
                offset_commit.OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        offset_commit.OffsetCommitRequestPartition(partition_index=n, committed_offset=0)
                        for n in EVERY
                    ],
                )
            ],
        ),
        8,
    ),
    (
        offset_fetch.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)]
        ),
        8,
    ),
    (
        offset_delete.OffsetDeleteRequest(
            group_id="g",
            topics=[
                offset_delete.OffsetDeleteRequestTopic(
                    name="t",
                    partitions=[offset_delete.OffsetDeleteRequestPartition(partition_index=n) for n in EVERY],
                )
            ],
        ),
        0,
    ),
    (find_coordinator.FindCoordinatorRequest(coordinator_keys=NAMES), 4),
    (
        leave_group.LeaveGroupRequest(
            group_id="g", members=[leave_group.MemberIdentity(member_id=name) for name in NAMES]
        ),
        5,
    ),
    (describe_groups.DescribeGroupsRequest(groups=NAMES), 5),
    (delete_groups.DeleteGroupsRequest(groups_names=NAMES), 2),
    (list_groups.ListGroupsRequest(), 4),
    (
        create_topics.CreateTopicsRequest(
            topics=[create_topics.CreatableTopic(name=name) for name in NAMES], validate_only=True
        ),
        5,
    ),
    (
        delete_records.DeleteRecordsRequest(
            topics=[
                delete_records.DeleteRecordsTopic(
                    name="t",
                    partitions=[
                        delete_records.DeleteRecordsPartition(partition_index=n, offset=0) for n in EVERY
                    ],
                )
            ]
        ),
        2,
    ),
    (
        offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    topic="t",
                    partitions=[
                        offset_for_leader_epoch.OffsetForLeaderPartition(partition=n, leader_epoch=0)
                        for n in EVERY
                    ],
                )
            ]
        ),
        4,
    ),
    (
        describe_configs.DescribeConfigsRequest(
            resources=[
                describe_configs.DescribeConfigsResource(resource_type=2, resource_name=name)
                for name in NAMES
            ]
        ),
        4,
    ),
    (describe_log_dirs.DescribeLogDirsRequest(topics=None), 4),
    (
        describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[describe_topic_partitions.TopicRequest(name="t")]
        ),
        0,
    ),
    (elect_leaders.ElectLeadersRequest(topic_partitions=None), 2),
    (
        alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            topics=[
                alter_partition_reassignments.ReassignableTopic(
                    name="t",
                    partitions=[
                        alter_partition_reassignments.ReassignablePartition(partition_index=n) for n in EVERY
                    ],
                )
            ]
        ),
        0,
    ),
    (
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
            users=[describe_user_scram_credentials.UserName(name=name) for name in NAMES]
        ),
        0,
    ),
    (delete_topics.DeleteTopicsRequest(topic_names=NAMES), 5),
    (
        delete_topics.DeleteTopicsRequest(
            topics=[delete_topics.DeleteTopicState(name=name) for name in NAMES]
        ),
        6,
    ),
    (
        create_partitions.CreatePartitionsRequest(
            topics=[
                create_partitions.CreatePartitionsTopic(name=name, count=2, assignments=None)
                for name in NAMES
            ]
        ),
        3,
    ),
    (
        alter_configs.AlterConfigsRequest(
            resources=[
                alter_configs.AlterConfigsResource(resource_type=2, resource_name=name) for name in NAMES
            ]
        ),
        2,
    ),
    (
        incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[
                incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name=name)
                for name in NAMES
            ]
        ),
        1,
    ),
    (
        alter_client_quotas.AlterClientQuotasRequest(
            entries=[
                alter_client_quotas.AlterClientQuotasRequestEntryData(
                    entity=[alter_client_quotas.EntityData(entity_type="user", entity_name=name)]
                )
                for name in NAMES
            ]
        ),
        1,
    ),
    (
        describe_log_dirs.DescribeLogDirsRequest(
            topics=[describe_log_dirs.DescribableLogDirTopic(topic="unknown", partitions=list(EVERY))]
        ),
        4,
    ),
]


HOSTILE: list[tuple[TopMessage, int]] = [
    (
        describe_configs.DescribeConfigsRequest(
            include_synonyms=True,
            include_documentation=True,
            resources=[describe_configs.DescribeConfigsResource(resource_type=4, resource_name="1")] * 500,
        ),
        4,
    ),
    (
        metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=f"unknown{n}") for n in range(20_000)],
            allow_auto_topic_creation=False,
        ),
        12,
    ),
    (produce_request("t", *[b""] * 20_000, partitions=[0] * 20_000), 9),
    (describe_groups.DescribeGroupsRequest(groups=[f"unknown{n}" for n in range(30_000)]), 5),
    (delete_groups.DeleteGroupsRequest(groups_names=[f"unknown{n}" for n in range(30_000)]), 2),
    (
        alter_replica_log_dirs.AlterReplicaLogDirsRequest(
            dirs=[
                alter_replica_log_dirs.AlterReplicaLogDir(
                    path="/nowhere",
                    topics=[
                        alter_replica_log_dirs.AlterReplicaLogDirTopic(
                            name="t", partitions=list(range(20_000))
                        )
                    ],
                )
            ]
        ),
        2,
    ),
    (delete_topics.DeleteTopicsRequest(topic_names=[f"unknown{n}" for n in range(150_000)]), 5),
    (
        describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
            groups=[
                describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(
                    group_id=f"g{n}", topics=[]
                )
                for n in range(48_000)
            ]
        ),
        0,
    ),
    (
        describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
            groups=[
                describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(
                    group_id="g",
                    topics=[
                        describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic(
                            topic_name=name, partitions=list(range(48_000))
                        )
                        for name in ("t", "unknown")
                    ],
                )
            ]
        ),
        0,
    ),
    (
        share_fetch.ShareFetchRequest(
            group_id="g",
            member_id="m",
            topics=[
                share_fetch.FetchTopic(
                    topic_id=NO_TOPIC,
                    partitions=[share_fetch.FetchPartition(partition_index=n) for n in range(48_000)],
                )
            ],
        ),
        1,
    ),
    (
        add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_topics=[
                add_partitions_to_txn.AddPartitionsToTxnTopic(name=f"n{n}", partitions=[0])
                for n in range(49_000)
            ],
        ),
        3,
    ),
    (
        add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_topics=[
                add_partitions_to_txn.AddPartitionsToTxnTopic(name="t", partitions=list(range(90_000)))
            ],
        ),
        3,
    ),
    (
        alter_share_group_offsets.AlterShareGroupOffsetsRequest(
            group_id="g",
            topics=[
                alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(
                    topic_name="unknown",
                    partitions=[
                        alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=n)
                        for n in range(49_000)
                    ],
                )
            ],
        ),
        0,
    ),
]

SHARE_STATES: list[tuple[TopMessage, int]] = [
    (
        delete_share_group_state.DeleteShareGroupStateRequest(
            group_id="g",
            topics=[
                delete_share_group_state.DeleteStateData(
                    topic_id=NO_TOPIC,
                    partitions=[delete_share_group_state.PartitionData(partition=n) for n in range(48_000)],
                )
            ],
        ),
        0,
    ),
    (
        initialize_share_group_state.InitializeShareGroupStateRequest(
            group_id="g",
            topics=[
                initialize_share_group_state.InitializeStateData(
                    topic_id=NO_TOPIC,
                    partitions=[
                        initialize_share_group_state.PartitionData(partition=n) for n in range(30_000)
                    ],
                )
            ],
        ),
        0,
    ),
    (
        read_share_group_state.ReadShareGroupStateRequest(
            group_id="g",
            topics=[
                read_share_group_state.ReadStateData(
                    topic_id=NO_TOPIC,
                    partitions=[read_share_group_state.PartitionData(partition=n) for n in range(30_000)],
                )
            ],
        ),
        0,
    ),
    (
        read_share_group_state_summary.ReadShareGroupStateSummaryRequest(
            group_id="g",
            topics=[
                read_share_group_state_summary.ReadStateSummaryData(
                    topic_id=NO_TOPIC,
                    partitions=[
                        read_share_group_state_summary.PartitionData(partition=n) for n in range(30_000)
                    ],
                )
            ],
        ),
        0,
    ),
    (
        write_share_group_state.WriteShareGroupStateRequest(
            group_id="g",
            topics=[
                write_share_group_state.WriteStateData(
                    topic_id=NO_TOPIC,
                    partitions=[write_share_group_state.PartitionData(partition=n) for n in range(20_000)],
                )
            ],
        ),
        0,
    ),
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
        for _ in range(2):  # codecs are compiled when the first of their kind comes
            with watch.watching():
                sending = threading.Thread(target=connected.send, args=(data,))
                sending.start()
                connected.receive_frame()
                sending.join()
                find(connected, "any")  # the callback before has ended
            watch.check()


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

        for _ in range(2):
            with watch.watching():
                response = broker.call(ask)
                find(connected, "any")  # the callback before has ended
            watch.check()
        ((partition, *_),) = [result.partitions for result in response.results]
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
            connected.ask(delete_topics.DeleteTopicsRequest(topic_names=["many"]), 5)
            deadline = time.monotonic() + 60
            while broker.call(left):
                assert time.monotonic() < deadline
        watch.check()


def test_others_are_served_between_two_pending_ids_that_are_given_up(
    client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [client.ask(join_request("new"), 9).member_id for _ in EVERY]
    at_once: list[int] = []
    leave = GroupCoordinator.leave_group

    def count(self: GroupCoordinator, group_id: str, members: Sequence[leave_group.MemberIdentity]) -> Any:
        at_once.append(len(members))
        return leave(self, group_id, members)

    monkeypatch.setattr(GroupCoordinator, "leave_group", count)
    members = [leave_group.MemberIdentity(member_id=each) for each in ids]
    response = client.ask(leave_group.LeaveGroupRequest(group_id="new", members=members), 5)
    assert [(each.member_id, each.error_code) for each in response.members] == [(each, 0) for each in ids]
    assert max(at_once) == 1


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (
            offset_delete.OffsetDeleteRequest(
                group_id="g",
                topics=[
                    offset_delete.OffsetDeleteRequestTopic(
                        name=f"many{topic}",
                        partitions=[
                            offset_delete.OffsetDeleteRequestPartition(partition_index=n)
                            for n in range(1_000)
                        ],
                    )
                    for topic in range(4)
                ],
            ),
            0,
        ),
        (delete_groups.DeleteGroupsRequest(groups_names=["g"]), 2),
    ],
    ids=lambda each: type(each).__name__,
)
def test_many_offsets_of_a_group_are_removed_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: TopMessage, version: int
) -> None:
    parts: list[int] = []
    remove = OffsetWrites._remove

    def count(self: OffsetWrites, group_id: str, keys: Sequence[TopicPartition], *others: Any) -> None:
        parts.append(len(keys))
        remove(self, group_id, keys, *others)

    monkeypatch.setattr(OffsetWrites, "_remove", count)
    watch = LoopWatch(monkeypatch)
    with watch.broker(tmp_path) as broker, RawClient(broker.bootstrap_servers) as connected:
        find(connected, "any")
        for topic in range(4):
            create_topic(connected, f"many{topic}", 1_000)
            commit(connected, "g", {(f"many{topic}", number): 0 for number in range(1_000)})
        with watch.watching():
            connected.ask(request_, version)
        assert sum(parts) == 4_000
        assert max(parts) <= 500
        watch.check()


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (
            alter_configs.AlterConfigsRequest(
                resources=[
                    alter_configs.AlterConfigsResource(
                        resource_type=2,
                        resource_name=name,
                        configs=[alter_configs.AlterableConfig(name="retention.ms", value=None)],
                    )
                    for name in NAMES
                ]
            ),
            2,
        ),
        (
            incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=[
                    incremental_alter_configs.AlterConfigsResource(
                        resource_type=2,
                        resource_name=name,
                        configs=[incremental_alter_configs.AlterableConfig(name="retention.ms")] * 2,
                    )
                    for name in NAMES
                ]
            ),
            1,
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


@pytest.mark.parametrize(("request_", "version"), REQUESTS, ids=lambda each: type(each).__name__)
def test_a_request_about_many_things_is_handled_in_turns(
    client: RawClient, monkeypatch: pytest.MonkeyPatch, request_: TopMessage, version: int
) -> None:
    monkeypatch.setattr("kafkapy.loop.turns.TURN_SECONDS", 0)
    monkeypatch.setattr("kafkapy.groups.offsets.commit.CHECKED_AT_ONCE", 1)
    turns, give = 0, Turns._give

    def count(self: Turns) -> None:
        nonlocal turns
        turns += 1
        give(self)

    monkeypatch.setattr(Turns, "_give", count)
    client.ask(request_, version)
    assert turns >= MANY - 1  # the first one is taken at once


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
        (handlers.find_coordinator.handle, find_coordinator.FindCoordinatorRequest(key_type=9)),
        (handlers.describe_groups.handle, describe_groups.DescribeGroupsRequest()),
        (handlers.delete_groups.handle, delete_groups.DeleteGroupsRequest()),
        (handlers.consumer_group_describe.handle, consumer_group_describe.ConsumerGroupDescribeRequest()),
    ],
    ids=lambda each: each.__module__.rpartition(".")[2],
)
def test_names_that_come_twice_are_found_in_turns(handle: Any, request_: Any) -> None:
    (field,) = {"coordinator_keys", "groups", "groups_names", "group_ids"} & set(dir(request_))
    names = _Names(NAMES)
    setattr(request_, field, names)
    next(handle(MagicMock(api_version=6), request_))
    assert names.looked_at <= 1
