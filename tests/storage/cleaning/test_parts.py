"""The parts of compaction that need no log: the size of the map, the throttle, the rests."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.storage.cleaning.offset_map import OffsetMap
from kafkapy.storage.cleaning.pace import Pace
from kafkapy.storage.cleaning.task import CleaningAbortedError, CleaningTask
from kafkapy.storage.cleaning.throttle import Throttle
from tests.storage.cleaning.harness import (
    compacted,
)


def test_a_map_is_no_larger_than_its_keys_need() -> None:
    assert len(OffsetMap(1 << 30, keys=1000).slots) < 30_000
    assert OffsetMap(2400, keys=10**9).limit == 90
    with pytest.raises(ValueError, match="too few"):
        OffsetMap(24, keys=10)


def test_the_throttle_lets_so_many_bytes_through() -> None:
    now = [100.0]
    throttle = Throttle(1000.0, clock=lambda: now[0])
    assert throttle.reserve(500) == pytest.approx(0.5)
    assert throttle.reserve(500) == pytest.approx(1.0)
    now[0] += 10
    assert throttle.reserve(100) == pytest.approx(0.1)
    throttle.set_rate(10.0)
    assert throttle.reserve(100) == pytest.approx(10.0)


def test_a_throttle_that_is_opened_lets_those_go_on_who_wait(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    now = [0.0]
    throttle = Throttle(1.0, clock=lambda: now[0])

    class Opening(CleaningTask):
        waits = 0

        def wait(self, seconds: float) -> None:
            self.waits += 1
            now[0] += seconds
            if self.waits == 3:
                throttle.set_rate(1e9)

    task = Opening(logs.files)
    throttle.pass_through(1 << 20, task)
    assert task.waits == 3


@pytest.mark.parametrize(("busy", "rested"), [(False, 0.0), (True, 0.04)])
def test_a_pass_rests_while_others_are_served(tmp_path: Path, busy: bool, rested: float) -> None:
    logs = compacted(tmp_path)
    task = RestingTask(logs.files)
    # Made, begun, and (if it asks) done and gone on.
    now = iter([0.0, 5.0, 5.01, 5.5])
    pace = Pace(lambda: busy, clock=lambda: next(now))
    pace.begin()
    pace.rest(task)
    assert task.rested == pytest.approx(rested)


class RestingTask(CleaningTask):
    """Rests in no time."""

    rested = 0.0

    def wait(self, seconds: float) -> None:
        self.rested += seconds


def test_a_pass_that_waits_is_stopped_at_once(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    task = CleaningTask(logs.files)
    task.abort()
    with pytest.raises(CleaningAbortedError):
        Throttle(1.0).pass_through(1 << 20, task)
