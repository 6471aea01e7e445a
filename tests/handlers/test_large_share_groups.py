"""A heartbeat that adds thousands of topics to a share group does not hold the event loop."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import kafkapy
from kafkapy.groups.share.group import ShareGroup
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.handlers.group_client import find_coordinator
from tests.network.loop_watch import LIMIT, LoopWatch
from tests.network.raw_client import RawClient

VERSION = 1
PATIENCE = 120.0
NAMES = [f"topic-{number}" for number in range(2_000)]


def heartbeat(client: RawClient, group_id: str, epoch: int, names: list[str] | None) -> int:
    request = ShareGroupHeartbeatRequest(
        group_id=group_id, member_id="a", member_epoch=epoch, subscribed_topic_names=names
    )
    response = client.ask(request, VERSION)
    assert response.error_code == ErrorCode.NONE, response
    return int(response.member_epoch)


def wait_until_initialized(broker: kafkapy.Broker, client: RawClient, group_id: str, topics: int) -> None:
    group = broker.core.groups.groups[group_id]
    assert isinstance(group, ShareGroup)
    deadline = time.monotonic() + PATIENCE
    while len(group.state_partitions.initialized) < topics:
        find_coordinator(client, group_id)
        assert time.monotonic() < deadline


def test_topics_that_a_member_adds_are_initialized_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three groups the fastest counts: a busy machine only makes them slower."""
    watch = LoopWatch(monkeypatch)
    with watch.broker(tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        client.socket.settimeout(PATIENCE)
        for start in range(0, len(NAMES), 500):
            topics = [
                CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                for name in NAMES[start : start + 500]
            ]
            created = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7)
            assert {topic.error_code for topic in created.topics} == {ErrorCode.NONE}
        longest = []
        for group_id in ("g", "h", "i"):
            find_coordinator(client, group_id)
            epoch = heartbeat(client, group_id, 0, NAMES[:1])
            wait_until_initialized(broker, client, group_id, 1)
            with watch.watching():
                heartbeat(client, group_id, epoch, NAMES)
                wait_until_initialized(broker, client, group_id, len(NAMES))
            longest.append(watch.longest)
        assert min(longest)[0] < LIMIT, longest
