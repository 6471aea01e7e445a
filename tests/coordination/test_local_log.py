"""The partitions of an internal topic on this broker.

Commits may wait for other replicas.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafkapy.coordination.local_log import LocalTopicLog
from kafkapy.loop.timers import Timers
from kafkapy.loop.waiters import Waiters
from kafkapy.metadata.image import PartitionState
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.plain_batch import build_plain_batch
from kafkapy.protocol.records import decode_records, iter_headers
from kafkapy.replicas.group_commit import GroupCommit
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.replication import Unassigned
from kafkapy.storage.log.log_config import LogConfig
from tests.groups.memory_log import run_here
from tests.replicas.roles import NODE, OTHER, fetch, follow, lead
from tests.storage.log_harness import Logs

TOPIC = "__consumer_offsets"


class World:
    """A log of one partition, whose followers fetch when the test says so."""

    def __init__(self, root: Path) -> None:
        self.logs = Logs(root, config=LogConfig(min_insync_replicas=2))
        loop = asyncio.get_running_loop()
        self.timers = Timers(loop)
        self.group_commit = GroupCommit()
        self.partition = Partition(
            self.logs.log,
            replication=Unassigned(),
            group_commit=self.group_commit,
            waiters=Waiters(loop, self.timers),
            sync=False,
        )
        self.leader = lead(self.partition, followers=[OTHER])
        replicas = SimpleNamespace(partition=lambda topic, index: self.partition)
        self.log = LocalTopicLog(
            TOPIC,
            metadata=cast("Any", None),
            replicas=cast("Any", replicas),
            blocking=run_here,
            provide=cast("Any", None),
            create=cast("Any", None),
        )
        self.said: list[tuple[str, ErrorCode]] = []

    def append(self, key: str) -> None:
        header, batch = build_plain_batch([(key.encode(), b"")], 0)
        outcome = self.log.append(0, header, batch)
        if outcome is None:
            self.log.when_committed(0, lambda error: self.said.append((key, error)))
        else:
            self.said.append((key, outcome))

    async def fetched(self, end_offset: int) -> None:
        """The followers have the records below this offset."""
        fetch(self.leader, end_offset)
        await self.settle()

    async def settle(self) -> None:
        """Let the appends that wait be answered."""
        for _ in range(3):
            await asyncio.sleep(0)

    async def read(self) -> list[str]:
        keys = []
        end_offset = await self.log.wait_for_commits(0)
        async for batches in self.log.read(0, end_offset):
            view = memoryview(batches)
            for position, header in iter_headers(view):
                keys += [(record.key or b"").decode() for record in decode_records(view, position, header)]
        return keys

    def close(self) -> None:
        self.timers.close()
        self.group_commit.close()
        self.logs.crash()


@pytest.fixture
async def world(tmp_path: Path) -> Any:
    world = World(tmp_path)
    yield world
    world.close()


async def test_records_that_nobody_needs_are_deleted_when_they_are_committed(world: World) -> None:
    for key in "abc":
        world.append(key)
    await world.fetched(2)
    assert world.log.is_committed(0, 2)
    assert not world.log.is_committed(0, 3)
    world.log.delete_before(0, 2)
    await world.fetched(3)
    assert await world.read() == ["c"]
    world.append("d")
    follow(world.partition)
    for call in (world.log.is_committed, world.log.delete_before):
        with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
            call(0, 4)


async def test_appends_are_reported_in_order_when_the_followers_have_them(world: World) -> None:
    for key in "abc":
        world.append(key)
    await world.fetched(0)
    assert not world.said
    await world.fetched(2)
    assert world.said == [("a", ErrorCode.NONE), ("b", ErrorCode.NONE)]
    await world.fetched(3)
    assert world.said[2:] == [("c", ErrorCode.NONE)]


async def test_appends_that_wait_fail_when_the_leadership_is_lost(world: World) -> None:
    world.append("a")
    world.append("b")
    world.log.leadership_lost(0)
    assert world.said == [(key, ErrorCode.NOT_LEADER_OR_FOLLOWER) for key in "ab"]
    await world.fetched(2)
    assert len(world.said) == 2, "once"


async def test_appends_of_a_later_leadership_are_reported_on_their_own(world: World) -> None:
    world.append("old")
    world.log.leadership_lost(0)
    world.append("new")
    await world.fetched(1)
    assert world.said == [("old", ErrorCode.NOT_LEADER_OR_FOLLOWER)]
    await world.fetched(2)
    assert world.said[1:] == [("new", ErrorCode.NONE)]


async def test_without_appends_nothing_is_lost(world: World) -> None:
    world.log.leadership_lost(0)
    assert not world.said


async def test_records_that_are_committed_count_though_too_few_replicas_are_in_sync(world: World) -> None:
    world.append("a")
    fetch(world.leader, 1)
    world.leader.update(PartitionState(NODE, 0, (NODE,), (NODE, OTHER), version=1))
    await world.settle()
    assert world.said == [("a", ErrorCode.NONE)], "the next coordinator would load the record"
    world.append("b")
    assert world.said[1:] == [("b", ErrorCode.NOT_ENOUGH_REPLICAS)]


async def test_appends_fail_when_another_broker_leads(world: World) -> None:
    world.append("a")
    follow(world.partition, 1)
    await world.settle()
    assert world.said == [("a", ErrorCode.NOT_LEADER_OR_FOLLOWER)]


async def test_an_append_elsewhere_than_at_the_leader_fails(world: World) -> None:
    follow(world.partition)
    world.append("a")
    assert world.said == [("a", ErrorCode.NOT_LEADER_OR_FOLLOWER)]


async def test_reading_waits_until_what_an_earlier_leader_wrote_is_committed(world: World) -> None:
    world.append("a")
    world.append("b")
    reading = asyncio.create_task(world.read())
    await world.fetched(1)
    assert not reading.done()
    await world.fetched(2)
    assert await reading == ["a", "b"]


async def test_reading_does_not_wait_for_ever_for_replicas(world: World) -> None:
    world.log.load_seconds = 0
    world.append("a")
    world.append("b")
    assert await world.read() == ["a", "b"]


async def test_only_the_leader_reads(world: World) -> None:
    world.append("a")
    follow(world.partition)
    for call in (world.read(), asyncio.to_thread(world.log.is_empty, 0)):
        with pytest.raises(KafkaError) as refused:
            await call
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_reading_does_not_wait_for_what_is_appended_meanwhile(world: World) -> None:
    world.append("a")
    reading = asyncio.create_task(world.read())
    await asyncio.sleep(0)
    world.append("b")
    await world.fetched(1)
    assert await reading == ["a"]


async def test_reading_an_empty_partition_waits_for_nothing(world: World) -> None:
    assert world.log.is_empty(0)
    assert await world.read() == []
