"""Settings that change in a running broker, and settings that have no effect."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import kafkapy
from kafkapy.broker.core import BrokerCore
from kafkapy.configs import start_warnings
from kafkapy.configs.config import BrokerConfig
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkapy.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kafkapy.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Topology
from tests.loop.thread_starts import no_thread_starts
from tests.network.raw_client import RawClient, eventually

BROKER = 4
GROUP = 32
ALL_BROKERS = ""


def change(
    broker: kafkapy.Broker, resource: str, name: str, value: str, *, resource_type: int = BROKER
) -> None:
    """Set a setting of a broker, or of another resource, as a client does."""
    configs = [AlterableConfig(name=name, config_operation=0, value=value)]
    resources = [AlterConfigsResource(resource_type=resource_type, resource_name=resource, configs=configs)]
    with RawClient(broker.bootstrap_servers) as client:
        (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=resources), 1).responses
    assert answer.error_code == 0, answer.error_message


async def work_side_by_side(core: BrokerCore, count: int) -> None:
    """Fails unless `count` pieces of background work run at the same time."""
    together = threading.Barrier(count, timeout=20)
    await asyncio.gather(*(core.blocking(together.wait) for _ in range(count)))


def test_a_changed_number_of_background_threads_is_in_effect_at_once_and_after_a_restart(
    tmp_path: Path,
) -> None:
    with kafkapy.Broker(data_dir=tmp_path, config={"background.threads": 2}) as broker:
        change(broker, "1", "background.threads", "4")
        broker.call(lambda core: work_side_by_side(core, 4))
    with kafkapy.Broker(data_dir=tmp_path, config={"background.threads": 2}) as broker:
        broker.call(lambda core: work_side_by_side(core, 4))


def test_background_threads_that_cannot_be_had_leave_those_there_are(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with kafkapy.Broker(config={"background.threads": 2}) as broker:
        no_thread_starts(monkeypatch, lambda name: not name.startswith("kafkapy_"))
        change(broker, "1", "background.threads", "4")
        broker.call(lambda core: work_side_by_side(core, 2))
    assert "background.threads stays 2: can't start new thread" in caplog.text


def test_a_changed_number_of_recovery_threads_is_in_effect_at_the_next_start(tmp_path: Path) -> None:
    with kafkapy.Broker(data_dir=tmp_path) as broker:
        change(broker, ALL_BROKERS, "num.recovery.threads.per.data.dir", "4")
    with kafkapy.Broker(data_dir=tmp_path) as broker:
        assert broker.core.logs.recovery_threads_per_dir == 4


@pytest.mark.parametrize("restarts", [False, True])
def test_a_changed_time_between_assignments_is_in_effect_at_once_and_after_a_restart(
    tmp_path: Path, restarts: bool
) -> None:
    setting = "group.consumer.assignment.interval.ms"
    with kafkapy.Broker(data_dir=tmp_path, config={setting: 15_000}) as broker:
        assert heartbeat(broker, "a", 0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"]) == 2
        assert heartbeat(broker, "b", 0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"]) == 2
        assert heartbeat(broker, "b", 2) == 2, "there was an assignment a moment ago"
        change(broker, ALL_BROKERS, setting, "0")
        if not restarts:
            assert heartbeat(broker, "b", 2) == 3
    if restarts:
        with kafkapy.Broker(data_dir=tmp_path, config={setting: 15_000}) as broker:
            assert heartbeat(broker, "b", 2) == 3


def heartbeat(broker: kafkapy.Broker, member_id: str, epoch: int, **fields: Any) -> int:
    """The epoch that a member of a consumer group gets."""
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=epoch,
        topic_partitions=None if epoch else [],
        **fields,
    )
    with RawClient(broker.bootstrap_servers) as client:
        eventually(lambda: client.ask(FindCoordinatorRequest(key="g"), 2).error_code == 0, "a coordinator")
        while (found := client.ask(request, 1)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            time.sleep(0.005)
    assert found.error_code == 0, found.error_message
    return int(found.member_epoch)


def test_settings_that_nobody_knows_are_told_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"another.key": "User:admin", "num.io.threads": 3}
    with caplog.at_level(logging.INFO), kafkapy.Broker(config=settings) as broker:
        assert broker.core.config["num.io.threads"] == 3
    told = {record.getMessage(): record.levelname for record in caplog.records}
    assert told["These settings are not known and have no effect: another.key"] == "WARNING"
    assert told["These settings have no effect in this broker: num.io.threads"] == "WARNING"


def test_min_insync_replicas_of_the_file_is_told_where_the_cluster_has_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for given in ("2", "2"):
        with kafkapy.Broker(data_dir=tmp_path, config={"min.insync.replicas": given}) as broker:
            assert broker.core.config["min.insync.replicas"] == 2
    assert {record.getMessage() for record in caplog.records} == {
        "These settings have no effect in this broker: min.insync.replicas"
    }
    with kafkapy.Broker(data_dir=tmp_path, config={"min.insync.replicas": "3"}) as broker:
        assert broker.core.config["min.insync.replicas"] == 2
    assert "min.insync.replicas=3 has no effect: the cluster's is 2" in caplog.text


def test_settings_of_groups_beyond_the_limits_are_told_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with kafkapy.Broker(data_dir=tmp_path) as broker:
        change(broker, "g", "consumer.session.timeout.ms", "55000", resource_type=GROUP)
        change(broker, "h", "consumer.session.timeout.ms", "50000", resource_type=GROUP)
    assert "limits" not in caplog.text
    settings = {"group.consumer.max.session.timeout.ms": 50_000}
    with kafkapy.Broker(data_dir=tmp_path, config=settings) as broker:
        assert broker.core.metadata.image.group_configs["g"] == {"consumer.session.timeout.ms": "55000"}
    assert (
        "Settings of groups are outside of this broker's limits; the nearest value counts:"
        " consumer.session.timeout.ms=55000 of g"
    ) in {record.getMessage() for record in caplog.records}


def test_what_is_no_number_in_the_node_of_a_group_does_not_end_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Somebody has written it by hand, into ZooKeeper."""
    name = "consumer.session.timeout.ms"
    groups = {"g": {name: "soon", "unknown": "x"}, "h": {name: "99999999"}}
    start_warnings.settings_of_groups(BrokerConfig({}), groups)
    assert f"the nearest value counts: {name}=99999999 of h" in caplog.text
    assert "soon" not in caplog.text


