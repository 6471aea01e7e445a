"""Flushes wait neither for other disks nor for large requests.

Only errors of the disk are final.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.replicas.flusher import SLOW_SECONDS, THREADS
from kafkapy.replicas.partition import Partition
from kafkapy.storage.disk.files import File
from kafkapy.storage.log.flush import FlushTicket
from kafkapy.storage.log.partition_log import PartitionLog
from tests.loop.thread_starts import no_thread_starts
from tests.replicas.held_files import HeldFiles, until
from tests.replicas.test_replica_manager import World, append, topic
from tests.storage.log_harness import Fault, names

SECONDS = 20


class ChanceFiles(HeldFiles):
    """Many calls of flushes meet something that says nothing about the disk.

    What was synced is known.
    """

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self._lock = threading.Lock()
        self.bytes_synced: dict[str, int] = {}

    def _unlucky(self) -> None:
        if threading.current_thread().name != "kafkapy-flush":
            return
        with self._lock:
            number = self._chance.random()
        if number < 0.1:
            raise MemoryError
        if number < 0.2:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def open(self, path: str, *, create: bool = False) -> File:
        self._unlucky()
        return super().open(path, create=create)

    def sync_data(self, file: File) -> None:
        self._unlucky()
        size = os.fstat(file.fd).st_size
        super().sync_data(file)
        path = self._path(file)
        self.bytes_synced[path] = max(size, self.bytes_synced.get(path, 0))

    def sync_directory(self, path: str) -> None:
        self._unlucky()
        super().sync_directory(path)


class UnluckyFiles(HeldFiles):
    """Syncs meet something that says nothing about the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.unlucky: Exception | None = None
        """Raised once, before a file is synced."""

    def sync_data(self, file: File) -> None:
        error, self.unlucky = self.unlucky, None
        if error is not None:
            raise error
        super().sync_data(file)


@pytest.fixture
def worlds() -> Iterator[list[World]]:
    made: list[World] = []
    yield made
    for world in made:
        world.close()


def partitions(world: World, name: str, count: int, number: int = 1) -> list[Partition]:
    world.create(topic(name, count, number))
    return [world.replicas.partition(name, index) for index in range(count)]


def directory_of(partition: Partition) -> str:
    return partition.log.log_directory.path


async def test_a_slow_disk_keeps_no_other_waiting(tmp_path: Path, worlds: list[World]) -> None:
    worlds.append(world := World(tmp_path))
    slow, other = partitions(world, "events", 2)
    assert directory_of(slow) != directory_of(other)
    world.files.hold(directory_of(slow))
    waiting = slow.watch_commit(append(slow), SECONDS)
    await until(lambda: world.files.waiting == 1)
    for _ in range(5):
        assert await other.watch_commit(append(other), SECONDS)
    assert not waiting.done()
    world.files.let_go()
    assert await waiting


async def seconds_pass(seconds: float) -> None:
    end = time.monotonic() + seconds
    await until(lambda: time.monotonic() > end)


async def test_a_slow_disk_is_told_of_once_a_minute(
    tmp_path: Path, worlds: list[World], caplog: pytest.LogCaptureFixture
) -> None:
    worlds.append(world := World(tmp_path))
    slow, other = partitions(world, "events", 2)
    assert await other.watch_commit(append(other), SECONDS)
    assert caplog.text == ""
    for _ in range(2):
        world.files.hold(directory_of(slow))
        waiting = slow.watch_commit(append(slow), SECONDS)
        await until(lambda: world.files.waiting == 1)
        await seconds_pass(SLOW_SECONDS)
        world.files.let_go()
        assert await waiting
    assert caplog.text.count(f"Syncing {slow.log.path} took ") == 1


async def test_many_partitions_of_one_request_keep_no_other_waiting(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path, dirs=("one",)))
    many = partitions(world, "many", 200)
    (other,) = partitions(world, "other", 1, 2)
    world.files.hold()
    waiting = [each.watch_commit(append(each), SECONDS) for each in many]
    await until(lambda: world.files.waiting == THREADS)
    waiting.append(other.watch_commit(append(other), SECONDS))
    await asyncio.sleep(0)
    world.files.let_go()
    assert all(await asyncio.gather(*waiting))
    logs = [path for path in world.files.synced if path.endswith(".log")]
    (place,) = [place for place, path in enumerate(logs) if "/other-0/" in path]
    assert len(logs) == 201
    assert place <= 2 * THREADS


