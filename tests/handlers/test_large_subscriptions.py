"""A member with thousands of topics does not hold the event loop."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.handlers.group_client import find_coordinator
from tests.network.loop_watch import LoopWatch, is_long
from tests.network.raw_client import RawClient

PATIENCE = 120.0
TRIES = 4
KINDS = ("share", "consumer")
FIRST, MORE = 2_000, 2_000
NAMES = [f"topic-{number:04d}" for number in range(FIRST + MORE)]


class Member:
    """A member that sends heartbeats until it has all its topics."""

    def __init__(self, client: RawClient, kind: str, group_id: str) -> None:
        self.client = client
        self.kind = kind
        self.group_id = group_id
        self.epoch = 0
        self.topics = 0

    def heartbeat(self, names: list[str] | None = None) -> None:
        request: ShareGroupHeartbeatRequest | ConsumerGroupHeartbeatRequest
        if self.kind == "share":
            request = ShareGroupHeartbeatRequest(
                group_id=self.group_id,
                member_id="a",
                member_epoch=self.epoch,
                subscribed_topic_names=names,
            )
        else:
            request = ConsumerGroupHeartbeatRequest(
                group_id=self.group_id,
                member_id="a",
                member_epoch=self.epoch,
                subscribed_topic_names=names,
                rebalance_timeout_ms=60_000,
                topic_partitions=[] if self.epoch == 0 else None,
            )
        response = self.client.ask(request, 1)
        assert response.error_code == ErrorCode.NONE, response
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.topics = len(response.assignment.topic_partitions)

    def subscribe(self, names: list[str]) -> None:
        """Say the names, and wait for the assignment."""
        self.heartbeat(names)
        deadline = time.monotonic() + PATIENCE
        while self.topics < len(names):
            assert time.monotonic() < deadline
            self.heartbeat()


def test_a_member_gets_thousands_of_topics_without_holding_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of some groups the fastest counts: a busy machine only makes them slower."""
    watch = LoopWatch(monkeypatch)
    config = {f"group.{kind}.assignment.interval.ms": 0 for kind in KINDS}
    with watch.broker(tmp_path, config) as broker, RawClient(broker.bootstrap_servers) as client:
        client.socket.settimeout(PATIENCE)
        for start in range(0, len(NAMES), 500):
            topics = [
                CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                for name in NAMES[start : start + 500]
            ]
            created = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7)
            assert {topic.error_code for topic in created.topics} == {ErrorCode.NONE}
        for kind in KINDS:
            longest: list[tuple[float, str]] = []
            while not longest or (is_long(longest[-1][0]) and len(longest) < TRIES):
                group_id = f"{kind}-{len(longest)}"
                find_coordinator(client, group_id)
                member = Member(client, kind, group_id)
                with watch.watching():
                    member.subscribe(NAMES[:FIRST])
                    member.subscribe(NAMES)
                longest.append(watch.longest)
            assert not is_long(longest[-1][0]), (kind, longest)
