"""The partitions of a broker with several log directories, when a directory fails."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafkapy.loop.timers import Timers
from kafkapy.loop.waiters import Waiters
from kafkapy.metadata.image import MetadataImage, PartitionState, Topic
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.group_commit import GroupCommit
from kafkapy.replicas.leader import Leader
from kafkapy.replicas.log_mover import LogMover
from kafkapy.replicas.partition import Partition
from kafkapy.replicas.replica_manager import ReplicaManager
from kafkapy.replicas.replication import ALL_REPLICAS
from kafkapy.replicas.sole_roles import SoleRoles
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.validate import AppendOrigin, prepare_batches
from tests.loop.turned_clock import START_MS
from tests.replicas.held_files import HeldFiles
from tests.storage.log_harness import Fault, Logs, batch

NODE = 1
SECONDS = 20
EMPTY = MetadataImage()
JOINED = MetadataImage(cluster_id="a-cluster")


def topic(name: str, partitions: int, number: int = 1) -> Topic:
    state = PartitionState(NODE, 0, (NODE,), (NODE,))
    return Topic(name, bytes([number]) * 16, (state,) * partitions)


class World:
    """A broker's replicas over two log directories."""

    def __init__(
        self, root: Path, *, dirs: tuple[str, ...] = ("one", "two"), files: HeldFiles | None = None
    ) -> None:
        self.files = files or HeldFiles()
        self.logs = Logs(root, dirs=dirs, files=self.files)
        loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(1)
        self.timers = Timers(loop)
        waiters = Waiters(loop, self.timers)
        self.group_commit = GroupCommit(retry_seconds=0.001)
        self.rate = 2**63 - 1
        self.rate_asked = 0
        self.mover = LogMover(self.logs.manager, self.blocking, 2, self._rate)
        self.replicas = ReplicaManager(
            self.logs.manager,
            self.group_commit,
            blocking=self.blocking,
            mover=self.mover,
            waiters=waiters,
            node_id=NODE,
            defaults={},
            sync=True,
        )
        self.sole = SoleRoles(self.replicas, self.mover, node_id=NODE, now=loop.time)
        self.told: list[tuple[str, int, bool, int]] = []
        """The changes of leadership, each with its leader epoch."""
        self.replicas.on_leadership(lambda *change: self.told.append(change))
        self.image = EMPTY
        self.apply(JOINED)

    def _rate(self) -> int:
        self.rate_asked += 1
        return self.rate

    async def blocking(self, call: Any, *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *args)

    def apply(self, image: MetadataImage) -> None:
        self.replicas.apply(self.image, image)
        self.sole.apply(self.image, image)
        self.image = image

    def create(self, *topics: Topic) -> None:
        self.apply(self.image.with_topics(topics))

    def delete(self, *names: str) -> None:
        self.apply(self.image.with_topics(deleted=names))

    def directory(self, name: str, index: int) -> LogDirectory:
        return self.replicas.partition(name, index).log.log_directory

    def fail(self, directory: LogDirectory) -> None:
        directory.failed("testing", OSError(errno.EIO, "the disk is gone"))

    def error_of(self, name: str, index: int) -> ErrorCode:
        try:
            return self.replicas.partition(name, index).offline
        except KafkaError as error:
            return error.code

    def partition_directories(self) -> set[str]:
        """The names of those that exist."""
        return {
            entry.name
            for directory in self.logs.manager.directories
            for entry in Path(directory.path).iterdir()
            if entry.is_dir()
        }

    def close(self) -> None:
        self.timers.close()
        self.files.let_go()
        self._pool.shutdown()
        self.group_commit.close()
        self.logs.crash()


@pytest.fixture
def worlds() -> Iterator[list[World]]:
    made: list[World] = []
    yield made
    for world in made:
        world.close()


def append(partition: Partition) -> int:
    """Append a record; return the offset after it."""
    prepared = prepare_batches(
        memoryview(batch(b"a")), config=partition.log.config, origin=AppendOrigin.CLIENT, now_ms=START_MS
    )
    return partition.append(prepared, origin=AppendOrigin.CLIENT, now_ms=START_MS).last_offset + 1


async def test_a_broker_alone_tells_of_what_it_leads_and_leads_no_more(
    tmp_path: Path, worlds: list[World]
) -> None:
    world = World(tmp_path)
    worlds.append(world)
    world.create(topic("t", 2))
    assert world.told == [("t", 0, True, 0), ("t", 1, True, 0)]
    state = PartitionState(NODE, 3, (NODE,), (NODE,))
    world.create(Topic("t", topic("t", 2).id, (state, *topic("t", 1).partitions)))
    assert world.told[2:] == [("t", 0, True, 3)]
    world.delete("t")
    assert world.told[3:] == [("t", 0, False, 3), ("t", 1, False, 0)]


async def test_a_topic_that_is_made_anew_in_one_image_is_led_anew(
    tmp_path: Path, worlds: list[World]
) -> None:
    world = World(tmp_path)
    worlds.append(world)
    world.create(topic("t", 1))
    world.create(topic("t", 1, number=2))
    assert world.told == [("t", 0, True, 0), ("t", 0, False, 0), ("t", 0, True, 0)]


