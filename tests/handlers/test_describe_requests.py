"""DescribeCluster, DescribeTopicPartitions and DescribeLogDirs show the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy import handlers
from kafkapy.controller.topic_plans import NewTopic
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_cluster import DescribeClusterRequest
from kafkapy.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kafkapy.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kafkapy.protocol.types import ApiKey


def versions(key: ApiKey) -> list[int]:
    api = handlers.BY_KEY[key]
    return list(range(api.min_version, api.max_version + 1))


@pytest.fixture
async def world(start_world: Any) -> Any:
    """A world with topics `a` of three partitions and `b` of two."""
    world = await start_world(**{"broker.rack": "r1"})
    await world.admin.topics.create_topics([NewTopic("b", 2), NewTopic("a", 3)])
    return world


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CLUSTER))
async def test_every_version_describes_the_cluster(world: Any, version: int) -> None:
    response = await world.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert (response.cluster_id, response.controller_id) == ("kafkapy-tests-clusterX", 1)
    (broker,) = response.brokers
    assert (broker.broker_id, broker.host, broker.port, broker.rack) == (1, "localhost", 9092, "r1")
    assert response.cluster_authorized_operations == 8096


async def test_operations_are_not_told_unless_asked_for(world: Any) -> None:
    response = await world.ask(DescribeClusterRequest(), 0)
    assert response.cluster_authorized_operations == -(2**31)


@pytest.mark.parametrize(
    ("endpoint_type", "code", "message"),
    [
        (
            2,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER",
        ),
        (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 9"),
    ],
)
async def test_controllers_are_not_to_be_had_from_a_broker(
    world: Any, endpoint_type: int, code: ErrorCode, message: str
) -> None:
    response = await world.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
    assert (response.error_code, response.error_message, response.brokers) == (code, message, [])


async def page(
    world: Any, names: list[str], limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    """The partitions on one page, and where the next one begins."""
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    response = await world.ask(request, 0)
    assert all(topic.error_code == ErrorCode.NONE for topic in response.topics)
    following = response.next_cursor
    return (
        [(topic.name, [p.partition_index for p in topic.partitions]) for topic in response.topics],
        None if following is None else (following.topic_name, following.partition_index),
    )


async def test_partitions_come_in_the_order_of_topics(world: Any) -> None:
    assert await page(world, []) == ([("a", [0, 1, 2]), ("b", [0, 1])], None)
    assert await page(world, ["b", "a", "a"]) == ([("a", [0, 1, 2]), ("b", [0, 1])], None)


async def test_each_page_says_where_the_next_begins(world: Any) -> None:
    assert await page(world, [], 2) == ([("a", [0, 1])], ("a", 2))
    assert await page(world, [], 2, ("a", 2)) == ([("a", [2]), ("b", [0])], ("b", 1))
    assert await page(world, [], 2, ("b", 1)) == ([("b", [1])], None)
    assert await page(world, [], 3) == ([("a", [0, 1, 2])], ("b", 0))


async def test_a_page_has_at_least_one_partition_and_at_most_what_the_broker_allows(start_world: Any) -> None:
    world = await start_world(**{"max.request.partition.size.limit": "2"})
    await world.admin.topics.create_topics([NewTopic("a", 3)])
    assert await page(world, [], 0) == ([("a", [0])], ("a", 1))
    assert await page(world, []) == ([("a", [0, 1])], ("a", 2))


async def test_a_cursor_may_point_at_a_topic_or_partition_that_is_gone(world: Any) -> None:
    assert await page(world, [], 9, ("aa", 5)) == ([("b", [0, 1])], None)
    assert await page(world, [], 2, ("a", 50)) == ([("a", []), ("b", [0, 1])], None)


@pytest.mark.parametrize("cursor", [("zz", 0), ("a", -1)])
async def test_a_cursor_outside_of_the_topics_is_refused(world: Any, cursor: tuple[str, int]) -> None:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name="a")], cursor=Cursor(topic_name=cursor[0], partition_index=cursor[1])
    )
    (topic,) = (await world.ask(request, 0)).topics
    assert (topic.name, topic.error_code, topic.partitions) == ("a", ErrorCode.INVALID_REQUEST, [])


async def test_partitions_are_described_with_leader_replicas_and_operations(world: Any) -> None:
    topics = [TopicRequest(name=name) for name in ("b", "absent", "a/b")]
    known = {t.name: t for t in (await world.ask(DescribeTopicPartitionsRequest(topics=topics), 0)).topics}
    assert known["b"].topic_id == world.metadata.image.topics["b"].id
    assert known["absent"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert known["a/b"].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert {topic.topic_authorized_operations for topic in known.values()} == {3576}
    partition = known["b"].partitions[0]
    assert (partition.leader_id, partition.leader_epoch) == (1, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1], [1], [])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_LOG_DIRS))
async def test_every_version_describes_log_directories(world: Any, version: int) -> None:
    world.replicas.partition("a", 1).log.size = 77
    (result,) = (await world.ask(DescribeLogDirsRequest(topics=None), version)).results
    assert (result.error_code, result.log_dir) == (ErrorCode.NONE, str(world.path))
    sizes = {
        (topic.name, p.partition_index): (p.partition_size, p.offset_lag, p.is_future_key)
        for topic in result.topics
        for p in topic.partitions
    }
    assert len(sizes) == 5
    assert sizes["a", 1] == (77, 0, False)
    if version >= 4:
        assert 0 < result.usable_bytes < result.total_bytes
    assert not result.is_cordoned


async def test_only_partitions_asked_for_and_there_are_described(world: Any) -> None:
    topics = [
        DescribableLogDirTopic(topic="a", partitions=[2, 9]),
        DescribableLogDirTopic(topic="absent", partitions=[0]),
    ]
    (result,) = (await world.ask(DescribeLogDirsRequest(topics=topics), 4)).results
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in result.topics] == [("a", [2])]
    (result,) = (await world.ask(DescribeLogDirsRequest(topics=[]), 4)).results
    assert result.topics == []


async def test_a_directory_that_failed_is_named_with_its_error(world: Any) -> None:
    world.log_dir.error = OSError("disk failed")
    (result,) = (await world.ask(DescribeLogDirsRequest(topics=None), 4)).results
    assert (result.error_code, result.log_dir) == (ErrorCode.KAFKA_STORAGE_ERROR, str(world.path))


async def test_a_directory_that_cannot_be_looked_at_is_named_with_its_error(world: Any) -> None:
    world.log_dir.path = str(world.path / "gone")
    (result,) = (await world.ask(DescribeLogDirsRequest(topics=None), 4)).results
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
