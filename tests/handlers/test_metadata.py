"""Metadata tells clients the leaders of partitions, and creates topics on demand."""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy import handlers
from kafkapy.controller.topic_plans import NewTopic
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.types import ZERO_UUID, ApiKey, random_uuid

VERSIONS = range(handlers.BY_KEY[ApiKey.METADATA].max_version + 1)
NOT_ASKED = -(2**31)


def about(*names: str, create: bool = False, **options: bool) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create, **options)


def by_id(*ids: bytes) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


@pytest.fixture
async def world(start_world: Any) -> Any:
    """A world with a topic `t` of two partitions and a topic `u`."""
    world = await start_world()
    await world.admin.topics.create_topics([NewTopic("t", 2), NewTopic("u", 1)])
    return world


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_tells_brokers_leaders_and_replicas(world: Any, version: int) -> None:
    response = await world.ask(about("t", create=version < 4), version)
    (broker,) = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "localhost", 9092)
    (topic,) = response.topics
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "t", False)
    assert [
        (p.error_code, p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes, p.offline_replicas)
        for p in topic.partitions
    ] == [(0, 0, 1, [1], [1], []), (0, 1, 1, [1], [1], [])]
    assert {p.leader_epoch for p in topic.partitions} == {0 if version >= 7 else -1}
    assert topic.topic_id == (world.metadata.image.topics["t"].id if version >= 10 else ZERO_UUID)
    assert response.cluster_id == ("kafkapy-tests-clusterX" if version >= 2 else None)
    assert response.controller_id == (1 if version >= 1 else -1)
    assert response.throttle_time_ms == response.error_code == 0
    assert response.cluster_authorized_operations == topic.topic_authorized_operations == NOT_ASKED


@pytest.mark.parametrize("version", VERSIONS)
async def test_all_topics_are_asked_for_by_none_in_v0_and_by_null_later(world: Any, version: int) -> None:
    response = await world.ask(MetadataRequest(topics=None if version else []), version)
    assert [topic.name for topic in response.topics] == ["t", "u"]


async def test_no_topics_are_asked_for_by_none(world: Any) -> None:
    assert (await world.ask(about(create=True), 1)).topics == []


async def test_a_topic_named_twice_is_answered_once(world: Any) -> None:
    assert [topic.name for topic in (await world.ask(about("t", "u", "t"), 9)).topics] == ["t", "u"]


async def test_a_broker_that_advertises_nothing_is_where_the_client_reached_it(start_world: Any) -> None:
    world = await start_world(host="")
    (broker,) = (await world.ask(about(), 9)).brokers
    assert (broker.host, broker.port) == ("10.1.2.3", 9092)


async def test_topics_that_do_not_exist_are_said_so_one_by_one(world: Any) -> None:
    response = await world.ask(about("t", "absent", "a/b", "__consumer_offsets"), 9)
    assert [(topic.name, topic.error_code, topic.is_internal) for topic in response.topics] == [
        ("t", ErrorCode.NONE, False),
        ("absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION, False),
        ("__consumer_offsets", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
    ]


async def test_topics_are_found_by_id(world: Any) -> None:
    known, unknown = world.metadata.image.topics["t"].id, random_uuid()
    response = await world.ask(by_id(known, unknown), 12)
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in response.topics] == [
        ("t", known, ErrorCode.NONE),
        (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


@pytest.mark.parametrize("version", [10, 11])
async def test_ids_are_refused_in_versions_that_only_answer_with_them(world: Any, version: int) -> None:
    topic_id = world.metadata.image.topics["t"].id
    response = await world.ask(
        MetadataRequest(topics=[MetadataRequestTopic(name="t", topic_id=topic_id)]), version
    )
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("t", ErrorCode.INVALID_REQUEST)]


@pytest.mark.parametrize("version", [10, 11, 12, 13])
async def test_a_topic_without_name_and_id_is_refused(world: Any, version: int) -> None:
    response = await world.ask(by_id(ZERO_UUID), version)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("", ErrorCode.INVALID_REQUEST)]


async def test_authorized_operations_are_told_when_asked_for(world: Any) -> None:
    options = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}
    response = await world.ask(about("t", "absent", **options), 8)
    assert response.cluster_authorized_operations == 8096
    assert {topic.topic_authorized_operations for topic in response.topics} == {3576}


async def test_a_topic_asked_for_is_created_and_can_be_written_to_at_once(start_world: Any) -> None:
    world = await start_world(**{"num.partitions": "3"})
    (topic,) = (await world.ask(about("new", create=True), 9)).topics
    assert (topic.error_code, len(topic.partitions)) == (ErrorCode.NONE, 3)
    assert world.replicas.partition("new", 2)


async def test_a_topic_is_not_created_when_the_client_does_not_want_it(world: Any) -> None:
    await world.ask(about("new"), 9)
    assert "new" not in world.metadata.image.topics


async def test_a_topic_is_not_created_when_the_broker_does_not_allow_it(start_world: Any) -> None:
    world = await start_world(**{"auto.create.topics.enable": "false"})
    (topic,) = (await world.ask(about("new", create=True), 9)).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not world.metadata.image.topics


async def test_a_topic_that_cannot_be_created_has_its_reason(start_world: Any) -> None:
    world = await start_world(**{"default.replication.factor": "2"})
    response = await world.ask(about("new", "a b", create=True), 9)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("new", ErrorCode.INVALID_REPLICATION_FACTOR),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)]
)
async def test_a_leader_without_the_clients_listener_is_not_named(
    world: Any, version: int, code: ErrorCode
) -> None:
    world.connection.listener.name = "OTHER"
    response = await world.ask(about("u"), version)
    assert response.brokers == []
    (partition,) = response.topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.offline_replicas) == (code, -1, [1])
