"""A log directory that takes no writes keeps no other waiting, and fails nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.replicas.flusher import OVERDUE_LOOKS
from kafkapy.replicas.housekeeping import delete_old_segments
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.write_gate import MOST_BYTES, WriteGate
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.errors import StuckError
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.partition_log import PartitionLog
from tests.replicas.cluster_rig import Rig
from tests.replicas.held_files import until
from tests.replicas.test_replica_manager import World, append, topic

SECONDS = 20


class HeldProbe:
    """A file system that a test freezes."""

    def __init__(self) -> None:
        self.frozen = True
        self.closed = False

    def passes(self) -> bool:
        return not self.frozen

    def close(self) -> None:
        self.closed = True


def freeze(directory: LogDirectory) -> HeldProbe:
    directory.probe = probe = HeldProbe()
    return probe


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    made.create(topic("events", 2))
    yield made
    made.close()


def stuck_and_other(world: World) -> tuple[Partition, Partition]:
    stuck, other = (world.replicas.partition("events", index) for index in range(2))
    assert stuck.log.log_directory is not other.log.log_directory
    return stuck, other


async def test_appends_to_a_stuck_directory_are_refused_and_others_go_on(world: World) -> None:
    stuck, other = stuck_and_other(world)
    assert await stuck.watch_commit(append(stuck), SECONDS)
    probe = freeze(stuck.log.log_directory)
    with pytest.raises(StuckError) as refused:
        append(stuck)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert stuck.log.log_end_offset == 1
    assert await other.watch_commit(append(other), SECONDS)
    assert stuck.log.log_directory.error is None
    probe.frozen = False
    assert await stuck.watch_commit(append(stuck), SECONDS)
    stuck.log.check()


async def test_a_stuck_directory_is_named_once_and_so_is_its_end(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    stuck, _ = stuck_and_other(world)
    path = stuck.log.log_directory.path
    probe = freeze(stuck.log.log_directory)
    for _ in range(3):
        with pytest.raises(StuckError):
            append(stuck)
    assert caplog.text.count(f"The log directory {path} takes no writes at present: its file system") == 1
    probe.frozen = False
    for _ in range(3):
        world.replicas.look_at_flushes()
    assert caplog.text.count(f"The log directory {path} takes writes again") == 1


async def test_a_directory_is_stuck_while_its_flushes_do_not_end(world: World) -> None:
    """A disk that has ceased to answer takes writes for some seconds, until they block as well."""
    stuck, other = stuck_and_other(world)
    world.files.hold(str(stuck.log.log_directory.path))
    waiting = stuck.watch_commit(append(stuck), SECONDS)
    await until(lambda: world.files.waiting == 1)
    for _ in range(OVERDUE_LOOKS):
        world.replicas.look_at_flushes()
        append(stuck)
    for _ in range(2):
        world.replicas.look_at_flushes()
    with pytest.raises(StuckError):
        append(stuck)
    for _ in range(2 * OVERDUE_LOOKS):
        assert await other.watch_commit(append(other), SECONDS)
        world.replicas.look_at_flushes()
    world.files.let_go()
    assert await waiting
    assert await stuck.watch_commit(append(stuck), SECONDS)


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.roll(),
        lambda log: log.truncate_to(0),
        lambda log: log.truncate_fully_and_start_at(5),
        lambda log: log.delete_old_segments(0),
        lambda log: log.replace_segments(lambda _: None),
        lambda log: log.append_as_follower(memoryview(b""), now_ms=0),
    ],
    ids=["roll", "truncate", "truncate fully", "retention", "compaction", "follower"],
)
async def test_nothing_else_writes_to_a_stuck_directory(
    world: World, change: Callable[[PartitionLog], object]
) -> None:
    stuck, _ = stuck_and_other(world)
    assert await stuck.watch_commit(append(stuck), SECONDS)
    freeze(stuck.log.log_directory)
    with pytest.raises(StuckError):
        change(stuck.log)
    assert stuck.log.log_directory.error is None


async def test_retention_leaves_a_stuck_directory_alone(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    stuck, _ = stuck_and_other(world)
    directory = stuck.log.log_directory
    freeze(directory)
    with pytest.raises(StuckError):
        append(stuck)
    caplog.clear()
    await delete_old_segments(
        stuck, 0, lambda partition: not partition.log.log_directory.is_stuck, lambda _: asyncio.sleep(0)
    )
    assert caplog.text == ""


async def test_new_partitions_go_to_the_directories_that_take_writes(world: World) -> None:
    stuck, other = stuck_and_other(world)
    freeze(stuck.log.log_directory)
    world.create(topic("more", 4, number=2))
    directories = [world.directory("more", index) for index in range(4)]
    assert directories == [other.log.log_directory] * 4


async def test_a_topic_of_a_stuck_directory_is_deleted_and_its_files_later(world: World) -> None:
    stuck, _ = stuck_and_other(world)
    await world.replicas.make_files()
    probe = freeze(stuck.log.log_directory)
    world.delete("events")
    await world.sole.settle()
    assert world.error_of("events", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    name = str(stuck.topic_partition)
    assert name in world.partition_directories()
    await world.sole.delete_rest()
    assert name in world.partition_directories()
    probe.frozen = False
    await world.sole.delete_rest()
    assert name not in world.partition_directories()


async def test_a_topic_that_is_created_again_meanwhile_keeps_its_log(world: World) -> None:
    stuck, _ = stuck_and_other(world)
    await world.replicas.make_files()
    probe = freeze(stuck.log.log_directory)
    world.delete("events")
    world.create(topic("events", 2, number=7))
    probe.frozen = False
    world.sole.reopen(world.image)
    await world.sole.delete_rest()
    for index in range(2):
        partition = world.replicas.partition("events", index)
        assert await partition.watch_commit(append(partition), SECONDS) is True
        assert str(partition.topic_partition) in world.partition_directories()


async def test_checkpoints_of_the_others_are_written(world: World) -> None:
    stuck, other = stuck_and_other(world)
    for each in (stuck, other):
        assert await each.watch_commit(append(each), SECONDS)
    freeze(stuck.log.log_directory)
    manager: LogManager = world.logs.manager
    manager.checkpoint_recovery_points()()
    written = {
        each: (Path(each.path) / "recovery-point-offset-checkpoint").exists() for each in manager.directories
    }
    assert written == {stuck.log.log_directory: False, other.log.log_directory: True}


async def test_a_directory_that_is_closed_is_probed_no_more(world: World) -> None:
    stuck, _ = stuck_and_other(world)
    probe = freeze(stuck.log.log_directory)
    world.logs.crash()
    assert probe.closed


# --- Produce ------------------------------------------------------------------------------------------------


async def test_a_produce_waits_for_a_short_freeze(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path, 1))
    leader = await rig.lead()
    directory = leader.partition.log.log_directory
    probe = freeze(directory)
    waiting = asyncio.ensure_future(leader.produce(b"a"))
    await until(lambda: directory.is_stuck)
    probe.frozen = False
    answer = await waiting
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert leader.offsets[2] == 1


async def test_a_produce_is_refused_if_the_freeze_lasts(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path, 1))
    leader = await rig.lead()
    probe = freeze(leader.partition.log.log_directory)
    answer = await leader.produce(b"a", timeout_ms=50)
    assert (answer.error_code, leader.offsets[2]) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
    probe.frozen = False
    answer = await leader.produce(b"b")
    assert (answer.error_code, answer.base_offset) == (0, 0)


async def test_a_follower_fetches_again_what_a_stuck_directory_did_not_take(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    directory = rig[2].partition.log.log_directory
    probe = freeze(directory)
    waiting = asyncio.ensure_future(leader.produce(b"a"))
    await until(lambda: directory.is_stuck)
    probe.frozen = False
    assert (await waiting).error_code == 0
    assert rig[2].offsets[2] == 1


async def test_no_more_waits_than_has_room(world: World) -> None:
    stuck, _ = stuck_and_other(world)
    directory = stuck.log.log_directory
    probe = freeze(directory)
    gate = WriteGate()
    deadline = asyncio.get_running_loop().time() + SECONDS
    first = asyncio.ensure_future(gate.wait(directory, MOST_BYTES, deadline))
    await asyncio.sleep(0)
    assert not await gate.wait(directory, 1, deadline)
    probe.frozen = False
    assert await first
    assert await gate.wait(directory, MOST_BYTES, deadline)


async def test_who_waits_for_a_directory_that_fails_learns_it_at_once(world: World) -> None:
    stuck, _ = stuck_and_other(world)
    directory = stuck.log.log_directory
    freeze(directory)
    gate = WriteGate()
    waiting = asyncio.ensure_future(gate.wait(directory, 1, asyncio.get_running_loop().time() + SECONDS))
    await asyncio.sleep(0)
    world.fail(directory)
    assert await waiting
    with pytest.raises(KafkaError):
        append(stuck)
