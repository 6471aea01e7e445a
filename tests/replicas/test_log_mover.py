"""Partitions move between log directories.

They are written, read and deleted meanwhile, and disks fail.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.replicas.log_mover import LogMover
from kafkapy.replicas.partition import Partition
from kafkapy.storage.directories.future_log import REPLACES
from kafkapy.storage.disk.log_directory import LogDirectory
from tests.replicas.held_files import until
from tests.replicas.test_replica_manager import World, append, topic
from tests.storage.log_harness import Fault, fill, names, offsets

ENOUGH = 20
"""More pieces of blocking work than a move has left after the last byte."""


@pytest.fixture
def worlds() -> Iterator[list[World]]:
    made: list[World] = []
    yield made
    for world in made:
        world.close()


class Moving:
    """A world with the topic `events`, whose partition 0 is to move."""

    def __init__(self, world: World, records: int = 50) -> None:
        self.world = world
        world.create(topic("events", 1))
        self.partition = world.replicas.partition("events", 0)
        fill(self.partition.log, records)
        self.partition.log.flush()

    @property
    def mover(self) -> LogMover:
        return self.world.mover

    @property
    def here(self) -> LogDirectory:
        return self.partition.log.log_directory

    @property
    def there(self) -> LogDirectory:
        return next(each for each in self.world.logs.manager.directories if each is not self.here)

    @property
    def is_moving(self) -> bool:
        return self.partition.topic_partition in self.world.logs.manager.moves.copies

    async def done(self) -> None:
        """Until no move is under way."""
        await until(lambda: not self.mover.moves)


async def writing(partition: Partition, stop: asyncio.Event) -> int:
    """Write, each record after the acknowledgement of the one before; how many."""
    count = 0
    while not stop.is_set():
        assert await partition.watch_commit(append(partition), 10)
        count += 1
    return count


async def test_a_partition_moves_while_it_is_written(tmp_path: Path, worlds: list[World]) -> None:
    worlds.append(world := World(tmp_path))
    moving = Moving(world, 500)
    here, there = moving.here, moving.there
    stop = asyncio.Event()
    writer = asyncio.create_task(writing(moving.partition, stop))
    await moving.mover.move(moving.partition, there)
    assert moving.is_moving
    await moving.done()
    await asyncio.sleep(0)
    append_more = await asyncio.wait_for(_a_few_more(moving.partition), 10)
    stop.set()
    written = await writer
    log = moving.partition.log
    assert log.log_directory is there
    assert offsets(log) == list(range(500 + written + append_more))
    assert log.high_watermark == log.flushed_offset == log.log_end_offset
    assert not moving.is_moving
    assert names(Path(here.path), "events-0") == []
    assert (here.log_count, there.log_count) == (0, 1)
    assert REPLACES not in names(Path(log.path))


async def _a_few_more(partition: Partition) -> int:
    for _ in range(3):
        assert await partition.watch_commit(append(partition), 10)
    return 3


async def test_a_partition_that_is_told_to_stay_stays(tmp_path: Path, worlds: list[World]) -> None:
    worlds.append(world := World(tmp_path))
    moving = Moving(world)
    here, there = moving.here, moving.there
    await moving.mover.move(moving.partition, here)
    assert not moving.is_moving
    await moving.mover.move(moving.partition, there)
    await moving.mover.move(moving.partition, here)
    await moving.done()
    assert moving.here is here
    assert not world.logs.manager.moves.copies
    assert names(Path(there.path), "-future") == []
    assert len(names(Path(there.path), "-delete")) == 1


async def test_a_move_asked_for_twice_is_one(tmp_path: Path, worlds: list[World]) -> None:
    worlds.append(world := World(tmp_path))
    moving = Moving(world)
    there = moving.there
    await moving.mover.move(moving.partition, there)
    copy = world.logs.manager.moves.copies[moving.partition.topic_partition]
    await moving.mover.move(moving.partition, there)
    assert world.logs.manager.moves.copies[moving.partition.topic_partition] is copy
    await moving.done()
    assert moving.partition.log is copy


async def test_a_topic_deleted_meanwhile_leaves_no_copy(tmp_path: Path, worlds: list[World]) -> None:
    worlds.append(world := World(tmp_path))
    moving = Moving(world, 2000)
    there = moving.there
    await moving.mover.move(moving.partition, there)
    await asyncio.sleep(0)
    world.delete("events")
    await moving.done()
    assert not world.logs.manager.moves.copies
    assert world.logs.manager.offline_dirs == []
    assert names(tmp_path / "one", "events-0") + names(tmp_path / "two", "events-0") == []
    world.create(topic("events", 1, 2))
    assert offsets(world.replicas.partition("events", 0).log) == []


async def test_a_target_that_fails_leaves_the_partition_where_it_is(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    moving = Moving(world)
    here, there = moving.here, moving.there
    world.logs.manager.on_directory_failure = lambda error: world.replicas.log_directory_failed(there, error)
    world.logs.files.faults.append(Fault("write", errno.EIO, suffix=".log", times=1))
    await moving.mover.move(moving.partition, there)
    await moving.done()
    assert there.error is not None
    assert here.error is None
    assert not world.logs.manager.moves.copies
    assert await moving.partition.watch_commit(append(moving.partition), 10)
    with pytest.raises(KafkaError) as caught:
        await moving.mover.move(moving.partition, there)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_target_that_fails_in_the_last_moment_takes_nothing_acknowledged_along(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    moving = Moving(world)
    there = moving.there
    world.logs.manager.on_directory_failure = lambda error: world.replicas.log_directory_failed(there, error)
    world.logs.files.faults.append(Fault("sync", errno.EIO, suffix=there.path[-4:], after=1, times=1))
    await moving.mover.move(moving.partition, there)
    await moving.done()
    assert moving.partition.offline is ErrorCode.KAFKA_STORAGE_ERROR
    world.logs.files.faults.clear()
    log = world.logs.restart(clean=False)
    assert offsets(log) == list(range(50))


async def test_the_end_of_the_broker_interrupts_a_move_and_its_start_resumes_it(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    moving = Moving(world, 5000)
    there = moving.there
    await moving.mover.move(moving.partition, there)
    await moving.mover.stop()
    assert names(Path(there.path), "-future") != []
    image = world.image
    world.logs.stop()
    worlds.append(again := World(tmp_path))
    again.apply(image)
    again.sole.drop_stray_copies()
    await until(lambda: not again.mover.moves)
    log = again.replicas.partition("events", 0).log
    assert log.log_directory.path == there.path
    assert offsets(log) == list(range(5000))


async def test_a_copy_whose_topic_is_gone_goes_with_the_start(tmp_path: Path, worlds: list[World]) -> None:
    worlds.append(world := World(tmp_path))
    moving = Moving(world)
    world.logs.manager.moves.create_copy(moving.partition.topic_partition, moving.there)
    world.logs.stop()
    worlds.append(again := World(tmp_path))
    assert again.logs.manager.moves.copies
    again.sole.drop_stray_copies()
    assert not again.logs.manager.moves.copies


@pytest.mark.parametrize(
    ("operation", "code"),
    [("write", errno.ENOSPC), ("open", errno.EMFILE), ("write", errno.ENOMEM)],
    ids=["space", "descriptors", "memory"],
)
async def test_what_a_move_lacks_is_waited_for(
    tmp_path: Path, worlds: list[World], operation: str, code: int
) -> None:
    worlds.append(world := World(tmp_path))
    moving = Moving(world)
    moving.mover.room_seconds = 0.01
    there = moving.there
    moving.partition.log.close_files()
    fault = Fault(operation, code, suffix=".log")
    world.logs.files.faults.append(fault)
    await moving.mover.move(moving.partition, there)
    await until(lambda: fault.times < 999_990)
    world.logs.files.faults.clear()
    await moving.done()
    assert moving.here is there
    assert world.logs.manager.offline_dirs == []
    assert offsets(moving.partition.log) == list(range(50))


async def test_a_move_keeps_to_the_rate_and_can_be_stopped_meanwhile(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    moving = Moving(world, 2000)
    world.rate = 1000
    await moving.mover.move(moving.partition, moving.there)
    await until(lambda: world.rate_asked == 1)
    for _ in range(ENOUGH):  # each takes a thread its time, as the rest of the move would
        await world.blocking(moving.partition.log.flush)
    assert moving.is_moving
    async with asyncio.timeout(5):
        await moving.mover.move(moving.partition, moving.here)
    assert not moving.is_moving


async def test_a_move_that_waits_for_its_rate_goes_on_when_it_is_raised(
    tmp_path: Path, worlds: list[World]
) -> None:
    """`kafka-reassign-partitions` removes the throttle of a move that is under way."""
    worlds.append(world := World(tmp_path))
    moving = Moving(world, 2000)
    world.rate, there = 1, moving.there
    await moving.mover.move(moving.partition, there)
    await until(lambda: world.rate_asked == 1)
    world.rate = 2**63 - 1
    async with asyncio.timeout(10):
        await moving.done()
    assert moving.here is there


async def test_a_flush_of_the_old_log_does_not_vouch_for_the_new_one(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    moving = Moving(world)
    old = moving.partition.log
    append(moving.partition)
    ticket = old.prepare_flush()
    assert ticket is not None
    moving.partition.replace_log(
        world.logs.manager.create(old.topic_partition._replace(partition=1), bytes(16), old.config, new=True)
    )
    ticket.run()
    moving.partition.flushed(old, ticket)
    assert (old.flushed_offset, moving.partition.log.flushed_offset) == (51, 0)
    moving.partition.log = old
    moving.partition.resume_commits()
    await world.group_commit.drain()
