"""A log that knows many producers.

What is worked out for all of them at once is for another thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkapy.storage.cleaning.cleanable import look_at, plan
from kafkapy.storage.disk.errors import ExhaustedError
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.producer_snapshots import WRITTEN_AT_ONCE, encode_snapshot
from kafkapy.storage.log.producers import ProducerEntry
from tests.loop.turned_clock import START_MS
from tests.storage.cleaning.harness import COMPACT
from tests.storage.log_harness import NO_SPACE, Fault, Logs, append, batch, fill, names

MANY = WRITTEN_AT_ONCE + 1


def with_many(tmp_path: Path) -> Logs:
    """A log with a segment, and with many producers.

    There are so many that a roll does not write their snapshot.
    """
    logs = Logs(tmp_path)
    for producer_id in range(MANY):
        append(logs.log, batch(b"x", producer_id=producer_id, epoch=0, sequence=0))
    return logs


def cpu(call: Callable[[], object]) -> float:
    """The CPU seconds that a call takes in this thread."""
    started = time.thread_time()
    call()
    return time.thread_time() - started


def test_a_roll_and_a_compaction_plan_take_little_of_what_a_snapshot_takes(tmp_path: Path) -> None:
    log = Logs(tmp_path, config=LogConfig(segment_bytes=1000)).log
    fill(log, 12)
    entry = ProducerEntry()
    entry.add_batch(0, 0, 0, START_MS)
    log.producers.restore(dict.fromkeys(range(50_000), entry), log.log_end_offset)
    snapshot = min(cpu(lambda: encode_snapshot(log.producers.copy_producers())) for _ in range(3))
    rolls = []
    for _ in range(3):
        fill(log, 1)
        rolls.append(cpu(log.roll))
    assert min(rolls) < snapshot / 4
    log.config = COMPACT
    cleanable = look_at(log, START_MS)
    assert cleanable is not None
    assert min(cpu(lambda: plan(cleanable, START_MS)) for _ in range(3)) < snapshot / 4


def test_the_next_flush_writes_the_snapshot_of_a_roll(tmp_path: Path) -> None:
    logs = with_many(tmp_path)
    log = logs.log
    log.roll()
    assert names(logs.path, ".snapshot") == []
    append(log, batch(b"y", producer_id=MANY, epoch=0, sequence=0))
    log.flush()
    assert names(logs.path, ".snapshot") == [f"{MANY:020d}.snapshot"]
    assert names(logs.path, ".tmp") == []
    assert any(path.endswith(".snapshot.tmp") for path in logs.files.synced), "before it had its name"
    log = logs.restart(clean=False)
    assert len(log.producers) == MANY + 1
    duplicate = append(log, batch(b"x", producer_id=7, epoch=0, sequence=0))
    assert duplicate.duplicate
    assert duplicate.first_offset == 7


def test_a_snapshot_is_of_the_moment_of_the_roll(tmp_path: Path) -> None:
    logs = with_many(tmp_path)
    log = logs.log
    log.roll()
    append(log, batch(b"y", producer_id=3, epoch=0, sequence=1))
    log.flush()
    log.truncate_to(MANY)
    entry = log.producers.get(3)
    assert entry is not None
    assert entry.last_sequence == 0


@pytest.mark.parametrize("when", ["before the flush", "during the flush", "after it was written"])
@pytest.mark.parametrize("offset", [0, 1, MANY - 1])
def test_a_snapshot_of_what_was_cut_is_not_left(tmp_path: Path, when: str, offset: int) -> None:
    logs = with_many(tmp_path)
    log = logs.log
    log.roll()
    if when == "before the flush":
        log.truncate_to(offset)
    ticket = log.prepare_flush()
    assert ticket is not None
    if when == "during the flush":
        log.truncate_to(offset)
    ticket.run()
    if when == "after it was written":
        log.truncate_to(offset)
    log.complete_flush(ticket)
    log.flush()
    assert names(logs.path, ".tmp") == names(logs.path, ".snapshot") == []
    assert len(log.producers) == offset


def test_a_full_disk_costs_the_snapshot_alone(tmp_path: Path) -> None:
    logs = with_many(tmp_path)
    log = logs.log
    log.roll()
    logs.files.faults = [Fault("write", NO_SPACE, ".snapshot.tmp")]
    log.flush()
    assert log.flushed_offset == MANY
    assert names(logs.path, ".tmp") == names(logs.path, ".snapshot") == []
    logs.files.faults = []
    append(log, batch(b"y", producer_id=3, epoch=0, sequence=1))
    assert len(logs.restart().producers) == MANY
    assert names(logs.path, ".snapshot") == [f"{MANY + 1:020d}.snapshot"]


def test_a_flush_that_is_tried_again_writes_the_snapshot(tmp_path: Path) -> None:
    logs = with_many(tmp_path)
    log = logs.log
    log.roll()
    ticket = log.prepare_flush()
    assert ticket is not None
    logs.files.faults = [Fault("sync", None)]
    with pytest.raises(ExhaustedError) as caught:
        ticket.run()
    logs.files.faults = []
    log.abort_flush(ticket, caught.value)
    log.flush()
    assert names(logs.path, ".snapshot") == [f"{MANY:020d}.snapshot"]


def test_a_log_that_is_closed_after_a_roll_has_its_snapshot(tmp_path: Path) -> None:
    logs = with_many(tmp_path)
    logs.log.roll()
    log = logs.restart()
    assert names(logs.path, ".snapshot") == [f"{MANY:020d}.snapshot"]
    assert len(log.producers) == MANY


def test_a_snapshot_that_a_crash_left_unnamed_goes_with_the_next_start(tmp_path: Path) -> None:
    logs = with_many(tmp_path)
    logs.log.roll()
    ticket = logs.log.prepare_flush()
    assert ticket is not None
    ticket.run()
    ticket.release()
    assert names(logs.path, ".tmp") == [f"{MANY:020d}.snapshot.tmp"]
    log = logs.restart(clean=False)
    assert names(logs.path, ".tmp") == []
    assert len(log.producers) == MANY
