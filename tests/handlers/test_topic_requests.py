"""CreateTopics, DeleteTopics, CreatePartitions and DeleteRecords answer topic by topic."""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy import handlers
from kafkapy.controller.topic_plans import NewTopic
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafkapy.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkapy.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkapy.protocol.types import ZERO_UUID, ApiKey, random_uuid


def versions(key: ApiKey) -> list[int]:
    api = handlers.BY_KEY[key]
    return list(range(api.min_version, api.max_version + 1))


@pytest.fixture
async def world(start_world: Any) -> Any:
    return await start_world()


def new(name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ],
    )


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_TOPICS))
async def test_every_version_creates_topics(world: Any, version: int) -> None:
    response = await world.ask(
        CreateTopicsRequest(topics=[new("t", 2, retention_ms="5"), new("..")]), version
    )
    created, refused = response.topics
    topic = world.metadata.image.topics["t"]
    assert (created.name, created.error_code) == ("t", ErrorCode.NONE)
    assert len(topic.partitions) == 2
    assert created.topic_id == (topic.id if version >= 7 else ZERO_UUID)
    assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert response.throttle_time_ms == 0
    if version >= 1:
        assert created.error_message is None
        assert refused.error_message == "Topic name is invalid: '..' is not allowed"
    if version >= 5:
        assert (created.num_partitions, created.replication_factor) == (2, 1)
        configs = {config.name: config for config in created.configs}
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
        assert (configs["segment.ms"].value, configs["segment.ms"].config_source) == ("604800000", 5)
        assert list(configs) == sorted(configs)
        assert (refused.num_partitions, refused.configs) == (-1, [])


async def test_only_the_controller_changes_topics(world: Any) -> None:
    await world.admin.topics.create_topics([NewTopic("t")])
    await world.admin.writer.resign()
    create = CreateTopicsRequest(topics=[CreatableTopic(name=name) for name in ("u", "__cluster_metadata")])
    grow = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=2) for name in "tuu"])
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="t"), DeleteTopicState(name="absent")])
    answers = [
        *(await world.ask(create, 7)).topics,
        *(await world.ask(grow, 3)).results,
        *(await world.ask(delete, 6)).responses,
    ]
    assert [(each.name, each.error_code) for each in answers] == [
        (name, ErrorCode.NOT_CONTROLLER) for name in ("u", "__cluster_metadata", "t", "u", "t", "absent")
    ]
    assert list(world.metadata.image.topics) == ["t"]


async def test_a_topic_named_twice_is_refused_once(world: Any) -> None:
    response = await world.ask(CreateTopicsRequest(topics=[new("t"), new("u"), new("t")]), 7)
    assert [(topic.name, topic.error_code, topic.error_message) for topic in response.topics] == [
        ("t", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        ("u", ErrorCode.NONE, None),
    ]
    assert list(world.metadata.image.topics) == ["u"]


async def test_the_metadata_topic_of_kraft_cannot_be_created(world: Any) -> None:
    (topic,) = (await world.ask(CreateTopicsRequest(topics=[new("__cluster_metadata")]), 7)).topics
    assert topic.error_code == ErrorCode.INVALID_REQUEST
    assert topic.error_message == "Creation of internal topic __cluster_metadata is prohibited."


async def test_validation_alone_answers_as_creation_would(world: Any) -> None:
    (topic,) = (await world.ask(CreateTopicsRequest(topics=[new("t", 3)], validate_only=True), 7)).topics
    assert (topic.error_code, topic.num_partitions) == (ErrorCode.NONE, 3)
    assert not world.metadata.image.topics


async def test_an_assignment_of_replicas_is_followed(world: Any) -> None:
    topic = CreatableTopic(
        name="t",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])],
    )
    (created,) = (await world.ask(CreateTopicsRequest(topics=[topic]), 7)).topics
    assert (created.error_code, created.num_partitions) == (ErrorCode.NONE, 1)


