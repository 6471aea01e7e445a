"""OffsetCommit, OffsetFetch and OffsetDelete over the wire, in every version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkapy
from kafkapy.broker.core import BrokerCore
from kafkapy.coordination.pending_write import PendingWrite
from kafkapy.groups.offsets.writes import OFFSETS_AT_ONCE, OffsetWrites
from kafkapy.groups.offsets.zookeeper import ZooKeeperOffsets
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import decode_response, encode_request
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkapy.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafkapy.protocol.types import TopicPartition
from tests.handlers.group_client import commit, committed, fetch_offsets, find_coordinator, join, sync
from tests.handlers.produce_client import create_topic
from tests.network.raw_client import RawClient, eventually

NONE = ErrorCode.NONE
UNKNOWN_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def client(kafka_broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(kafka_broker.bootstrap_servers) as connected:
        find_coordinator(connected, "any")
        yield connected


@pytest.mark.parametrize("version", range(11))
def test_what_is_committed_is_fetched(client: RawClient, version: int) -> None:
    ids = {"t": create_topic(client, "t", 2)}
    assert commit(client, "g", {("t", 0): 5, ("t", 1): 6}, version, topic_ids=ids) == {
        ("t", 0): NONE,
        ("t", 1): NONE,
    }
    for fetch_version in range(11):
        answer = fetch_offsets(client, "g", {"t": [1, 0]}, fetch_version, topic_ids=ids)
        (topic,) = answer.topics
        assert [(each.partition_index, each.committed_offset) for each in topic.partitions] == [
            (1, 6),
            (0, 5),
        ]
        assert topic.partitions[0].metadata == "m"
        if fetch_version >= 5:
            assert topic.partitions[0].committed_leader_epoch == (2 if version >= 6 else -1)


@pytest.mark.parametrize("first", ["commit", "fetch"])
def test_clients_of_v0_need_no_coordinator(kafka_broker: kafkapy.Broker, first: str) -> None:
    with RawClient(kafka_broker.bootstrap_servers) as client:
        create_topic(client, "t")
        if first == "fetch":
            assert committed(fetch_offsets(client, "g", {"t": [0]}, 0)) == {("t", 0): -1}
        assert commit(client, "g", {("t", 0): 5}, 0) == {("t", 0): NONE}
        assert committed(fetch_offsets(client, "g", {"t": [0]}, 0)) == {("t", 0): 5}


def test_offsets_of_v0_are_in_the_tree_of_a_cluster(kafka_broker: kafkapy.Broker, tmp_path: Path) -> None:
    async def open_tree(core: BrokerCore) -> EmbeddedStore:
        store = await EmbeddedStore.open(tmp_path / "tree.db", sync=False, directory=None)
        core.zookeeper_offsets = ZooKeeperOffsets(store)
        return store

    store = kafka_broker.call(open_tree)
    with RawClient(kafka_broker.bootstrap_servers) as client:
        create_topic(client, "t", 2)
        offsets = {("t", 0): 5, ("t", 1): 6}
        assert commit(client, "g", {**offsets, ("t", 2): 7}, 0) == {
            **dict.fromkeys(offsets, NONE),
            ("t", 2): UNKNOWN_TOPIC,
        }
        assert committed(fetch_offsets(client, "g", {"t": [0, 1]}, 0)) == offsets
        too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert commit(client, "g", {("t", 0): 8}, 0, metadata="m" * 5_000) == {("t", 0): too_large}
        assert committed(fetch_offsets(client, "g", {"t": [0]}, 0)) == {("t", 0): 5}
        assert commit(client, "../g", offsets, 0) == dict.fromkeys(offsets, ErrorCode.INVALID_GROUP_ID)
    kafka_broker.call(lambda _: store.close())


@pytest.mark.parametrize("version", range(2, 11))
def test_null_topics_are_all_that_the_group_has(client: RawClient, version: int) -> None:
    ids = {name: create_topic(client, name, 2) for name in ("t", "u")}
    commit(client, "g", {("t", 0): 5, ("u", 1): 6})
    answer = fetch_offsets(client, "g", None, version)
    if version < 10:
        assert committed(answer) == {("t", 0): 5, ("u", 1): 6}
    else:
        assert {topic.topic_id for topic in answer.topics} == set(ids.values())


@pytest.mark.parametrize("version", range(11))
def test_a_partition_without_an_offset_has_none(client: RawClient, version: int) -> None:
    ids = {"t": create_topic(client, "t")}
    answer = fetch_offsets(client, "g", {"t": [0]}, version, topic_ids=ids)
    (each,) = answer.topics[0].partitions
    assert each.committed_offset == -1
    assert each.metadata == ""
    assert each.error_code == (UNKNOWN_TOPIC if version == 0 else NONE)


def test_several_groups_are_fetched_at_once(client: RawClient) -> None:
    create_topic(client, "t")
    for number in range(3):
        commit(client, f"g{number}", {("t", 0): number})
    groups = [OffsetFetchRequestGroup(group_id=f"g{number}", topics=None) for number in range(4)]
    answers = client.ask(OffsetFetchRequest(groups=groups), 9).groups
    assert [committed(answer) for answer in answers] == [{("t", 0): number} for number in range(3)] + [{}]


@pytest.mark.parametrize("version", [1, 9])
def test_a_partition_that_is_named_often_is_answered_once(client: RawClient, version: int) -> None:
    create_topic(client, "t", 2)
    commit(client, "g", {("t", 0): 5, ("t", 1): 6})
    answer = fetch_offsets(client, "g", {"t": [0, 1, 0, 0]}, version)
    assert [each.partition_index for each in answer.topics[0].partitions] == [0, 1]


@pytest.mark.parametrize("version", [1, 9])
def test_offsets_of_topics_that_do_not_exist_are_refused_and_the_others_kept(
    client: RawClient, version: int
) -> None:
    create_topic(client, "t")
    offsets = {("t", 0): 5, ("t", 1): 6, ("t", -1): 7, ("nowhere", 0): 8}
    assert commit(client, "g", offsets, version) == {
        ("t", 0): NONE,
        ("t", 1): UNKNOWN_TOPIC,
        ("t", -1): UNKNOWN_TOPIC,
        ("nowhere", 0): UNKNOWN_TOPIC,
    }
    assert committed(fetch_offsets(client, "g", None)) == {("t", 0): 5}


def test_an_unknown_topic_id_is_refused(client: RawClient) -> None:
    unknown = {"t": bytes(range(16))}
    assert commit(client, "g", {("t", 0): 5}, 10, topic_ids=unknown) == {("t", 0): ErrorCode.UNKNOWN_TOPIC_ID}
    answer = fetch_offsets(client, "g", {"t": [0]}, 10, topic_ids=unknown)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_names_and_metadata_that_are_not_utf_8_are_committed_as_java_reads_them(client: RawClient) -> None:
    create_topic(client, "t", 1)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="BIN")
    request = OffsetCommitRequest(
        group_id="m_ller", topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])]
    )
    frame = encode_request(request, 5, 7, "raw")
    client.send(frame.replace(b"m_ller", b"m\xfcller").replace(b"BIN", b"\x00\xff\xfe"))
    _, answer = decode_response(8, 5, client.receive_frame())
    assert isinstance(answer, OffsetCommitResponse)
    assert answer.topics[0].partitions[0].error_code == NONE
    found = fetch_offsets(client, "m\ufffdller", {"t": [0]}, 5).topics[0].partitions[0]
    assert (found.committed_offset, found.metadata) == (5, "\x00\ufffd\ufffd")


def test_how_large_metadata_may_be_is_a_setting() -> None:
    settings = {"offset.metadata.max.bytes": 3}
    with kafkapy.Broker(config=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        find_coordinator(client, "g")
        create_topic(client, "t")
        too_large = commit(client, "g", {("t", 0): 5}, metadata="x" * 4)
        assert too_large == {("t", 0): ErrorCode.OFFSET_METADATA_TOO_LARGE}
        assert commit(client, "g", {("t", 0): 6}, metadata="x" * 3) == {("t", 0): NONE}


def test_metadata_that_is_too_large_is_refused(client: RawClient) -> None:
    create_topic(client, "t")
    too_large = commit(client, "g", {("t", 0): 5}, metadata="x" * 4097)
    assert too_large == {("t", 0): ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert commit(client, "g", {("t", 0): 6}, metadata="x" * 4096) == {("t", 0): NONE}
    assert commit(client, "g", {("t", 0): 7}, metadata=None) == {("t", 0): NONE}
    answer = fetch_offsets(client, "g", {"t": [0]})
    assert answer.topics[0].partitions[0].metadata == ""


@pytest.mark.parametrize("version", [2, 3, 4])
def test_an_offset_may_be_kept_for_ever(client: RawClient, version: int) -> None:
    create_topic(client, "t")
    kept = commit(client, "g", {("t", 0): 5}, version, retention_time_ms=2**63 - 1)
    assert kept == {("t", 0): NONE}
    assert committed(fetch_offsets(client, "g", {"t": [0]})) == {("t", 0): 5}


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_member_of_no_group_cannot_commit(client: RawClient, version: int, error: ErrorCode) -> None:
    create_topic(client, "t")
    answer = commit(client, "g", {("t", 0): 5}, version, generation_id_or_member_epoch=3, member_id="m")
    assert answer == {("t", 0): error}


def test_while_a_group_has_members_only_they_commit(client: RawClient) -> None:
    create_topic(client, "t")
    joined = join(client, "g")
    member: dict[str, Any] = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
    assert commit(client, "g", {("t", 0): 1}, **member) == {("t", 0): ErrorCode.REBALANCE_IN_PROGRESS}
    sync(client, "g", joined)
    assert commit(client, "g", {("t", 0): 1}, **member) == {("t", 0): NONE}
    assert commit(client, "g", {("t", 0): 2}) == {("t", 0): ErrorCode.UNKNOWN_MEMBER_ID}
    late: dict[str, Any] = {**member, "generation_id_or_member_epoch": 0}
    assert commit(client, "g", {("t", 0): 3}, **late) == {("t", 0): ErrorCode.ILLEGAL_GENERATION}
    assert committed(fetch_offsets(client, "g", None)) == {("t", 0): 1}


def test_offsets_go_with_their_topic(client: RawClient) -> None:
    create_topic(client, "t")
    old = {"t": create_topic(client, "u")}
    commit(client, "g", {("t", 0): 5, ("u", 0): 6})
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="u")], timeout_ms=10_000)
    assert client.ask(delete, 6).responses[0].error_code == NONE
    assert committed(fetch_offsets(client, "g", None)) == {("t", 0): 5}
    create_topic(client, "u")
    answer = fetch_offsets(client, "g", {"t": [0]}, 10, topic_ids=old)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [1, 7, 8])
def test_without_the_offsets_topic_there_is_no_coordinator(
    kafka_broker: kafkapy.Broker, version: int
) -> None:
    with RawClient(kafka_broker.bootstrap_servers) as fresh:
        answer = fetch_offsets(fresh, "g", {"t": [0]}, version)
        error = answer.topics[0].partitions[0].error_code if version == 1 else answer.error_code
        assert error == ErrorCode.NOT_COORDINATOR


class TestOffsetDelete:
    def delete(self, client: RawClient, *topics: str, group: str = "g") -> dict[str, int] | int:
        """The error of each topic's partition 0, or of the complete request."""
        entries = [
            OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
            for name in topics
        ]
        response = client.ask(OffsetDeleteRequest(group_id=group, topics=entries), 0)
        if response.error_code:
            return int(response.error_code)
        return {topic.name: topic.partitions[0].error_code for topic in response.topics}

    def test_offsets_are_gone(self, client: RawClient) -> None:
        create_topic(client, "t")
        create_topic(client, "u")
        commit(client, "g", {("t", 0): 5, ("u", 0): 6})
        assert self.delete(client, "t", "nowhere") == {"t": NONE, "nowhere": UNKNOWN_TOPIC}
        assert committed(fetch_offsets(client, "g", None)) == {("u", 0): 6}

    def test_topics_that_members_subscribe_to_keep_theirs(self, client: RawClient) -> None:
        create_topic(client, "t")
        create_topic(client, "u")
        commit(client, "g", {("t", 0): 5, ("u", 0): 6})
        sync(client, "g", join(client, "g"))
        assert self.delete(client, "t", "u") == {"t": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, "u": NONE}
        assert committed(fetch_offsets(client, "g", None)) == {("t", 0): 5}

    def test_a_group_that_is_no_consumers_keeps_all_while_it_has_members(self, client: RawClient) -> None:
        create_topic(client, "t")
        join(client, "g", protocol_type="connect")
        assert self.delete(client, "t") == ErrorCode.NON_EMPTY_GROUP

    def test_an_unknown_group_has_nothing_to_delete(self, client: RawClient) -> None:
        assert self.delete(client, "t") == ErrorCode.GROUP_ID_NOT_FOUND
        assert self.delete(client, "t", group="") == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_offsets_and_members_survive_a_restart(tmp_path: Path, durability: str) -> None:
    config = {"durability": durability, "offsets.topic.num.partitions": 5}
    with kafkapy.Broker(config=config, data_dir=tmp_path) as broker, connect(broker) as client:
        find_coordinator(client, "g")
        create_topic(client, "t")
        joined = join(client, "g")
        sync(client, "g", joined)
        member: dict[str, Any] = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
        assert commit(client, "g", {("t", 0): 1}, **member) == {("t", 0): NONE}
        for number in range(20):
            commit(client, f"g{number}", {("t", 0): number})
    with kafkapy.Broker(config=config, data_dir=tmp_path) as broker, connect(broker) as client:
        eventually(lambda: client.ask(ListGroupsRequest(), 5).error_code == NONE, "groups are loaded")
        again = sync(client, "g", joined)
        assert again.assignment == joined.member_id.encode()
        assert commit(client, "g", {("t", 0): 2}, **member) == {("t", 0): NONE}
        for number in range(20):
            assert committed(fetch_offsets(client, f"g{number}", None)) == {("t", 0): number}


