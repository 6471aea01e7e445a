"""The lease of the one driver of a table in a store without locks."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import pytest

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.stores.lease import DURATION, RENEWED, Lease, lease_holder
from kafkapy.pipeline.stores.shared_store import SharedStore

if TYPE_CHECKING:
    from kafkapy.pipeline.stores.shared_store import SharedFiles

HELD = "its pipeline is running already"


class Files:
    """A store in memory, in which one of several creates a file."""

    location = "s3a://lake/orders"

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self._creating = threading.Lock()

    def names(self, folder: str) -> list[str]:
        return [path.rpartition("/")[2] for path in sorted(self.content) if path.startswith(f"{folder}/")]

    def read(self, path: str) -> bytes:
        try:
            return self.content[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def create(self, path: str, content: bytes) -> bool:
        with self._creating:
            if path in self.content:
                return False
            self.content[path] = content
            return True

    def write(self, path: str, content: bytes) -> None:
        self.content[path] = content

    def delete(self, path: str) -> None:
        self.content.pop(path, None)

    def jvm_process(self) -> int:
        return os.getpid()


class Clock:
    """Time that passes while somebody waits; `during` happens at each wait."""

    def __init__(self) -> None:
        self.now = 100.0
        self.during: Callable[[], object] = lambda: None

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds
        self.during()


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def lease(files: Files, clock: Clock) -> Lease:
    return Lease(files, "lock.lease", clock=clock, pause=clock.pause)


def held(files: Files, clock: Clock) -> Lease:
    taken = lease(files, clock)
    taken.acquire(HELD)
    return taken


def test_the_first_driver_has_it_at_once(files: Files, clock: Clock) -> None:
    taken = held(files, clock)
    taken.renew()
    assert clock.now == 100
    assert lease_holder(files, "lock.lease") == os.getpid()


def test_a_second_driver_is_refused_when_it_sees_the_first_live(files: Files, clock: Clock) -> None:
    first = held(files, clock)
    clock.during = first.renew
    with pytest.raises(PipelineError) as refused:
        lease(files, clock).acquire(HELD)
    assert str(refused.value).startswith(f"s3a://lake/orders: {HELD} (process {os.getpid()} on ")
    assert str(refused.value).endswith("; stop that first")
    assert clock.now < 100 + RENEWED
    first.renew()


def test_after_a_release_the_next_driver_has_it_at_once(files: Files, clock: Clock) -> None:
    first = held(files, clock)
    first.release()
    assert lease_holder(files, "lock.lease") is None
    held(files, clock).renew()
    assert clock.now == 100
    assert files.names("lock.lease") == ["2"]


def test_a_driver_that_waits_goes_on_at_a_release(files: Files, clock: Clock) -> None:
    first = held(files, clock)
    clock.during = first.release
    held(files, clock)
    assert clock.now < 100 + RENEWED


def test_a_silent_driver_is_succeeded_after_its_lease_and_writes_no_more(files: Files, clock: Clock) -> None:
    first = held(files, clock)
    second = held(files, clock)
    assert 100 + DURATION <= clock.now <= 100 + DURATION + 2
    for _ in range(2):
        with pytest.raises(PipelineError, match=r"was silent for more than 60 seconds, .*; start it again"):
            first.renew()
    first.release()
    second.renew()
    assert files.names("lock.lease") == ["2"]


def test_a_driver_that_was_silent_for_too_long_writes_no_more_though_nobody_came(
    files: Files, clock: Clock
) -> None:
    first = held(files, clock)
    clock.now += DURATION
    with pytest.raises(PipelineError, match="silent for more than 60 seconds"):
        first.renew()


def test_a_renewal_that_takes_longer_than_the_lease_is_none(clock: Clock) -> None:
    class SlowFiles(Files):
        def write(self, path: str, content: bytes) -> None:
            clock.pause(DURATION)

    first = held(SlowFiles(), clock)
    with pytest.raises(PipelineError, match="silent"):
        first.renew()


def test_a_killed_driver_of_this_machine_is_succeeded_at_once(files: Files, clock: Clock) -> None:
    held(files, clock)
    content = json.loads(files.content["lock.lease/1"])
    if not content["machine"]:
        pytest.skip("this system does not name its machine")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for process, jvm, waits in ((ended.pid, os.getpid(), True), (ended.pid, ended.pid, False)):
        files.content = {"lock.lease/1": json.dumps({**content, "process": process, "jvm": jvm}).encode()}
        before = clock.now
        held(files, clock)
        assert (clock.now > before) == waits


def test_a_process_of_that_number_elsewhere_tells_nothing(files: Files, clock: Clock) -> None:
    held(files, clock)
    content = json.loads(files.content["lock.lease/1"])
    for machine in ("another", ""):
        files.content = {"lock.lease/1": json.dumps({**content, "machine": machine, "process": 0}).encode()}
        before = clock.now
        held(files, clock)
        assert clock.now >= before + DURATION


def test_a_torn_file_is_waited_for(files: Files, clock: Clock) -> None:
    files.content = {"lock.lease/7": b'{"proc'}
    assert lease_holder(files, "lock.lease") is None
    held(files, clock)
    assert clock.now >= 100 + DURATION
    assert files.names("lock.lease") == ["8"]


def test_a_driver_that_was_slow_to_create_an_old_epoch_gives_way(clock: Clock) -> None:
    newer: list[Lease] = []

    class SlowFiles(Files):
        is_slow = False

        def create(self, path: str, content: bytes) -> bool:
            if self.is_slow:
                self.is_slow = False
                held(self, clock).release()
                newer.append(held(self, clock))
                assert self.names("lock.lease") == ["3"]  # "2" is free again
            return super().create(path, content)

    files = SlowFiles()
    held(files, clock).release()
    files.is_slow = True
    clock.during = lambda: newer[0].renew()
    with pytest.raises(PipelineError, match=HELD):
        lease(files, clock).acquire(HELD)
    newer[0].renew()


def test_a_put_that_is_repeated_by_the_client_is_its_own(clock: Clock) -> None:
    class RepeatingFiles(Files):
        def create(self, path: str, content: bytes) -> bool:
            super().create(path, content)
            return super().create(path, content)

    held(RepeatingFiles(), clock).renew()
    assert clock.now == 100


def test_of_many_that_try_at_once_one_has_it() -> None:
    """Threads with turns by chance.

    No two may write at the same time, and the silent are succeeded.
    """
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    files, clock, chance = Files(), Clock(), random.Random(seed)
    writing: list[Lease] = []
    for _ in range(200):
        if writing and chance.random() < 0.5:
            writing[-1].release()
        start = threading.Barrier(4)
        taken: list[Lease] = []

        def attempt(start: threading.Barrier = start, taken: list[Lease] = taken) -> None:
            mine = Lease(files, "lock.lease", clock=clock, pause=lambda seconds: clock.pause(seconds))
            start.wait()
            try:
                mine.acquire(HELD)
            except PipelineError:
                return
            taken.append(mine)

        threads = [threading.Thread(target=attempt) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        able = []
        for one in taken + writing:
            try:
                one.renew()
            except PipelineError:
                continue
            able.append(one)
        assert len(able) == 1
        writing = able


def test_it_is_renewed_while_work_is_done_and_released_after() -> None:
    written = threading.Event()

    class WatchedFiles(Files):
        def write(self, path: str, content: bytes) -> None:
            super().write(path, content)
            if json.loads(content)["beat"] > 3:
                written.set()

    files = WatchedFiles()
    taken = Lease(files, "lock.lease", renewed_after=0.01)
    taken.acquire(HELD)
    with taken.renewed():
        assert written.wait(10)
    assert json.loads(files.content["lock.lease/1"])["released"] is True


def test_a_store_that_does_not_answer_is_told_in_a_line() -> None:
    problem = OSError("Unable to load credentials")

    class Unwritable(Files):
        def create(self, path: str, content: bytes) -> bool:
            raise problem

    class Unreadable(Files):
        def names(self, folder: str) -> list[str]:
            raise problem

    store = SharedStore(cast("SharedFiles", Unwritable()))
    with (
        pytest.raises(PipelineError, match=r"^s3a://lake/orders: cannot be locked: Unable to load credent"),
        store.lock("lock", HELD),
    ):
        pass
    store = SharedStore(cast("SharedFiles", Unreadable()))
    with pytest.raises(PipelineError, match=r"^s3a://lake/orders: cannot be read: Unable to load"):
        store.holder("lock")