async def test_a_request_too_large_is_refused_topic_by_topic(world: Any) -> None:
    response = await world.ask(CreateTopicsRequest(topics=[new("t"), new("u", 2**31 - 1)]), 7)
    assert {topic.error_code for topic in response.topics} == {ErrorCode.POLICY_VIOLATION}


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_TOPICS))
async def test_every_version_deletes_topics(world: Any, version: int) -> None:
    await world.admin.topics.create_topics([NewTopic("t"), NewTopic("u")])
    names = ["t", "absent"]
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names])
    if version < 6:
        request = DeleteTopicsRequest(topic_names=names)
    response = await world.ask(request, version)
    answers = {answer.name: answer for answer in response.responses}
    assert answers["t"].error_code == ErrorCode.NONE
    assert answers["absent"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if version >= 5:
        assert answers["t"].error_message is None
        assert answers["absent"].error_message == "This server does not host this topic-partition."
    assert list(world.metadata.image.topics) == ["u"]


async def test_topics_are_deleted_by_id_and_ambiguous_ones_are_not(world: Any) -> None:
    await world.admin.topics.create_topics([NewTopic(name) for name in "abcd"])
    ids = {name: topic.id for name, topic in world.metadata.image.topics.items()}
    unknown = random_uuid()
    states = [
        DeleteTopicState(topic_id=ids["a"]),
        DeleteTopicState(name="b", topic_id=ids["b"]),
        DeleteTopicState(name="c"),
        DeleteTopicState(topic_id=ids["c"]),
        DeleteTopicState(name="d"),
        DeleteTopicState(name="d"),
        DeleteTopicState(topic_id=unknown),
        DeleteTopicState(),
    ]
    response = await world.ask(DeleteTopicsRequest(topics=states), 6)
    assert len(response.responses) == 6
    assert {(answer.name, answer.error_code, answer.error_message) for answer in response.responses} == {
        (None, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."),
        ("b", ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."),
        (None, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
        ("d", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        (
            "c",
            ErrorCode.INVALID_REQUEST,
            "The provided topic name maps to an ID that was already supplied.",
        ),
        ("a", ErrorCode.NONE, None),
    }
    assert list(world.metadata.image.topics) == ["b", "c", "d"]


@pytest.mark.parametrize(
    ("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
async def test_no_topic_is_deleted_where_that_is_disabled(
    start_world: Any, version: int, code: ErrorCode
) -> None:
    world = await start_world(**{"delete.topic.enable": "false"})
    await world.admin.topics.create_topics([NewTopic("t")])
    (answer,) = (await world.ask(DeleteTopicsRequest(topic_names=["t"]), version)).responses
    assert (answer.name, answer.error_code) == ("t", code)
    assert list(world.metadata.image.topics) == ["t"]


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_PARTITIONS))
async def test_every_version_adds_partitions(world: Any, version: int) -> None:
    await world.admin.topics.create_topics([NewTopic("t"), NewTopic("u")])
    topics = [
        CreatePartitionsTopic(name="t", count=3, assignments=None),
        CreatePartitionsTopic(name="u", count=2, assignments=[CreatePartitionsAssignment(broker_ids=[1])]),
        CreatePartitionsTopic(name="absent", count=2, assignments=None),
    ]
    response = await world.ask(CreatePartitionsRequest(topics=topics), version)
    assert [(result.name, result.error_code, result.error_message) for result in response.results] == [
        ("t", ErrorCode.NONE, None),
        ("u", ErrorCode.NONE, None),
        ("absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
    ]
    assert {name: len(topic.partitions) for name, topic in world.metadata.image.topics.items()} == {
        "t": 3,
        "u": 2,
    }


async def test_a_topic_that_is_to_grow_twice_does_not_grow(world: Any) -> None:
    await world.admin.topics.create_topics([NewTopic("t")])
    topics = [CreatePartitionsTopic(name="t", count=count, assignments=None) for count in (2, 3)]
    (result,) = (await world.ask(CreatePartitionsRequest(topics=topics), 3)).results
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_RECORDS))
async def test_every_version_deletes_records(world: Any, version: int) -> None:
    await world.admin.topics.create_topics(
        [
            NewTopic("t", 3),
            NewTopic("compacted", configs={"cleanup.policy": "compact"}),
            NewTopic("both", configs={"cleanup.policy": "compact,delete"}),
            NewTopic("kept", configs={"cleanup.policy": ""}),
            NewTopic("__consumer_offsets"),
        ]
    )
    wanted = {
        "t": [(0, -1), (1, 4), (2, 11), (9, 0)],
        "compacted": [(0, 1)],
        "both": [(0, 1)],
        "kept": [(0, 1)],
        "__consumer_offsets": [(0, 1)],
        "absent": [(0, 1)],
    }
    topics = [
        DeleteRecordsTopic(
            name=name,
            partitions=[DeleteRecordsPartition(partition_index=p, offset=offset) for p, offset in partitions],
        )
        for name, partitions in wanted.items()
    ]
    response = await world.ask(DeleteRecordsRequest(topics=topics), version)
    answers = {
        (topic.name, p.partition_index): (p.low_watermark, p.error_code)
        for topic in response.topics
        for p in topic.partitions
    }
    assert answers == {
        ("t", 0): (10, ErrorCode.NONE),
        ("t", 1): (4, ErrorCode.NONE),
        ("t", 2): (-1, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("t", 9): (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("compacted", 0): (-1, ErrorCode.POLICY_VIOLATION),
        ("both", 0): (1, ErrorCode.NONE),
        ("kept", 0): (1, ErrorCode.NONE),
        ("__consumer_offsets", 0): (-1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("absent", 0): (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    }
