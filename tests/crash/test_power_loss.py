"""After a power cut at any moment the log directory loads, and holds all that was flushed."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.records import Record, build_batch
from kafkapy.protocol.types import TopicPartition, random_uuid
from kafkapy.storage.disk.files import File
from kafkapy.storage.log.batches import BadBatchError
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.log.validate import AppendOrigin
from kafkapy.virtual.disk_trace import Disk, TracingFiles
from tests.crash.results import note
from tests.crash.storage_workload import (
    CONFIG,
    Promises,
    Workload,
    check_recovered,
    load,
    new_manager,
    promised_at,
)
from tests.loop.turned_clock import START_MS

STATES = int(os.environ.get("KAFKAPY_CRASH_STATES", "250"))
SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))
STATES_PER_LIFE = 50
STEPS = 150


@pytest.mark.slow
@pytest.mark.parametrize("life", range(max(1, STATES // STATES_PER_LIFE)))
def test_what_was_flushed_survives_a_power_cut(tmp_path: Path, life: int) -> None:
    chance = random.Random(SEED * 1000 + life)
    files = TracingFiles(_made(tmp_path / "disk"))
    workload = Workload(files, chance)
    workload.run(STEPS)
    try:
        _lose_power_often(files, workload, chance, tmp_path)
    except Exception as error:
        raise AssertionError(f"KAFKAPY_SEED={SEED}, life {life}: {error!r}") from error
    note("R3", "simulated power cuts", tried=STATES_PER_LIFE)


class LyingFiles(TracingFiles):
    """A disk that says it has synced, and has not."""

    def sync_data(self, file: File) -> None:
        pass


def test_a_disk_that_does_not_sync_is_found_out(tmp_path: Path) -> None:
    chance = random.Random(1)
    files = LyingFiles(_made(tmp_path / "disk"))
    workload = Workload(files, chance)
    workload.run(STEPS)
    with pytest.raises((AssertionError, KafkaError, BadBatchError)):
        _lose_power_often(files, workload, chance, tmp_path)


def _made(path: Path) -> Path:
    path.mkdir()
    return path


def _log_files(found: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in found.rglob("*.log")}


def _lose_power_often(files: TracingFiles, workload: Workload, chance: random.Random, tmp_path: Path) -> None:
    for number in range(STATES_PER_LIFE):
        _lose_power(files, workload, chance, tmp_path / f"state-{number}")


def _lose_power(files: TracingFiles, workload: Workload, chance: random.Random, found: Path) -> None:
    """Cut the power after any operation of the workload, and look at what is left in `found`."""
    operations = chance.randrange(len(files.trace) + 1)
    disk = Disk()
    disk.play(files.trace[:operations])
    disk.lose_power(found, chance)
    _recover_twice(found, promised_at(workload.promises, operations), workload, chance)
    shutil.rmtree(found)


def _recover_twice(found: Path, promises: Promises, workload: Workload, chance: random.Random) -> None:
    """Recover, lose power right after, and recover again.

    What was served in between is still there. Another recovery of what was recovered changes nothing any
    more.
    """
    disk = Disk(found)
    files = TracingFiles(found)
    ends = check_recovered(files, promises, workload.contents)
    once = _log_files(found)
    check_recovered(TracingFiles(found), promises, workload.contents)
    assert _log_files(found) == once, "recovering twice gives other bytes"
    disk.play(files.trace)
    again = found.with_name(found.name + "-again")
    disk.lose_power(again, chance)
    served = check_recovered(TracingFiles(again), promises, workload.contents)
    for tp, end in ends.items():
        assert served.get(tp, 0) >= end, f"{tp} ended at {end} when it was served, later at {served.get(tp)}"
    shutil.rmtree(again)


def test_a_log_whose_process_died_before_its_first_flush_has_its_name_after_the_next(tmp_path: Path) -> None:
    files = TracingFiles(_made(tmp_path / "disk"))
    disk = Disk()
    load(manager := new_manager(files))
    log = manager.create(TopicPartition("a", 0), random_uuid(), CONFIG, new=True)
    _append_one(log)
    manager.close(clean=False)  # the process dies: what it wrote stays, and is not synced
    load(manager := new_manager(files))
    log = manager.logs[TopicPartition("a", 0)]
    _append_one(log)
    ticket = log.prepare_flush()
    assert ticket is not None
    ticket.run()
    log.complete_flush(ticket)
    manager.close(clean=False)
    disk.play(files.trace)
    disk.lose_power(tmp_path / "found", ChanceThatKeepsNothing())
    load(manager := new_manager(TracingFiles(tmp_path / "found")))
    assert manager.logs[TopicPartition("a", 0)].log_end_offset == 2
    manager.close(clean=False)


def test_a_log_that_was_closed_while_it_was_empty_has_its_name_after_the_next_flush(tmp_path: Path) -> None:
    files = TracingFiles(_made(tmp_path / "disk"))
    disk = Disk()
    load(manager := new_manager(files))
    log = manager.create(TopicPartition("a", 0), random_uuid(), CONFIG, new=True)
    log.make_files()  # as a follower's fetch of nothing does
    manager.close()
    load(manager := new_manager(files))
    log = manager.logs[TopicPartition("a", 0)]
    _append_one(log)
    ticket = log.prepare_flush()
    assert ticket is not None
    ticket.run()
    log.complete_flush(ticket)
    manager.close(clean=False)
    disk.play(files.trace)
    disk.lose_power(tmp_path / "found", ChanceThatKeepsNothing())
    load(manager := new_manager(TracingFiles(tmp_path / "found")))
    assert manager.logs[TopicPartition("a", 0)].log_end_offset == 1
    manager.close(clean=False)


class ChanceThatKeepsNothing(random.Random):
    """A power cut after which nothing is left that was not synced."""

    def random(self) -> float:
        return 0.0


def _append_one(log: PartitionLog) -> None:
    batch = bytearray(build_batch([Record(-1, START_MS, b"k", b"v")]))
    log.append(memoryview(batch), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=START_MS)
