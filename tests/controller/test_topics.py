"""Topics are created, grown and deleted, or refused in Kafka's words."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from kafkapy.controller.topic_plans import MorePartitions, NewTopic
from kafkapy.metadata.sqlite_tree import SqliteTree
from kafkapy.metadata.store import Create, MetadataStoreError, Operation
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import random_uuid, uuid_to_text


async def create(cluster: Any, *topics: NewTopic) -> dict[str, Any]:
    results: dict[str, Any] = await cluster.admin.topics.create_topics(topics)
    return results


async def refusal(cluster: Any, new: NewTopic) -> tuple[ErrorCode, str | None]:
    """The error of a refused topic, which must have changed nothing."""
    before = cluster.image
    error = (await create(cluster, new))[new.name]
    assert isinstance(error, KafkaError), error
    assert cluster.image is before
    return error.code, error.message


async def test_a_created_topic_is_in_the_image_and_in_kafkas_nodes(cluster: Any) -> None:
    topic = (await create(cluster, NewTopic("orders", 2, configs={"retention.ms": "5"})))["orders"]
    assert cluster.image.topics["orders"] is topic
    assert cluster.image.topics_by_id[topic.id] is topic
    assert cluster.image.topic_name(topic.id) == "orders"
    tree = {path: node.data for path, node in (await cluster.store.subtree("/brokers/topics")).items()}
    assert json.loads(tree.pop("/brokers/topics/orders")) == {
        "version": 3,
        "topic_id": uuid_to_text(topic.id),
        "partitions": {"0": [1], "1": [1]},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    state = {"version": 1, "leader": 1, "leader_epoch": 0, "controller_epoch": 1, "isr": [1]}
    for index in range(2):
        assert json.loads(tree.pop(f"/brokers/topics/orders/partitions/{index}/state")) == state
        assert tree.pop(f"/brokers/topics/orders/partitions/{index}") == b""
    assert tree == {"/brokers/topics/orders/partitions": b""}
    config = json.loads((await cluster.store.get("/config/topics/orders")).data)
    assert config == {"version": 1, "config": {"retention.ms": "5"}}


async def test_followers_know_a_topic_before_its_creation_is_answered(cluster: Any) -> None:
    await create(cluster, NewTopic("t"))
    old, new = cluster.published[-1]
    assert "t" not in old.topics
    assert "t" in new.topics


async def test_minus_one_leaves_partitions_and_replicas_to_the_broker(start_cluster: Any) -> None:
    cluster = await start_cluster(num_partitions="3")
    topic = (await create(cluster, NewTopic("t", -1, -1)))["t"]
    assert [state.replicas for state in topic.partitions] == [(1,), (1,), (1,)]


async def test_topics_survive_a_restart(start_cluster: Any) -> None:
    cluster = await start_cluster()
    topic = (await create(cluster, NewTopic("t", 2, configs={"cleanup.policy": "compact"})))["t"]
    again = (await start_cluster()).image.topics["t"]
    assert (again.id, len(again.partitions), again.configs) == (topic.id, 2, {"cleanup.policy": "compact"})


async def test_a_refused_topic_does_not_stop_the_others(cluster: Any) -> None:
    results = await create(cluster, NewTopic("a"), NewTopic("b", 0), NewTopic("c"))
    assert isinstance(results["b"], KafkaError)
    assert list(cluster.image.topics) == ["a", "c"]


async def test_validation_alone_creates_nothing(cluster: Any) -> None:
    results = await cluster.admin.topics.create_topics([NewTopic("t", 7)], validate_only=True)
    assert len(results["t"].partitions) == 7
    assert not cluster.image.topics
    assert await cluster.store.children("/brokers/topics") == []


async def test_a_topic_cannot_be_created_twice(cluster: Any) -> None:
    await create(cluster, NewTopic("t"))
    assert await refusal(cluster, NewTopic("t")) == (
        ErrorCode.TOPIC_ALREADY_EXISTS,
        "Topic 't' already exists.",
    )


async def test_of_two_clients_that_create_a_topic_one_succeeds(cluster: Any) -> None:
    first, second = await asyncio.gather(create(cluster, NewTopic("t")), create(cluster, NewTopic("t")))
    assert first["t"] is cluster.image.topics["t"]
    assert second["t"].code is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a/b", "'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("ä", "'ä' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a\n", "'a\n' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
    ],
)
async def test_a_name_outside_of_kafkas_rules_is_refused(cluster: Any, name: str, reason: str) -> None:
    assert await refusal(cluster, NewTopic(name)) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic name is invalid: {reason}",
    )


async def test_the_longest_name_is_allowed(cluster: Any) -> None:
    name = "x" * 249
    assert (await create(cluster, NewTopic(name)))[name] is cluster.image.topics[name]


async def test_names_that_differ_in_dot_and_underscore_collide(cluster: Any) -> None:
    await create(cluster, NewTopic("a.b_c"))
    assert await refusal(cluster, NewTopic("a_b.c")) == (
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic 'a_b.c' collides with existing topic: a.b_c",
    )
    results = await create(cluster, NewTopic("x.y"), NewTopic("x_y"))
    assert results["x_y"].message == "Topic 'x_y' collides with existing topic: x.y"
    await cluster.admin.topics.delete_topics([cluster.image.topics["a.b_c"].id])
    assert not isinstance((await create(cluster, NewTopic("a_b.c")))["a_b.c"], KafkaError)


@pytest.mark.parametrize(
    ("new", "code", "message"),
    [
        (
            NewTopic("t", 0),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            NewTopic("t", 1, 0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            NewTopic("t", 1, 3),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be "
            "reached because only 1 broker(s) are registered.",
        ),
        (
            NewTopic("t", 1, -1, [(0, [1])]),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            NewTopic("t", -1, 1, [(0, [1])]),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            NewTopic("t", assignments=[(0, [1]), (0, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            NewTopic("t", assignments=[(0, [1]), (2, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            NewTopic("t", assignments=[(0, [])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            NewTopic("t", assignments=[(0, [2])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 2, but no such broker is registered.",
        ),
        (
            NewTopic("t", assignments=[(0, [1, 1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            NewTopic("t", configs={"retention.ms": None, "segment.ms": None}),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms,segment.ms",
        ),
        (
            NewTopic("t", configs={"no.such": "1"}),
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: no.such",
        ),
    ],
)
async def test_what_cannot_be_is_refused(cluster: Any, new: NewTopic, code: ErrorCode, message: str) -> None:
    assert await refusal(cluster, new) == (code, message)


async def test_a_manual_assignment_gives_the_partitions(cluster: Any) -> None:
    topic = (await create(cluster, NewTopic("t", assignments=[(1, [1]), (0, [1])])))["t"]
    assert [state.replicas for state in topic.partitions] == [(1,), (1,)]


async def test_a_request_with_too_many_partitions_is_refused(cluster: Any) -> None:
    with pytest.raises(KafkaError) as caught:
        await create(cluster, NewTopic("t"), NewTopic("huge", 2**31 - 1))
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    assert caught.value.message == "Excessively large number of partitions per request."
    assert not cluster.image.topics


async def test_many_topics_of_one_request_all_come_into_being(cluster: Any) -> None:
    results = await create(cluster, *(NewTopic(f"t{i}", 4) for i in range(100)))
    assert list(results) == list(cluster.image.topics) == [f"t{i}" for i in range(100)]


async def test_the_topics_of_one_request_share_the_commits_of_the_store(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits, go_on = 0, threading.Event()
    begin = SqliteTree.begin

    def counted(tree: SqliteTree) -> None:
        nonlocal commits
        commits += 1
        go_on.wait(30)
        begin(tree)

    monkeypatch.setattr(SqliteTree, "begin", counted)
    planned = 0

    async def count_planned(multi: Any, operations: list[Operation]) -> Any:
        nonlocal planned
        planned += sum(isinstance(each, Create) and each.path.endswith("/state") for each in operations)
        if planned == 500 * 4:
            go_on.set()
        return await multi(operations)

    cluster.store.intercept("multi", count_planned)
    try:
        async with asyncio.timeout(30):
            results = await create(cluster, *(NewTopic(f"t{i}", 4) for i in range(500)))
    finally:
        go_on.set()
    assert commits <= 2  # one of the requests that waited for the thread, one of the others, if there are any
    assert list(results) == list(cluster.image.topics)


async def test_the_topics_of_a_request_that_are_committed_are_published_though_others_are_not(
    cluster: Any,
) -> None:
    async def fail_once(multi: Any, operations: list[Operation]) -> Any:
        if any(each.path == "/brokers/topics/t20" for each in operations):
            raise MetadataStoreError("disk full")
        return await multi(operations)

    cluster.store.intercept("multi", fail_once)
    results = await create(cluster, *(NewTopic(f"t{i}", 8) for i in range(40)))
    refused = {name for name, result in results.items() if isinstance(result, KafkaError)}
    assert "t20" in refused
    assert 0 < len(refused) < 40
    assert set(cluster.image.topics) == set(results) - refused
    assert set(await cluster.store.children("/brokers/topics")) == set(results) - refused


async def test_a_store_that_fails_is_a_storage_error_and_nothing_is_published(cluster: Any) -> None:
    async def fail(*args: object) -> None:
        raise MetadataStoreError("disk full")

    cluster.store.intercept("multi", fail)
    assert await refusal(cluster, NewTopic("t")) == (
        ErrorCode.KAFKA_STORAGE_ERROR,
        "The metadata cannot be changed: disk full",
    )


# --- partitions -----------------------------------------------------------------------------------


async def grow(cluster: Any, *more: MorePartitions, validate_only: bool = False) -> dict[str, Any]:
    results: dict[str, Any] = await cluster.admin.topics.create_partitions(more, validate_only=validate_only)
    return results


async def test_partitions_are_added_after_the_existing_ones(start_cluster: Any) -> None:
    cluster = await start_cluster()
    before = (await create(cluster, NewTopic("t", 1)))["t"]
    assert await grow(cluster, MorePartitions("t", 3)) == {"t": None}
    topic = cluster.image.topics["t"]
    assert topic.id == before.id
    assert len(topic.partitions) == 3
    assert topic.partitions[0] is before.partitions[0]
    assert len((await start_cluster()).image.topics["t"].partitions) == 3


async def test_a_topic_can_grow_again_and_again(cluster: Any) -> None:
    await create(cluster, NewTopic("t", 1))
    results = await asyncio.gather(*(grow(cluster, MorePartitions("t", count)) for count in (2, 3, 4)))
    assert results == [{"t": None}] * 3
    assert len(cluster.image.topics["t"].partitions) == 4


async def test_growing_with_validation_alone_changes_nothing(cluster: Any) -> None:
    await create(cluster, NewTopic("t", 1))
    assert await grow(cluster, MorePartitions("t", 9), validate_only=True) == {"t": None}
    assert len(cluster.image.topics["t"].partitions) == 1


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (MorePartitions("absent", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (MorePartitions("t", 2), ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            MorePartitions("t", 1),
            ErrorCode.INVALID_PARTITIONS,
            "The topic t currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            MorePartitions("t", 4, [[1]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            MorePartitions("t", 3, [[7]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 7, but no such broker is registered.",
        ),
        (
            MorePartitions("t", 2**31 - 1),
            ErrorCode.POLICY_VIOLATION,
            "Unable to perform excessively large batch operation.",
        ),
    ],
)
async def test_growth_that_cannot_be_is_refused(
    cluster: Any, more: MorePartitions, code: ErrorCode, message: str | None
) -> None:
    await create(cluster, NewTopic("t", 2))
    error = (await grow(cluster, more))[more.topic]
    assert (error.code, error.message) == (code, message)
    assert len(cluster.image.topics["t"].partitions) == 2


# --- deletion -------------------------------------------------------------------------------------


async def test_a_deleted_topic_leaves_nothing_and_its_name_is_free(cluster: Any) -> None:
    before = await cluster.store.subtree("/")
    topic = (await create(cluster, NewTopic("t", 2)))["t"]
    assert await cluster.admin.topics.delete_topics([topic.id]) == {topic.id: None}
    assert not cluster.image.topics
    assert not cluster.image.topics_by_id
    assert (await cluster.store.subtree("/")).keys() == before.keys()
    again = (await create(cluster, NewTopic("t")))["t"]
    assert again.id != topic.id


async def test_an_unknown_topic_id_cannot_be_deleted(cluster: Any) -> None:
    topic = (await create(cluster, NewTopic("t")))["t"]
    unknown = random_uuid()
    results = await cluster.admin.topics.delete_topics([unknown, topic.id])
    assert results[unknown].code is ErrorCode.UNKNOWN_TOPIC_ID
    assert results[topic.id] is None


# --- automatic creation ---------------------------------------------------------------------------


async def test_an_automatic_topic_takes_the_brokers_defaults(start_cluster: Any) -> None:
    cluster = await start_cluster(num_partitions="4")
    results = await cluster.admin.topics.auto_create(["a", "b", "a.b", "a_b"])
    assert len(results["a"].partitions) == 4
    assert results["a_b"].code is ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_name_that_cannot_be_is_not_created_automatically(start_cluster: Any) -> None:
    cluster = await start_cluster(default_replication_factor="2")
    results = await cluster.admin.topics.auto_create(["t"])
    assert results["t"].code is ErrorCode.INVALID_REPLICATION_FACTOR


async def test_a_topic_that_someone_else_changed_is_read_anew_before_it_grows(cluster: Any) -> None:
    topic = (await create(cluster, NewTopic("t")))["t"]
    data = json.loads((await cluster.store.get("/brokers/topics/t")).data)
    data["partitions"] = {"0": [1], "1": [1]}
    await cluster.store.set("/brokers/topics/t", json.dumps(data).encode())
    assert await grow(cluster, MorePartitions("t", 3)) == {"t": None}
    assert cluster.image.topics["t"].id == topic.id
    assert len(cluster.image.topics["t"].partitions) == 3
    error = (await grow(cluster, MorePartitions("t", 2)))["t"]
    assert error.code is ErrorCode.INVALID_PARTITIONS
