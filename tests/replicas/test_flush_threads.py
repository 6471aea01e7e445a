"""A flush that only syncs a file needs no Python in its thread, and a failed sync is final."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.replicas.flush_threads import FlushThreads
from kafkapy.replicas.partition import Partition
from kafkapy.storage.log.flush import FlushTicket
from tests.calls import calls_of
from tests.replicas.held_files import HeldFiles, until
from tests.replicas.test_replica_manager import World, append, topic

SECONDS = 20


class Work:
    """A flush that notes what becomes of it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.told: list[str] = []
        self.threads: list[threading.Thread] = []

    def run(self) -> None:
        self._note("run")

    def not_synced(self, code: int) -> None:
        self._note(f"not synced: {code}")

    def ended(self) -> None:
        self._note("ended")

    def _note(self, what: str) -> None:
        self.told.append(what)
        self.threads.append(threading.current_thread())


@pytest.fixture
def unsyncable() -> Iterator[int]:
    """A descriptor that no sync accepts."""
    reading, writing = os.pipe()
    yield reading
    os.close(reading)
    os.close(writing)


class PlainFiles(HeldFiles):
    """A disk whose syncs are plain system calls."""

    @property
    def syncs_plainly(self) -> bool:
        return True


@pytest.fixture
async def partition(tmp_path: Path) -> AsyncIterator[Partition]:
    """A partition on such a disk."""
    world = World(tmp_path, files=PlainFiles())
    world.create(topic("events", 1))
    yield world.replicas.partition("events", 0)
    world.close()


async def test_a_plain_sync_is_handed_back_on_the_loop(tmp_path: Path) -> None:
    threads = FlushThreads[Work](Work.run, Work.ended)
    threads.start_one()
    plain, other = Work(), Work()
    with (tmp_path / "file").open("w") as file:
        threads.put(plain, file.fileno())
        threads.put(other)
        await until(lambda: "ended" in plain.told and "ended" in other.told)
    threads.close()
    assert plain.told == ["ended"]
    assert plain.seconds > 0
    assert set(plain.threads) == {threading.current_thread()}
    assert other.told == ["run", "ended"]
    assert other.threads[0].name == "kafkapy-flush"


async def test_nothing_is_run_after_a_failed_sync(unsyncable: int) -> None:
    threads = FlushThreads[Work](Work.run, Work.ended)
    threads.start_one()
    failing, later = Work(), Work()
    threads.put(failing, unsyncable)
    threads.put(later)
    await until(lambda: "ended" in failing.told and "ended" in later.told)
    threads.close()
    assert failing.told[0].startswith("not synced: ")
    assert failing.threads[0].name == "kafkapy-flush"  # at once, and not when the loop has time
    assert later.told == failing.told


async def test_records_are_committed_after_a_plain_sync(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await partition.watch_commit(append(partition), SECONDS)  # the first flush syncs names, too
    runs = calls_of(monkeypatch, FlushTicket, "run")
    assert await partition.watch_commit(append(partition), SECONDS)
    assert runs == []
    assert partition.log.flushed_offset == partition.log.log_end_offset


async def test_a_failed_plain_sync_takes_the_directory_offline(
    partition: Partition, monkeypatch: pytest.MonkeyPatch, unsyncable: int
) -> None:
    assert await partition.watch_commit(append(partition), SECONDS)
    committed = partition.log.high_watermark
    monkeypatch.setattr(FlushTicket, "only_file", lambda _: unsyncable)
    with pytest.raises(KafkaError) as refused:
        await partition.watch_commit(append(partition), SECONDS)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.log.log_directory.error is not None
    assert partition.log.high_watermark == committed


async def test_a_sync_that_ends_in_an_offline_directory_counts_for_nothing(partition: Partition) -> None:
    assert await partition.watch_commit(append(partition), SECONDS)
    committed = partition.log.high_watermark
    waiting = partition.watch_commit(append(partition), SECONDS)
    directory = partition.log.log_directory
    asyncio.get_running_loop().call_soon(directory.failed, "compacting", OSError("the disk is gone"))
    with pytest.raises(KafkaError):
        await waiting
    assert partition.log.high_watermark == committed


async def test_nor_does_a_sync_that_python_runs(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.create(topic("events", 1))
    partition = world.replicas.partition("events", 0)
    world.files.hold()
    waiting = partition.watch_commit(append(partition), SECONDS)
    await until(lambda: world.files.waiting == 1)
    partition.log.log_directory.failed("compacting", OSError("the disk is gone"))
    world.files.let_go()
    with pytest.raises(KafkaError):
        await waiting
    assert partition.log.high_watermark == partition.log.flushed_offset == 0
    world.close()