def test_protocols_of_groups_can_be_disabled() -> None:
    with kafkapy.Broker(config={"group.coordinator.rebalance.protocols": "classic,streams"}) as broker:
        assert refusals(broker) == {
            "consumer": {ErrorCode.UNSUPPORTED_VERSION},
            "streams": {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND},
        }
    with kafkapy.Broker(config={"group.coordinator.rebalance.protocols": "consumer,classic"}) as broker:
        assert refusals(broker) == {
            "consumer": {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND},
            "streams": {ErrorCode.UNSUPPORTED_VERSION},
        }


def refusals(broker: kafkapy.Broker) -> dict[str, set[ErrorCode]]:
    """The errors of heartbeats, and of descriptions of groups that do not exist."""
    consumer = ConsumerGroupHeartbeatRequest(
        group_id="c", member_id="m", rebalance_timeout_ms=1000, subscribed_topic_names=[], topic_partitions=[]
    )
    streams = StreamsGroupHeartbeatRequest(
        group_id="s",
        member_id="m",
        process_id="p",
        rebalance_timeout_ms=1000,
        topology=Topology(epoch=0, subtopologies=[]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    found = {}
    with RawClient(broker.bootstrap_servers) as client:
        for protocol, beat, version, describe in (
            ("consumer", consumer, 1, ConsumerGroupDescribeRequest(group_ids=["nobody"])),
            ("streams", streams, 0, StreamsGroupDescribeRequest(group_ids=["nobody"])),
        ):
            coordinator = FindCoordinatorRequest(key=beat.group_id)
            while client.ask(coordinator, 2).error_code:
                time.sleep(0.005)
            while (answer := client.ask(beat, version)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                time.sleep(0.005)
            (described,) = client.ask(describe, 0).groups
            for refusal in (answer, described):
                if refusal.error_code == ErrorCode.UNSUPPORTED_VERSION:
                    assert refusal.error_message is None  # the client's own message names the remedy
            found[protocol] = {ErrorCode(answer.error_code), ErrorCode(described.error_code)}
    return found
