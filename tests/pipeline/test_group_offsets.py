"""The position as a consumer group: what lag tools see, and what a failure does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

import kafkapy
from kafkapy.cli import main
from kafkapy.pipeline.definition import PipelineDefinition
from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.run.group_offsets import RENEW, RETRY, GroupOffsets
from kafkapy.pipeline.topics import Topics
from tests.pipeline.conftest import MakeTopic


def define(topic: str, bootstrap: str, folder: Path, **values: Any) -> PipelineDefinition:
    given = {"topic": topic, "bootstrap": bootstrap, "table": "delta:orders", **values}
    return PipelineDefinition.from_mapping(given, folder=folder)


def committed(bootstrap: str, group: str) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {place.partition: place.offset for place in future.result(10).topic_partitions}


class Unreliable:
    """Topics whose commits fail while `away`."""

    def __init__(self) -> None:
        self.away = False
        self.commits: list[dict[int, int]] = []

    def commit_group_offsets(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        if self.away:
            raise PipelineError("cannot reach a Kafka broker at 127.0.0.1:9092; start it")
        self.commits.append(dict(offsets))


class Rig:
    """Group offsets whose topics and clock are the test's."""

    def __init__(self, folder: Path, **values: Any) -> None:
        self.topics, self.notes, self.now = Unreliable(), list[str](), 0.0
        definition = define("orders", "127.0.0.1:1", folder, **{"group": "orders-table", **values})
        topics: Any = self.topics
        self.offsets = GroupOffsets(definition, topics, self.notes.append, lambda: self.now)


def test_lag_tools_see_the_position_as_the_group_that_is_named(
    make_topic: MakeTopic, bootstrap: str, topics: Topics, tmp_path: Path
) -> None:
    topic = make_topic(partitions=3, records=10)
    GroupOffsets(define(topic, bootstrap, tmp_path), topics, pytest.fail).publish({0: 4})
    named = define(topic, bootstrap, tmp_path, group=f"{topic}-table")
    offsets = GroupOffsets(named, topics, pytest.fail)
    offsets.publish({0: 4, 1: 1, 2: 0})
    told = CliRunner().invoke(
        main, ["lag", f"{topic}-table", "--bootstrap-server", bootstrap, "--format", "json"]
    )
    rows = json.loads(told.output)
    assert [(row["partition"], row["committed"], row["lag"]) for row in rows] == [
        (0, 4, 0),
        (1, 1, 2),
        (2, 0, 3),
    ]
    # A reset goes back, and so does the group.
    offsets.publish({0: 1, 1: 1, 2: 0})
    assert committed(bootstrap, f"{topic}-table") == {0: 1, 1: 1, 2: 0}


def test_a_position_is_committed_once_and_again_before_a_broker_forgets_it(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.offsets.renew()
    for position in ({0: 1}, {0: 1}, {}, {0: 2}):
        rig.offsets.publish(position)
    rig.now = RENEW - 1
    rig.offsets.renew()
    assert rig.topics.commits == [{0: 1}, {0: 2}]
    rig.now = RENEW
    rig.offsets.renew()
    rig.offsets.renew()
    assert rig.topics.commits == [{0: 1}, {0: 2}, {0: 2}]
    assert rig.notes == []


def test_a_failure_is_told_once_and_tried_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.topics.away = True
    rig.offsets.publish({0: 1})
    rig.offsets.publish({0: 2})
    rig.now = RETRY
    rig.offsets.renew()
    assert rig.notes == [
        "orders: cannot reach a Kafka broker at 127.0.0.1:9092; start it; "
        "the run continues, only tools that show lag miss it"
    ]
    rig.topics.away, rig.now = False, 2 * RETRY
    rig.offsets.renew()
    assert rig.topics.commits == [{0: 2}]
    rig.topics.away = True
    rig.offsets.publish({0: 3})
    assert len(rig.notes) == 2


@pytest.fixture
def guarded() -> Iterator[str]:
    """A broker that lets everybody do what no ACL is about."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with kafkapy.Broker(config=settings) as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize(
    ("kind", "name"), [(ResourceType.GROUP, "orders-table"), (ResourceType.TOPIC, "orders")]
)
def test_the_rights_that_are_missing_are_named(
    kind: ResourceType, name: str, guarded: str, tmp_path: Path
) -> None:
    topics = Topics(guarded)
    assert topics.create("orders")
    read, allow = AclOperation.READ, AclPermissionType.ALLOW
    others = AclBinding(kind, name, ResourcePatternType.LITERAL, "User:ann", "*", read, allow)
    admin = AdminClient({"bootstrap.servers": guarded})
    for future in admin.create_acls([others]).values():
        future.result(10)
    notes: list[str] = []
    GroupOffsets(define("orders", guarded, tmp_path, group="orders-table"), topics, notes.append).publish(
        {0: 0}
    )
    (told,) = notes
    assert told.startswith("orders: publishing the position as group orders-table failed: Broker: ")
    assert "; allow this client READ on the group orders-table and on the topic orders; the run cont" in told


def test_a_group_that_consumers_use_is_left_to_them(
    make_topic: MakeTopic, bootstrap: str, topics: Topics, tmp_path: Path
) -> None:
    topic = make_topic(records=3)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"{topic}-app", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        with pytest.raises(PipelineError, match="consumers of their own use this group: name another"):
            topics.commit_group_offsets(f"{topic}-app", topic, {0: 1})
    finally:
        consumer.close()