def test_damage_in_the_offsets_topic_costs_what_lay_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with kafkapy.Broker(data_dir=tmp_path) as broker, connect(broker) as client:
        find_coordinator(client, "g")
        create_topic(client, "t")
        for number in range(9):
            commit(client, f"g{number}", {("t", 0): 7}, metadata=f"kept {number}")
        commit(client, "g4", {("t", 0): 8}, metadata="rotten")
        commit(client, "g5", {("t", 0): 9}, metadata="newest")
    log = tmp_path / "__consumer_offsets-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes().replace(b"rotten", b"ROTTEN"))
    with kafkapy.Broker(data_dir=tmp_path) as broker, connect(broker) as client:
        eventually(lambda: client.ask(ListGroupsRequest(), 5).error_code == NONE, "groups are loaded")
        found = [committed(fetch_offsets(client, f"g{number}", None))[("t", 0)] for number in range(9)]
        assert found == [7, 7, 7, 7, 7, 9, 7, 7, 7], "g4 is where it was before"
        assert commit(client, "g4", {("t", 0): 10}) == {("t", 0): NONE}
    assert "the records at offsets 9 to 9 are lost; the state before them applies" in caplog.text


def connect(broker: kafkapy.Broker) -> RawClient:
    return RawClient(broker.bootstrap_servers)