async def test_a_broker_alone_demands_no_more_replicas_than_there_are(
    tmp_path: Path, worlds: list[World]
) -> None:
    world = World(tmp_path)
    worlds.append(world)
    world.create(replace(topic("t", 1), configs={"min.insync.replicas": "2"}))
    partition = world.replicas.partition("t", 0)
    assert partition.log.config.min_insync_replicas == 2
    end_offset = append(partition)
    assert await partition.watch_commit(end_offset, SECONDS)
    assert partition.is_acknowledged(end_offset, ALL_REPLICAS, partition.term)


async def test_a_broker_alone_refuses_followers(tmp_path: Path, worlds: list[World]) -> None:
    world = World(tmp_path)
    worlds.append(world)
    world.create(topic("t", 1))
    leader = world.replicas.partition("t", 0).replication
    assert isinstance(leader, Leader)
    with pytest.raises(KafkaError) as refusal:
        leader.follower(2, -1, knows_epoch=True)
    assert refusal.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_deleting_a_topic_continues_after_a_partition_whose_disk_failed(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    world.create(topic("events", 4))
    failed = world.directory("events", 0)
    healthy = [index for index in range(4) if world.directory("events", index) is not failed]
    world.fail(failed)
    world.delete("events")
    assert [world.error_of("events", index) for index in range(4)] == [3] * 4
    left = {found.partition for found in world.logs.manager.logs}
    assert len(healthy) == 2
    assert left == {0, 1, 2, 3} - set(healthy)


async def test_deletions_are_on_disk_before_the_metadata_forgets_the_topic(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path, dirs=("one",)))
    world.create(topic("events", 2))
    append(world.replicas.partition("events", 0))
    await world.group_commit.drain()
    world.files.synced.clear()
    world.delete("events")
    await world.sole.settle()
    assert str(tmp_path / "one") in world.files.synced
    world.files.synced.clear()
    await world.sole.settle()
    assert world.files.synced == []


async def test_logs_of_no_topic_are_named_with_what_becomes_of_them(
    tmp_path: Path, worlds: list[World], caplog: pytest.LogCaptureFixture
) -> None:
    worlds.append(world := World(tmp_path, dirs=("one",)))
    world.create(topic("events", 1))
    world.sole.report_orphans()
    assert "events-0" not in caplog.text
    world.logs.manager.create(TopicPartition("gone", 0), bytes([9]) * 16, world.logs.config, new=True)
    world.sole.report_orphans()
    assert f"{tmp_path}/one/gone-0" in caplog.text
    assert "are not served" in caplog.text


