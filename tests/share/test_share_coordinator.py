"""A share coordinator on its topic.

Tested are whom it fences, its snapshots, and the records that it deletes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.share_state_records import ShareSnapshotValue, ShareUpdateValue
from kafkapy.share.in_flight import RecordState
from kafkapy.share.share_coordinator import COLD_MS, PRUNE_SECONDS
from kafkapy.share.share_partition import StoredBatch
from kafkapy.share.state import ShareState
from kafkapy.share.state_records import ShareKey
from tests.groups.memory_log import MemoryLog
from tests.share.states_world import MAX_UPDATES, PARTITIONS_OF_TOPIC, StatesWorld, initial, written


class World(StatesWorld):
    """One partition of the topic, with two share partitions."""

    async def begin(self) -> None:
        await self.start()
        topic = self.topic("t", PARTITIONS_OF_TOPIC, bytes(range(16)))
        self.busy, self.idle = ShareKey("g", topic, 0), ShareKey("g", topic, 1)
        await self.coordinator.initialize(self.busy, initial())
        await self.coordinator.initialize(self.idle, initial())

    async def write(self, key: ShareKey, offset: int, *, leader_epoch: int = -1) -> None:
        batch = StoredBatch(offset, offset, RecordState.ACKNOWLEDGED, 1)
        await self.coordinator.write(key, written(batch, leader_epoch=leader_epoch))

    def state(self, key: ShareKey) -> ShareState:
        found = self.coordinator.summary(key)
        assert found is not None
        return found

    @property
    def offsets(self) -> Sequence[int]:
        return [offset for offset, _, _ in self.records()]


@pytest.fixture
async def world() -> World:
    world = World(MemoryLog(1))
    await world.begin()
    return world


async def test_a_leader_that_was_replaced_is_fenced(world: World) -> None:
    await world.coordinator.read(world.busy, 7)
    await world.coordinator.read(world.busy, 8)
    assert await world.error_of(world.write(world.busy, 0, leader_epoch=7)) is ErrorCode.FENCED_LEADER_EPOCH
    assert await world.error_of(world.coordinator.read(world.busy, 7)) is ErrorCode.FENCED_LEADER_EPOCH
    assert world.state(world.busy).batches == ()
    await world.write(world.busy, 0, leader_epoch=8)
    assert world.stored()[world.busy].leader_epoch == 8, "whoever loads it fences, too"


async def test_a_leader_from_before_the_last_initialization_is_fenced(world: World) -> None:
    await world.coordinator.initialize(world.busy, initial(20, state_epoch=2))
    batch = StoredBatch(0, 9, RecordState.ACKNOWLEDGED, 1)
    late = world.coordinator.write(world.busy, written(batch, state_epoch=1))
    assert await world.error_of(late) is ErrorCode.FENCED_STATE_EPOCH
    assert world.state(world.busy).start_offset == 20
    assert world.stored()[world.busy] == world.state(world.busy)


async def test_so_many_updates_come_before_each_snapshot(world: World) -> None:
    for offset in range(2 * (MAX_UPDATES + 1)):
        await world.write(world.busy, offset)
    kinds = [type(value) for _, key, value in world.records() if key == world.busy]
    assert kinds == [ShareSnapshotValue, *([ShareUpdateValue] * MAX_UPDATES + [ShareSnapshotValue]) * 2]
    assert world.state(world.busy).snapshot_offset == world.offsets[-1]


async def test_records_before_the_oldest_snapshot_that_counts_are_deleted(world: World) -> None:
    for key in (world.busy, world.idle):
        for offset in range(MAX_UPDATES + 1):
            await world.write(key, offset)
    await world.write(world.busy, 9)
    await world.advance(2 * PRUNE_SECONDS - 1)
    assert world.offsets[0] == 0, "their snapshots may not have been committed when it was time first"
    await world.advance(1)
    assert world.offsets[0] == 5, "the snapshot of the first; that of the other is the ninth"
    assert world.stored() == world.coordinator.states


async def test_a_snapshot_that_is_not_committed_replaces_nothing(world: World) -> None:
    for offset in range(MAX_UPDATES):
        await world.write(world.busy, offset)
    await world.coordinator.delete(world.idle)
    before = world.state(world.busy)
    world.log.hold = True
    writing = asyncio.ensure_future(world.write(world.busy, 100))
    await world.settle()
    await world.advance(3 * PRUNE_SECONDS)
    assert world.state(world.busy).snapshot_offset > before.snapshot_offset
    while world.log.holds:
        world.log.release(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert await world.error_of(_awaited(writing)) is ErrorCode.COORDINATOR_NOT_AVAILABLE, (
        "after five seconds"
    )
    world.log.hold = False
    await world.advance(1)
    assert world.state(world.busy) == before


async def test_what_was_found_before_a_partition_was_lost_is_not_deleted_afterwards(world: World) -> None:
    await world.coordinator.delete(world.idle)
    world.log.hold = True
    writing = [asyncio.ensure_future(world.write(world.busy, each)) for each in range(MAX_UPDATES + 1)]
    await world.settle()
    await world.advance(PRUNE_SECONDS)
    while world.log.holds:
        world.log.release(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    await asyncio.gather(*writing, return_exceptions=True)
    world.log.hold = False
    await world.advance(1)
    before = world.state(world.busy)
    world.log.hold = True  # also its next snapshot may be lost
    await world.advance(PRUNE_SECONDS - 1)
    assert world.stored() == {world.busy: before}


async def test_a_state_that_is_not_written_for_long_keeps_no_records_of_others(world: World) -> None:
    for hour in range(3):
        for offset in range(30):
            await world.write(world.busy, 100 * hour + offset)
        await world.advance(3600)
        assert len(world.offsets) <= 2 * (MAX_UPDATES + 2), f"in hour {hour}"
        assert world.stored() == world.coordinator.states
    assert world.state(world.idle).start_offset == 0


async def test_states_that_nobody_changes_are_not_written_for_ever(world: World) -> None:
    await world.write(world.busy, 0)
    await world.advance(3600)
    before = world.log.ends[0]
    await world.advance(10 * 3600)
    assert world.log.ends[0] == before


async def test_a_state_gets_no_snapshot_before_its_time(world: World) -> None:
    world.clock.seconds += 2
    await world.write(world.busy, 0)
    await world.coordinator.initialize(world.idle, initial(5))
    await world.advance(PRUNE_SECONDS - 2)
    assert [key for _, key, _ in world.records()[-2:]] == [world.idle, world.busy]
    assert (world.state(world.busy).updates, world.state(world.idle).start_offset) == (0, 5)
    assert world.state(world.busy).write_timestamp - world.state(world.busy).create_timestamp == COLD_MS


async def _awaited(future: asyncio.Future[None]) -> None:
    await future
