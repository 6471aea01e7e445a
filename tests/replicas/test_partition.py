"""Partitions commit records, request syncs, and answer waiting requests when a disk fails."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafkapy.loop.timers import Timers
from kafkapy.loop.waiters import Waiters
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.replicas.group_commit import GroupCommit
from kafkapy.replicas.housekeeping import flush_old
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.replication import Unassigned
from kafkapy.storage.damage.damage import DamagedRange
from kafkapy.storage.damage.policy import SERVE_AROUND
from kafkapy.storage.disk.errors import StorageError
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.validate import AppendOrigin, prepare_batches
from tests.loop.turned_clock import START_MS
from tests.replicas.held_files import HeldFiles, until
from tests.replicas.roles import OTHER, fetch, follow, lead
from tests.storage.log_harness import Fault, Logs, batch


class World:
    """One partition, with a disk that syncs when the test lets it."""

    def __init__(self, root: Path, *, sync: bool = True, config: LogConfig | None = None) -> None:
        self.files = HeldFiles()
        self.logs = Logs(root, config=config or LogConfig(), files=self.files)
        self._loop = asyncio.get_running_loop()
        self.timers = Timers(self._loop)
        self.group_commit = GroupCommit()
        self.partition = Partition(
            self.logs.log,
            replication=Unassigned(),
            group_commit=self.group_commit,
            waiters=Waiters(self._loop, self.timers),
            sync=sync,
        )
        lead(self.partition)
        self.logs.manager.on_directory_failure = self._failed

    def _failed(self, error: StorageError) -> None:
        self._loop.call_soon_threadsafe(self.partition.close, error.code)

    @property
    def syncs(self) -> int:
        """How often the active segment was synced."""
        return sum(path.endswith(".log") for path in self.files.synced)

    def append(self, *values: bytes) -> int:
        """Append a batch; return the offset after it."""
        prepared = prepare_batches(
            memoryview(batch(*values)),
            config=self.logs.log.config,
            origin=AppendOrigin.CLIENT,
            now_ms=START_MS,
        )
        info = self.partition.append(prepared, origin=AppendOrigin.CLIENT, now_ms=START_MS)
        return info.last_offset + 1

    def close(self) -> None:
        self.files.let_go()
        self.timers.close()
        self.group_commit.close()
        self.logs.crash()


@pytest.fixture
def worlds() -> Iterator[list[World]]:
    made: list[World] = []
    yield made
    for world in made:
        world.close()


async def test_nothing_is_committed_before_the_disk_has_it(tmp_path: Path, worlds: list[World]) -> None:
    worlds.append(world := World(tmp_path))
    world.files.hold()
    end = world.append(b"a")
    committed = world.partition.watch_commit(end, 10)
    await until(lambda: world.files.waiting == 1)
    assert (world.partition.log.high_watermark, committed.done()) == (0, False)
    world.files.let_go()
    assert await committed
    assert world.partition.log.high_watermark == world.partition.log.flushed_offset == 1


async def test_appends_during_a_sync_share_the_next_one(tmp_path: Path, worlds: list[World]) -> None:
    worlds.append(world := World(tmp_path))
    world.files.hold()
    world.append(b"first")
    await until(lambda: world.files.waiting == 1)
    committed = [world.partition.watch_commit(world.append(b"more"), 10) for _ in range(50)]
    world.files.let_go()
    assert all(await asyncio.gather(*committed))
    assert world.syncs == 2


async def test_the_page_cache_is_enough_without_sync(tmp_path: Path, worlds: list[World]) -> None:
    worlds.append(world := World(tmp_path, sync=False))
    assert world.partition.is_committed(world.append(b"a", b"b"))
    assert world.syncs == 0


@pytest.mark.parametrize("sync", [True, False])
async def test_flush_messages_says_how_many_may_be_unsynced(
    tmp_path: Path, worlds: list[World], sync: bool
) -> None:
    worlds.append(world := World(tmp_path, sync=sync, config=LogConfig(flush_messages=3)))
    assert world.partition.is_committed(world.append(b"a", b"b"))
    end = world.append(b"c")
    assert not world.partition.is_committed(end)
    assert await world.partition.watch_commit(end, 10)
    assert world.partition.log.flushed_offset == 3


async def test_flush_ms_has_old_records_synced(tmp_path: Path, worlds: list[World]) -> None:
    worlds.append(world := World(tmp_path, config=LogConfig(flush_ms=100)))
    assert world.partition.is_committed(world.append(b"a"))
    world.partition.flush_if_older(START_MS + 99)
    assert world.syncs == 0
    world.partition.flush_if_older(START_MS + 100)
    await world.group_commit.drain()
    assert world.partition.log.flushed_offset == 1


async def test_partitions_are_looked_at_for_old_records_in_turns(tmp_path: Path, worlds: list[World]) -> None:
    """There may be ten thousand; and one may be deleted between two turns."""
    for number in range(3):
        worlds.append(World(tmp_path / str(number), config=LogConfig(flush_ms=100)))
        worlds[-1].append(b"a")
    steps = flush_old([world.partition for world in worlds], START_MS + 100)
    next(steps)
    worlds[1].partition.close(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert sum(1 for _ in steps) == 2
    for world in worlds:
        await world.group_commit.drain()
    assert [world.partition.log.flushed_offset for world in worlds] == [1, 0, 1]


async def test_a_stricter_flush_policy_counts_at_once(tmp_path: Path, worlds: list[World]) -> None:
    worlds.append(world := World(tmp_path, sync=False))
    world.append(b"a")
    world.partition.configure(replace(world.logs.log.config, flush_messages=1))
    await world.group_commit.drain()
    assert world.partition.log.flushed_offset == 1


async def test_a_failed_sync_is_never_acknowledged_and_never_tried_again(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    world.logs.files.faults.append(Fault("sync", errno.EIO, times=1))
    end = world.append(b"a")
    with pytest.raises(KafkaError) as caught:
        await world.partition.watch_commit(end, 10)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    await world.group_commit.drain()
    assert world.syncs == 0
    assert world.partition.log.high_watermark == 0
    with pytest.raises(KafkaError):
        world.append(b"b")


async def test_waiting_for_a_commit_ends_in_time(tmp_path: Path, worlds: list[World]) -> None:
    worlds.append(world := World(tmp_path))
    world.files.hold()
    assert not await world.partition.watch_commit(world.append(b"a"), 0.01)
    world.files.let_go()
    await world.group_commit.drain()


async def test_records_are_deleted_up_to_the_high_watermark(tmp_path: Path, worlds: list[World]) -> None:
    worlds.append(world := World(tmp_path, sync=False))
    world.append(b"a", b"b", b"c")
    assert world.partition.delete_records(2) == 2
    assert world.partition.delete_records(1) == 1  # its records are gone already
    assert world.partition.log.log_start_offset == 2
    with pytest.raises(KafkaError) as caught:
        world.partition.delete_records(4)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert world.partition.delete_records(-1) == 3


async def test_a_leader_epoch_begins_where_the_log_ends_until_it_writes(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path, sync=False))
    partition = world.partition
    assert partition.end_offset_for_epoch(0) == (0, 0)
    assert partition.earliest_epoch == 0
    world.append(b"a", b"b")
    lead(partition, 3)
    ends = {epoch: partition.end_offset_for_epoch(epoch) for epoch in (-1, 0, 2, 3, 4)}
    assert ends == {-1: (-1, -1), 0: (0, 2), 2: (0, 2), 3: (3, 2), 4: (-1, -1)}
    world.append(b"c")
    assert partition.end_offset_for_epoch(2) == (0, 2)
    assert partition.earliest_epoch == 0


async def test_the_high_watermark_waits_for_the_disk_and_for_the_replicas(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    partition = world.partition
    leader = lead(partition, followers=[OTHER])
    end = world.append(b"a")
    await until(lambda: partition.log.flushed_offset == end)
    assert partition.log.high_watermark == 0
    fetch(leader, end)
    assert partition.log.high_watermark == end


async def test_a_replica_that_does_not_lead_takes_nothing(tmp_path: Path, worlds: list[World]) -> None:
    worlds.append(world := World(tmp_path))
    follow(world.partition)
    for refused in (
        lambda: world.append(b"a"),
        lambda: world.partition.delete_records(0),
        lambda: world.partition.require_leader_epoch(-1),
    ):
        with pytest.raises(KafkaError) as raised:
            refused()
        assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_replica_ends_before_its_damage_when_another_leads(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path, sync=False))
    log = world.partition.log
    for _ in range(3):
        world.append(b"a")
    size = log.size // 3
    damaged = DamagedRange(size, 2 * size, 1, 2)
    SERVE_AROUND.found(log.segments.active, [damaged], "rot")
    lead(world.partition)
    assert log.log_end_offset == 3
    follow(world.partition)
    assert (log.log_end_offset, log.high_watermark, log.size) == (1, 1, size)