def test_offsets_of_very_many_partitions_are_stored_in_parts(client: RawClient) -> None:
    count = 2 * OFFSETS_AT_ONCE + 1
    create_topic(client, "t", count)
    offsets = {("t", index): index for index in range(count)}
    assert commit(client, "g", offsets) == dict.fromkeys(offsets, NONE)
    assert committed(fetch_offsets(client, "g", {"t": list(range(count))})) == offsets


@pytest.mark.parametrize("version", [9, 10])
def test_the_error_of_a_part_is_that_of_its_partitions(
    client: RawClient, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 2 * OFFSETS_AT_ONCE + 1
    ids = {"t": create_topic(client, "t", count)}
    store = OffsetWrites.commit

    def fail_second(self: OffsetWrites, group_id: str, commits: Any) -> ErrorCode | PendingWrite[Any]:
        if TopicPartition("t", OFFSETS_AT_ONCE) in commits:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return store(self, group_id, commits)

    monkeypatch.setattr(OffsetWrites, "commit", fail_second)
    answered = commit(client, "g", {("t", index): 5 for index in range(count + 1)}, version, topic_ids=ids)
    failed = range(OFFSETS_AT_ONCE, 2 * OFFSETS_AT_ONCE)
    assert answered == {
        ("t", index): ErrorCode.COORDINATOR_NOT_AVAILABLE
        if index in failed
        else (UNKNOWN_TOPIC if index == count else NONE)
        for index in range(count + 1)
    }
    kept = committed(fetch_offsets(client, "g", None))
    assert kept == {("t", index): 5 for index in range(count) if index not in failed}


@pytest.mark.parametrize("metadata", ["m", "x" * 4097])
def test_what_the_group_refuses_is_not_said_of_partitions_that_do_not_exist(
    client: RawClient, metadata: str
) -> None:
    create_topic(client, "t")
    offsets = {("t", 0): 5, ("t", 1): 5, ("nowhere", 0): 5}
    answered = commit(client, "g", offsets, metadata=metadata, generation_id_or_member_epoch=3)
    assert answered == {
        ("t", 0): ErrorCode.GROUP_ID_NOT_FOUND,
        ("t", 1): UNKNOWN_TOPIC,
        ("nowhere", 0): UNKNOWN_TOPIC,
    }


def test_of_a_partition_that_is_named_twice_the_last_offset_counts(client: RawClient) -> None:
    create_topic(client, "t")
    partitions = [
        OffsetCommitRequestPartition(partition_index=0, committed_offset=offset) for offset in (5, 7)
    ]
    topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
    request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=topics)
    (topic,) = client.ask(request, 8).topics
    assert [each.error_code for each in topic.partitions] == [NONE, NONE]
    assert committed(fetch_offsets(client, "g", {"t": [0]})) == {("t", 0): 7}


def test_a_group_that_is_asked_for_twice_is_answered_once(client: RawClient) -> None:
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "h", "g")]
    answer = client.ask(OffsetFetchRequest(groups=groups), 8)
    assert [each.group_id for each in answer.groups] == ["g", "h"]