async def test_new_partitions_go_to_the_directories_that_are_left(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    world.create(topic("events", 2))
    kept = world.directory("events", 0)
    world.fail(world.directory("events", 1))
    world.create(topic("new", 2, 2), topic("events", 3))
    assert {world.directory("new", 0), world.directory("new", 1), world.directory("events", 2)} == {kept}


async def test_a_partition_that_a_failed_directory_may_hold_is_not_made_anew(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    world.logs.manager.directories[0].failed("testing", OSError(errno.EIO, "the disk is gone"))
    world.image = EMPTY
    world.apply(JOINED.with_topics([topic("events", 1)]))
    assert world.error_of("events", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert not world.logs.manager.logs


async def test_a_topic_made_for_found_logs_is_not_completed_while_a_directory_is_offline(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    found = topic("events", 2)
    world.logs.manager.create(TopicPartition("events", 0), found.id, world.logs.config, new=True)
    world.fail(world.logs.manager.directories[1])
    world.create(found)
    assert world.error_of("events", 0) is ErrorCode.NONE
    assert world.error_of("events", 1) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_failed_directory_does_not_keep_others_from_committing(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    world.create(topic("events", 2))
    first, second = (world.replicas.partition("events", index) for index in (0, 1))
    ends = append(first), append(second)
    world.fail(first.log.log_directory)
    assert await second.watch_commit(ends[1], 10)
    with pytest.raises(KafkaError) as caught:
        await first.watch_commit(ends[0], 10)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    await world.group_commit.drain()


async def test_topics_are_made_where_a_deletion_did_not_fail(tmp_path: Path, worlds: list[World]) -> None:
    worlds.append(world := World(tmp_path))
    world.create(topic("events", 2))
    await world.replicas.make_files()
    world.logs.files.faults.append(Fault("rename", errno.EIO, suffix="-delete", times=1))
    world.delete("events")
    (left,) = world.logs.manager.logs
    assert world.error_of("events", left.partition) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.create(topic("other", 1, 2))
    assert world.error_of("other", 0) is ErrorCode.NONE


async def test_a_large_topic_is_created_and_deleted_in_steps(tmp_path: Path, worlds: list[World]) -> None:
    worlds.append(world := World(tmp_path))
    large = topic("large", 120)
    new = world.image.with_topics([large])
    await world.sole.prepare(world.image, new)
    made = dict(world.logs.manager.logs)
    assert len(made) == 120
    world.apply(new)
    assert all(world.replicas.partition("large", tp.partition).log is log for tp, log in made.items())
    counts = [directory.log_count for directory in world.logs.manager.directories]
    assert counts == [60, 60]
    world.delete("large")
    assert world.error_of("large", 3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await world.sole.settle()
    assert not world.logs.manager.logs
    assert [directory.log_count for directory in world.logs.manager.directories] == [0, 0]


async def test_the_files_of_new_partitions_are_made_after_those_are_served(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    world.create(topic("events", 60))
    assert all(world.error_of("events", index) is ErrorCode.NONE for index in range(60))
    assert world.partition_directories() == set()
    assert world.replicas.new_logs.is_set()
    await world.replicas.make_files()
    assert world.partition_directories() == {f"events-{index}" for index in range(60)}
    assert all(log.new_files is None for log in world.logs.manager.logs.values())


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC], ids=["descriptors", "space"])
async def test_files_for_which_there_is_no_room_are_made_when_there_is(
    tmp_path: Path, worlds: list[World], caplog: pytest.LogCaptureFixture, code: int
) -> None:
    worlds.append(world := World(tmp_path))
    world.logs.files.faults.append(Fault("create", code, suffix=".log", after=30, times=3))
    world.create(topic("events", 60))
    made = []
    for _ in range(4):
        await world.replicas.make_files()
        made.append(len(world.partition_directories()))
    assert made == [30, 30, 30, 60]
    assert len([line for line in caplog.messages if "no files until there is room" in line]) == 1
    assert not world.logs.manager.offline_dirs
    assert {world.error_of("events", index) for index in range(60)} == {ErrorCode.NONE}
    assert append(world.replicas.partition("events", 59)) == 1


async def test_a_disk_that_fails_while_files_are_made_goes_offline_and_the_others_get_theirs(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    world.logs.files.faults.append(Fault("create", errno.EIO, suffix=".log", times=1))
    world.create(topic("events", 6))
    await world.replicas.make_files()
    assert [path.name for path in world.logs.manager.offline_dirs] == ["one"]
    assert world.partition_directories() == {"events-1", "events-3", "events-5"}


async def test_a_topic_that_is_deleted_before_it_has_files_gets_none(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    world.create(topic("events", 4), topic("kept", 1, 2))
    world.delete("events")
    await world.replicas.make_files()
    assert world.partition_directories() == {"kept-0"}


async def test_a_partition_takes_records_before_its_files_are_made_in_the_background(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    world.create(topic("events", 2))
    first = world.replicas.partition("events", 0)
    assert await first.watch_commit(append(first), 10)
    assert world.partition_directories() == {"events-0"}
    await world.replicas.make_files()
    assert world.partition_directories() == {"events-0", "events-1"}
    await world.group_commit.drain()


def make_creation_fail(world: World, code: int) -> None:
    """Have `events` not be made.

    What a checkpoint says of an earlier partition has to go first.
    """
    world.create(topic("events", 1))
    world.logs.save_recovery_points()
    world.delete("events")
    world.logs.files.faults.append(Fault("write", code, "recovery-point-offset-checkpoint"))


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC], ids=["descriptors", "space"])
async def test_a_partition_that_could_not_be_made_is_made_when_there_is_room(
    tmp_path: Path, worlds: list[World], code: int
) -> None:
    worlds.append(world := World(tmp_path))
    make_creation_fail(world, code)
    image = world.image.with_topics([topic("events", 1, 2)])
    await world.sole.prepare(world.image, image)
    world.apply(image)
    assert world.error_of("events", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert world.replicas.is_offline("events", 0)
    assert not world.sole.reopen(world.image)
    world.logs.files.faults.clear()
    while world.sole.reopen(world.image):
        pass
    assert world.error_of("events", 0) is ErrorCode.NONE
    assert not world.replicas.any_offline
    assert append(world.replicas.partition("events", 0)) == 1
    assert world.told[-2:] == [("events", 0, False, 0), ("events", 0, True, 0)], "the former one, this one"


async def test_a_deleted_partition_is_not_made_when_there_is_room(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    make_creation_fail(world, errno.EMFILE)
    world.create(topic("events", 1, 2))
    world.delete("events")
    world.logs.files.faults.clear()
    assert not world.sole.reopen(world.image)
    assert world.error_of("events", 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_flush_that_finds_no_descriptor_is_made_when_there_is_one(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    world.create(topic("events", 2))
    fault = Fault("sync", errno.EMFILE, "events-0", times=5)
    world.logs.files.faults.append(fault)
    partition = world.replicas.partition("events", 0)
    committed = partition.watch_commit(append(partition), 10)
    assert await committed, "in the end"
    assert fault.times == 0
    assert world.error_of("events", 0) == ErrorCode.NONE
    assert partition.log.flushed_offset == 1


async def test_a_partition_whose_files_cannot_be_opened_to_be_flushed_stays_open(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path))
    world.create(topic("events", 1))
    partition = world.replicas.partition("events", 0)
    committed = partition.watch_commit(append(partition), 10)
    partition.log.close_files()
    world.logs.files.faults.append(Fault("open", errno.EMFILE, ".log", times=5))
    assert await committed
    assert world.error_of("events", 0) == ErrorCode.NONE
