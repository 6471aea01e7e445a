"""Files are synced by the threads of a queue, in C or in Python.

A failed sync is final.
"""

from __future__ import annotations

import errno
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kafkapy.storage.disk.sync_queue import CAPACITY, NO_FILE, PureSyncQueue, SyncQueue, wake_descriptors

BUILT = find_spec("kafkapy.storage.disk._sync_queue") is not None
compiled = pytest.mark.skipif(not BUILT, reason="the compiled queue was not built: no compiler?")
SECONDS = 20


def compiled_queue(read_fd: int, write_fd: int) -> SyncQueue:
    queue: SyncQueue = import_module("kafkapy.storage.disk._sync_queue").SyncQueue(read_fd, write_fd)
    return queue


class World:
    """A queue and its threads, with the work that they were given back."""

    def __init__(self, new: Callable[[int, int], SyncQueue]) -> None:
        self.descriptors = wake_descriptors()
        self.queue = new(*self.descriptors)
        self.returned: list[Any] = []
        self.threads: list[threading.Thread] = []

    def start(self, threads: int = 1) -> None:
        for _ in range(threads):
            self.threads.append(threading.Thread(target=self._work))
            self.threads[-1].start()

    def _work(self) -> None:
        while (work := self.queue.get()) is not None:
            self.returned.append(work)

    def take(self, count: int) -> list[tuple[Any, float]]:
        """As many syncs as were put, in the order in which they ended."""
        ended: list[tuple[Any, float]] = []
        while len(ended) < count:
            readable, _, _ = select.select([self.descriptors[0]], [], [], SECONDS)
            assert readable, f"only {len(ended)} syncs have ended"
            ended += self.queue.take()
        return ended

    def close(self) -> None:
        self.queue.close()
        for thread in self.threads:
            thread.join(SECONDS)
            assert not thread.is_alive()

    def drop(self) -> None:
        for descriptor in set(self.descriptors):
            os.close(descriptor)


@pytest.fixture(
    params=[PureSyncQueue, pytest.param(compiled_queue, marks=compiled)], ids=["pure", "compiled"]
)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Runs the test with each of the twins."""
    world = World(request.param)
    yield world
    world.close()
    world.drop()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"records")
    yield fd
    os.close(fd)


def unsyncable() -> int:
    """A descriptor that fdatasync refuses with EINVAL."""
    reading, writing = os.pipe()
    os.close(writing)
    return reading


def test_a_file_is_synced_and_the_loop_is_woken(world: World, file: int) -> None:
    world.start()
    world.queue.put("flush", file)
    ((work, seconds),) = world.take(1)
    assert work == "flush"
    assert world.queue.failed() == 0
    assert 0 <= seconds < SECONDS


def test_other_work_is_returned_to_the_thread(world: World, file: int) -> None:
    world.queue.put("snapshot", NO_FILE)
    world.queue.put("flush", file)
    world.start()
    assert [work for work, _ in world.take(1)] == ["flush"]
    assert world.returned == ["snapshot"]


def test_no_sync_is_begun_after_one_that_failed(world: World, file: int) -> None:
    failing = unsyncable()
    try:
        for work, fd in (("good", file), ("bad", failing), ("later", file), ("snapshot", NO_FILE)):
            world.queue.put(work, fd)
        world.queue.close()
        world.start()
        world.close()
    finally:
        os.close(failing)
    assert [work for work, _ in world.take(1)] == ["good"]
    assert world.returned == ["bad", "later", "snapshot"]
    assert world.queue.failed() == errno.EINVAL


def test_several_threads_sync_all_that_is_put(world: World, file: int) -> None:
    world.start(threads=4)
    for round_ in range(20):
        for number in range(16):
            world.queue.put((round_, number), file)
        assert sorted(work for work, _ in world.take(16)) == [(round_, number) for number in range(16)]
    assert world.queue.take() == []


def test_threads_end_after_the_work_that_waits(world: World, file: int) -> None:
    for number in range(5):
        world.queue.put(number, file)
    world.queue.close()
    world.start(threads=2)
    for thread in world.threads:
        thread.join(SECONDS)
    assert sorted(work for work, _ in world.take(5)) == list(range(5))


def test_a_full_queue_takes_no_more(world: World, file: int) -> None:
    for number in range(CAPACITY):
        world.queue.put(number, file)
    with pytest.raises(OverflowError):
        world.queue.put("more", file)
    world.start()
    assert len(world.take(CAPACITY)) == CAPACITY
    world.queue.put("again", file)
    assert len(world.take(1)) == 1


def test_work_that_nobody_takes_is_freed(world: World, file: int) -> None:
    class Work:
        freed = False

        def __del__(self) -> None:
            Work.freed = True

    world.queue.put(Work(), file)
    del world.queue
    assert Work.freed
    world.queue = PureSyncQueue(*world.descriptors)


@compiled
@pytest.mark.parametrize(("setting", "expected"), [("", "_sync_queue"), ("1", "sync_queue")])
def test_the_environment_chooses_the_pure_twin(setting: str, expected: str) -> None:
    script = "from kafkapy.storage.disk.sync_queue import new_sync_queue; print(new_sync_queue.__module__)"
    environment = {"KAFKAPY_PURE_PYTHON": setting, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == f"kafkapy.storage.disk.{expected}"
