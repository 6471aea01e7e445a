"""Which log directory holds the metadata, and what a broker does without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kafkapy
from kafkapy.broker.core import StartError
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.network.raw_client import RawClient


def broker_on(*dirs: Path) -> kafkapy.Broker:
    return kafkapy.Broker(config={"log.dirs": ",".join(map(str, dirs))})


def created(tmp_path: Path) -> tuple[Path, Path]:
    """Two directories of a broker with a topic."""
    a, b = tmp_path / "a", tmp_path / "b"
    with broker_on(a, b) as broker, RawClient(broker.bootstrap_servers) as client:
        configs = [CreatableTopicConfig(name="retention.ms", value="-1")]
        topic = CreatableTopic(name="t", num_partitions=4, replication_factor=1, configs=configs)
        assert client.ask(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code == 0
    return a, b


def partitions(broker: kafkapy.Broker) -> list[Any]:
    """Error codes of the topic's partitions."""
    with RawClient(broker.bootstrap_servers) as client:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
        (topic,) = client.ask(request, 12).topics
    return sorted(partition.error_code for partition in topic.partitions)


def test_metadata_are_found_in_whichever_directory_holds_them(tmp_path: Path) -> None:
    a, b = created(tmp_path)
    with broker_on(b, a) as broker:
        assert partitions(broker) == [0, 0, 0, 0]
        assert broker.core.metadata.image.topics["t"].configs == {"retention.ms": "-1"}
    assert not (b / "metadata.db").exists()


def test_partitions_of_a_missing_directory_are_offline(tmp_path: Path) -> None:
    a, _ = created(tmp_path)
    with broker_on(a) as broker:
        assert partitions(broker) == [0, 0, 5, 5]  # LEADER_NOT_AVAILABLE
    assert sorted(path.name for path in a.glob("t-*")) == ["t-0", "t-2"]


def test_a_broker_does_not_begin_anew_without_the_directory_that_holds_its_metadata(tmp_path: Path) -> None:
    a, b = created(tmp_path)
    with pytest.raises(StartError, match=f"log directory {a} is offline or missing"), broker_on(b):
        pass
    a.rename(tmp_path / "elsewhere")
    a.mkdir()
    with pytest.raises(StartError, match=f"log directory {a} is offline or missing"), broker_on(a, b):
        pass


def test_two_metadata_files_are_refused(tmp_path: Path) -> None:
    a, b = created(tmp_path)
    (b / "metadata.db").write_bytes((a / "metadata.db").read_bytes())
    with pytest.raises(StartError, match="metadata of two brokers"), broker_on(a, b):
        pass
