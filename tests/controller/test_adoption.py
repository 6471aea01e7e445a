"""Logs that a new tree does not know become topics again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import kafkapy
from kafkapy.configs.config import BrokerConfig
from kafkapy.controller.adoption import FoundLog, adopt_logs
from kafkapy.controller.topic_plans import TopicPlanner
from kafkapy.metadata.image import MetadataImage, Topic
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.types import TopicPartition, random_uuid
from tests.network.raw_client import RawClient


def ask(broker: kafkapy.Broker, request: TopMessage, version: int) -> Any:
    with RawClient(broker.bootstrap_servers) as client:
        return client.ask(request, version)


def test_a_broker_whose_metadata_is_lost_finds_its_topics_in_its_logs(tmp_path: Path) -> None:
    with kafkapy.Broker(data_dir=tmp_path) as broker:
        new = CreatableTopic(name="t", num_partitions=3, replication_factor=1)
        created = ask(broker, CreateTopicsRequest(topics=[new]), 7).topics[0]
    (database,) = tmp_path.rglob("metadata.db")
    database.unlink()
    with kafkapy.Broker(data_dir=tmp_path) as broker:
        (found,) = ask(broker, MetadataRequest(topics=None), 12).topics
    assert (found.name, found.topic_id, len(found.partitions)) == ("t", created.topic_id, 3)


def adopt(found: dict[tuple[str, int], FoundLog]) -> dict[str, Topic]:
    planner = TopicPlanner(BrokerConfig({}), random.Random(1))
    logs = {TopicPartition(*key): log for key, log in found.items()}
    return {topic.name: topic for topic in adopt_logs(logs, 1, planner, MetadataImage())}


def test_a_topic_keeps_its_id_and_goes_on_in_later_leader_epochs() -> None:
    topic_id = random_uuid()
    topics = adopt({("t", 1): FoundLog(topic_id, 7), ("t", 0): FoundLog(topic_id, -1)})
    assert topics["t"].id == topic_id
    assert [state.leader_epoch for state in topics["t"].partitions] == [0, 8]


def test_a_log_without_a_topic_id_gets_one() -> None:
    assert len(adopt({("t", 0): FoundLog(None, -1)})["t"].id) == 16


def test_nothing_is_deleted_from_a_topic_whose_settings_are_not_known() -> None:
    compacted = FoundLog(None, -1, compacted=True)
    topics = adopt({("t", 0): FoundLog(None, -1), ("u", 0): FoundLog(None, -1), ("u", 1): compacted})
    assert topics["t"].configs == {"retention.ms": "-1"}
    assert topics["u"].configs == {"cleanup.policy": "compact"}


def test_an_internal_topic_has_the_settings_of_its_kind() -> None:
    topics = adopt({("__consumer_offsets", 0): FoundLog(None, -1)})
    assert topics["__consumer_offsets"].configs["cleanup.policy"] == "compact"


@pytest.mark.parametrize("second", [("t", 2), ("t", 1)])
def test_logs_that_do_not_belong_together_are_left_alone(
    second: tuple[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    other = random_uuid() if second[1] == 1 else None
    topics = adopt(
        {("t", 0): FoundLog(random_uuid(), 0), second: FoundLog(other, 0), ("u", 0): FoundLog(None, 0)}
    )
    assert list(topics) == ["u"]
    assert "The logs of t in the data directories are not those of one complete topic" in caplog.text