async def test_what_is_requested_while_flushes_are_prepared_is_not_forgotten(
    tmp_path: Path, worlds: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by those who learn within the preparation that a partition is damaged."""
    worlds.append(world := World(tmp_path, dirs=("one",)))
    damaged, other, later = partitions(world, "events", 3)
    prepare, waiting = PartitionLog.prepare_flush, list[asyncio.Future[bool]]()

    def prepare_flush(log: PartitionLog) -> FlushTicket | None:
        if log is damaged.log:
            waiting.append(other.watch_commit(append(other), SECONDS))
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE)
        return prepare(log)

    monkeypatch.setattr(PartitionLog, "prepare_flush", prepare_flush)
    append(damaged)
    loop = asyncio.get_running_loop()
    loop.call_soon(lambda: waiting.append(later.watch_commit(append(later), SECONDS)))
    await until(lambda: len(waiting) == 2)
    assert all(await asyncio.gather(*waiting))


async def test_a_deleted_partition_that_asked_for_a_flush_takes_nothing_offline(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path, dirs=("one",)))
    everyone = partitions(world, "events", THREADS + 1)
    world.files.hold()
    for each in everyone:
        append(each)
    await until(lambda: world.files.waiting == THREADS)
    world.delete("events")
    world.logs.manager.delete_expired_files(world.logs.clock.now_ms() + 3_600_000)
    assert not [name for name in names(tmp_path / "one") if name.startswith("events")]
    world.files.let_go()
    await world.group_commit.drain()
    assert world.logs.manager.offline_dirs == []
    assert {each.offline for each in everyone} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("can't start new thread"), OSError(errno.EMFILE, "no descriptor")]
)
async def test_what_is_no_fault_of_the_disk_is_tried_again(
    tmp_path: Path, worlds: list[World], error: Exception
) -> None:
    files = UnluckyFiles()
    worlds.append(world := World(tmp_path, dirs=("one",), files=files))
    (partition,) = partitions(world, "events", 1)
    files.unlucky = error
    assert await partition.watch_commit(append(partition), SECONDS)
    synced = {path.removeprefix(f"{tmp_path}/one") for path in files.synced}
    assert {"", "/events-0", "/events-0/00000000000000000000.log", "/events-0/partition.metadata"} <= synced
    assert partition.log.flushed_offset == partition.log.log_end_offset


@pytest.mark.parametrize("what", [".log", "partition.metadata"])
async def test_a_file_that_cannot_be_opened_now_is_synced_later(
    tmp_path: Path, worlds: list[World], what: str
) -> None:
    worlds.append(world := World(tmp_path, dirs=("one",)))
    (partition,) = partitions(world, "events", 1)
    end = append(partition)
    partition.log.close_files()
    world.files.faults.append(Fault("open", errno.EMFILE, what, times=1))
    assert await partition.watch_commit(end, SECONDS)
    assert sum(path.endswith("partition.metadata") for path in world.files.synced) == 1


async def test_flushes_wait_for_a_thread_that_cannot_be_started_now(
    tmp_path: Path, worlds: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    worlds.append(world := World(tmp_path, dirs=("one",)))
    (partition,) = partitions(world, "events", 1)
    tried: list[str] = []

    def allowed(name: str) -> bool:
        tried.append(name)
        return len(tried) >= 3

    no_thread_starts(monkeypatch, allowed)
    assert await partition.watch_commit(append(partition), SECONDS)
    assert len(tried) == 3


async def test_fewer_threads_than_wanted_do_the_work(
    tmp_path: Path, worlds: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    worlds.append(world := World(tmp_path, dirs=("one",)))
    many = partitions(world, "events", 30)
    assert await many[0].watch_commit(append(many[0]), SECONDS)
    no_thread_starts(monkeypatch, lambda _: False)
    assert all(await asyncio.gather(*(each.watch_commit(append(each), SECONDS) for each in many)))


async def test_no_sync_is_begun_in_a_directory_where_one_has_failed(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path, dirs=("one",)))
    many = partitions(world, "events", THREADS * 4)
    world.files.faults.append(Fault("sync", errno.EIO, "/events-0/00000000000000000000.log"))
    waiting = [each.watch_commit(append(each), SECONDS) for each in many]
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(results[0], KafkaError)
    begun = {path for path in world.files.synced if path.endswith(".log")}
    assert len(begun) < 2 * THREADS
    await world.group_commit.drain()
    assert len({path for path in world.files.synced if path.endswith(".log")}) == len(begun)


async def test_the_name_of_a_log_directory_is_synced_once_for_many(
    tmp_path: Path, worlds: list[World]
) -> None:
    worlds.append(world := World(tmp_path, dirs=("one",)))
    many = partitions(world, "events", 100)
    assert all(await asyncio.gather(*(each.watch_commit(append(each), SECONDS) for each in many)))
    assert world.files.synced.count(str(tmp_path / "one")) <= 30


async def test_what_is_acknowledged_was_synced_whatever_was_lacking(
    tmp_path: Path, worlds: list[World]
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    chance = random.Random(seed)
    files = ChanceFiles(chance)
    worlds.append(world := World(tmp_path, files=files))
    many = partitions(world, "events", 20)

    async def produce(partition: Partition) -> None:
        for _ in range(15):
            end = append(partition)
            segment = partition.log.segments.active
            path, size = segment.path, segment.size
            if chance.random() < 0.2:
                partition.log.roll()
            assert await partition.watch_commit(end, SECONDS)
            assert files.bytes_synced[path] >= size, f"seed {seed}"

    await asyncio.gather(*map(produce, many))
    assert world.logs.manager.offline_dirs == []
