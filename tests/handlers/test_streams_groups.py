"""Streams groups over the wire.

Tested are heartbeats, internal topics, descriptions, offsets and restarts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafkapy
from kafkapy.handlers.api_versions import STREAMS_VERSION
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kafkapy.protocol.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
)
from tests.groups.streams.streams_world import WORD_COUNT, beat, join, subtopology, topology
from tests.handlers.group_client import commit, committed, fetch_offsets, find_coordinator, join_request
from tests.handlers.group_client import join as join_classic
from tests.handlers.produce_client import create_topic
from tests.handlers.test_group_admin import list_groups
from tests.network.raw_client import RawClient

PATIENCE = 20.0
TOPIC, GROUP = 2, 32
"""Types of resources with settings."""
MISSING_INTERNAL_TOPICS = 3


@pytest.fixture
def client(kafka_broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(kafka_broker.bootstrap_servers) as connected:
        prepare(connected)
        yield connected


def prepare(client: RawClient) -> None:
    find_coordinator(client, "g")
    create_topic(client, "t", 2)


def heartbeat(client: RawClient, request: StreamsGroupHeartbeatRequest) -> Any:
    answer = client.ask(request, 0)
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    return answer


def until_running(client: RawClient, epoch: int, member: str = "m") -> Any:
    """Send heartbeats until the member has tasks; the answer that has them."""
    deadline = time.monotonic() + PATIENCE
    while True:
        answer = heartbeat(client, beat(member, epoch))
        epoch = answer.member_epoch
        if answer.active_tasks:
            return answer
        assert time.monotonic() < deadline, answer.status


def run_word_count(client: RawClient) -> Any:
    """Let a member run the word count; its answer with tasks."""
    return until_running(client, heartbeat(client, join("m", WORD_COUNT)).member_epoch)


def describe(client: RawClient, *groups: str) -> list[Any]:
    request = StreamsGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=True)
    found: list[Any] = client.ask(request, 0).groups
    return found


def topic_configs(client: RawClient, name: str) -> dict[str, str]:
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=TOPIC, resource_name=name)]
    )
    (result,) = client.ask(request, 4).results
    return {each.name: each.value for each in result.configs}


def test_the_feature_is_finalized(client: RawClient) -> None:
    answer = client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    assert STREAMS_VERSION in {each.name for each in answer.supported_features}
    assert [each.max_version_level for each in answer.finalized_features if each.name == STREAMS_VERSION] == [
        1
    ]


def test_internal_topics_are_created_with_the_settings_that_the_topology_names(client: RawClient) -> None:
    message = topology(
        subtopology("0", ["t"], sinks=["g-words"]),
        Subtopology(
            subtopology_id="1",
            repartition_source_topics=[
                TopicInfo(
                    name="g-words",
                    topic_configs=[
                        KeyValue(key="cleanup.policy", value="delete"),
                        KeyValue(key="retention.ms", value="-1"),
                        KeyValue(key="segment.bytes", value="52428800"),
                    ],
                )
            ],
            state_changelog_topics=[
                TopicInfo(name="g-log", topic_configs=[KeyValue(key="cleanup.policy", value="compact")])
            ],
        ),
    )
    answer = until_running(client, heartbeat(client, join("m", message)).member_epoch)
    assert {each.subtopology_id: each.partitions for each in answer.active_tasks} == {
        "0": [0, 1],
        "1": [0, 1],
    }
    configs = topic_configs(client, "g-words")
    assert (configs["cleanup.policy"], configs["retention.ms"]) == ("delete", "-1")
    assert configs["segment.bytes"] == "52428800"
    assert topic_configs(client, "g-log")["cleanup.policy"] == "compact"


def test_the_status_says_why_a_topic_could_not_be_created(client: RawClient) -> None:
    message = topology(subtopology("0", ["t"], changelogs=["g-log"]))
    message.subtopologies[0].state_changelog_topics[0].topic_configs = [
        KeyValue(key="cleanup.policy", value="x")
    ]
    epoch = heartbeat(client, join("m", message)).member_epoch
    deadline = time.monotonic() + PATIENCE
    while True:
        (status,) = heartbeat(client, beat("m", epoch)).status
        assert status.status_code == MISSING_INTERNAL_TOPICS
        if "Creation failed: g-log (Invalid value x" in status.status_detail:
            return
        assert time.monotonic() < deadline, status.status_detail


def test_topologies_that_cannot_be_run_are_refused(client: RawClient) -> None:
    answer = client.ask(join("m", topology(subtopology("0", ["__consumer_offsets"]))), 0)
    assert answer.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert "internal topics __consumer_offsets" in answer.error_message


def test_a_group_is_described(client: RawClient) -> None:
    run_word_count(client)
    group, missing = describe(client, "g", "missing")
    assert (missing.error_code, missing.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group missing not found.",
    )
    assert (group.error_code, group.group_state) == (ErrorCode.NONE, "Stable")
    assert group.group_epoch == group.assignment_epoch
    first, second = group.topology.subtopologies
    assert (first.source_topics, first.repartition_sink_topics) == (["t"], ["app-words-repartition"])
    assert [(each.name, each.partitions) for each in second.repartition_source_topics] == [
        ("app-words-repartition", 2)
    ]
    assert [(each.name, each.partitions) for each in second.state_changelog_topics] == [
        ("app-words-changelog", 2)
    ]
    (member,) = group.members
    assert (member.member_id, member.process_id, member.topology_epoch) == ("m", "process-m", 0)
    assert member.assignment.active_tasks == member.target_assignment.active_tasks
    assert not member.is_classic


def test_groups_are_listed_by_type_and_state(client: RawClient) -> None:
    heartbeat(client, join("m", topology(subtopology("0", ["missing"]))))
    join_classic(client, "classic")
    shown = {"g": ("streams", "NotReady", "streams")}
    assert list_groups(client, types_filter=["Streams"]) == shown
    assert list_groups(client, states_filter=["NotReady"]) == shown
    assert list_groups(client, states_filter=["not_ready"]) == shown
    assert list_groups(client, states_filter=["Stable"], types_filter=["streams"]) == {}


def test_tools_for_classic_groups_are_told_that_it_is_none(client: RawClient) -> None:
    run_word_count(client)
    (group,) = client.ask(DescribeGroupsRequest(groups=["g"]), 6).groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_with_members_is_not_deleted_and_no_classic_member_joins_it(client: RawClient) -> None:
    run_word_count(client)
    (result,) = client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert result.error_code == ErrorCode.NON_EMPTY_GROUP
    assert client.ask(join_request("g"), 9).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    heartbeat(client, beat("m", -1))
    (result,) = client.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert result.error_code == ErrorCode.NONE
    assert list_groups(client) == {}


def test_a_classic_member_may_join_when_all_have_left(client: RawClient) -> None:
    epoch = run_word_count(client).member_epoch
    commit(client, "g", {("t", 0): 7}, generation_id_or_member_epoch=epoch, member_id="m")
    heartbeat(client, beat("m", -1))
    join_classic(client, "g")
    assert list_groups(client)["g"][2] == "classic"
    assert committed(fetch_offsets(client, "g", None)) == {("t", 0): 7}


def test_offsets_are_fenced_by_the_epoch_of_the_member(client: RawClient) -> None:
    epoch = run_word_count(client).member_epoch

    def commit_at(at: int, member: str = "m", topic: str = "t") -> ErrorCode:
        fields: dict[str, Any] = {"generation_id_or_member_epoch": at, "member_id": member}
        return commit(client, "g", {(topic, 0): 5}, **fields)[topic, 0]

    assert commit_at(epoch) is ErrorCode.NONE
    assert commit_at(epoch, topic="app-words-repartition") is ErrorCode.NONE
    assert commit_at(epoch + 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit_at(epoch - 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit_at(epoch, member="n") is ErrorCode.UNKNOWN_MEMBER_ID
    assert committed(fetch_offsets(client, "g", {"t": [0]})) == {("t", 0): 5}


def test_settings_of_a_group_take_effect(client: RawClient) -> None:
    setting = AlterableConfig(name="streams.heartbeat.interval.ms", value="7000")
    resource = AlterConfigsResource(resource_type=GROUP, resource_name="g", configs=[setting])
    (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == ErrorCode.NONE
    assert heartbeat(client, join("m")).heartbeat_interval_ms == 7_000


def test_an_internal_topic_that_was_deleted_is_created_again(client: RawClient) -> None:
    epoch = run_word_count(client).member_epoch
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="app-words-changelog")], timeout_ms=10_000)
    assert client.ask(request, 6).responses[0].error_code == ErrorCode.NONE
    deadline = time.monotonic() + PATIENCE
    while describe(client, "g")[0].group_state != "NotReady":
        epoch = heartbeat(client, beat("m", epoch)).member_epoch
        assert time.monotonic() < deadline
    while describe(client, "g")[0].group_state == "NotReady":
        epoch = heartbeat(client, beat("m", epoch)).member_epoch
        assert time.monotonic() < deadline
    assert "app-words-changelog" in topic_names(client)


def topic_names(client: RawClient) -> set[str]:
    return {each.name for each in client.ask(MetadataRequest(topics=None), 12).topics}


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_group_survives_a_restart(tmp_path: Path, is_killed: bool) -> None:
    config = {"durability": "fsync"}
    broker = kafkapy.Broker(config=config, data_dir=tmp_path)
    broker.start()
    try:
        with RawClient(broker.bootstrap_servers) as client:
            prepare(client)
            epoch = run_word_count(client).member_epoch
            commit(client, "g", {("t", 1): 4}, generation_id_or_member_epoch=epoch, member_id="m")
            (before,) = describe(client, "g")
    finally:
        broker.kill() if is_killed else broker.stop()
    with (
        kafkapy.Broker(config=config, data_dir=tmp_path) as again,
        RawClient(again.bootstrap_servers) as client,
    ):
        find_coordinator(client, "g")
        deadline = time.monotonic() + PATIENCE
        while (found := describe(client, "g")[0]).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            assert time.monotonic() < deadline
        assert (found.group_epoch, found.assignment_epoch) == (before.group_epoch, before.assignment_epoch)
        assert found.members[0].assignment.active_tasks == before.members[0].assignment.active_tasks
        answer = heartbeat(client, beat("m", epoch))
        assert (answer.member_epoch, answer.active_tasks) == (epoch, None), "a restart is no rebalance"
        assert committed(fetch_offsets(client, "g", None)) == {("t", 1): 4}
