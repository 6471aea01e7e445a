"""A change of producer.id.expiration.ms applies to existing and new logs.

It also applies after a restart.
"""

from __future__ import annotations

from pathlib import Path

from kafkapy import Broker
from kafkapy.configs.changes import Operator
from kafkapy.configs.kind import ResourceType
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.log.producers import ProducerStates
from tests.handlers.produce_client import batch, create_topic, produce
from tests.network.raw_client import RawClient, eventually

SETTING = "producer.id.expiration.ms"
DAY = "86400000"
NEVER_CHECKED = {"producer.id.expiration.check.interval.ms": "86400000"}


def expire_after(client: RawClient, milliseconds: str) -> None:
    change = AlterableConfig(name=SETTING, config_operation=Operator.SET, value=milliseconds)
    resource = AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name="1", configs=[change])
    (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == ErrorCode.NONE, answer


def send(client: RawClient, topic: str, sequence: int) -> int:
    """The error code."""
    (answer,) = produce(
        client, topic, batch(b"a", producer_id=7, producer_epoch=0, base_sequence=sequence, timestamp=1)
    )
    return answer.error_code


def producers(broker: Broker, topic: str) -> ProducerStates:
    log = broker.core.logs.get(TopicPartition(topic, 0))
    assert log is not None
    return log.producers


def test_producers_are_remembered_for_longer_at_once_in_new_logs_and_after_a_restart(tmp_path: Path) -> None:
    config = {SETTING: "1", **NEVER_CHECKED}
    with Broker(config=config, data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "old")
        expire_after(client, DAY)
        create_topic(client, "new")
        for topic in ("old", "new"):
            assert send(client, topic, 0) == ErrorCode.NONE
            in_an_hour = broker.core.clock.now_ms() + 3_600_000
            assert producers(broker, topic).expire(in_an_hour) == 0
    with Broker(config=config, data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        for topic in ("old", "new"):
            assert send(client, topic, 7) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_producers_are_forgotten_sooner_at_once(tmp_path: Path) -> None:
    config = {"producer.id.expiration.check.interval.ms": "20"}
    with Broker(config=config, data_dir=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "old")
        assert send(client, "old", 0) == ErrorCode.NONE
        assert send(client, "old", 7) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        expire_after(client, "1")
        eventually(lambda: not len(producers(broker, "old")), "the producer to be forgotten")
        assert send(client, "old", 7) == ErrorCode.NONE
