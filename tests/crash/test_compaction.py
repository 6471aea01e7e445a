"""Whenever a compaction ends before its time, every key still has its last value.

Nothing is left lying around.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
from pathlib import Path

import pytest

from kafkapy.protocol.records import Compression, Record, build_batch
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.errors import StorageError
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.log.validate import AppendOrigin
from kafkapy.virtual.disk_trace import Disk, TracingFiles
from tests.crash.hooked_files import HookedFiles
from tests.loop.turned_clock import START_MS, TurnedClock
from tests.storage.cleaning.harness import compact, compact_fully, records_of

SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))
STATES = int(os.environ.get("KAFKAPY_COMPACTION_STATES", "150"))
TP = TopicPartition("compacted", 0)
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=5000,
    index_interval_bytes=200,
    segment_index_bytes=2000,
    file_delete_delay_ms=0,
)


def opened(files: TracingFiles) -> LogManager:
    manager = LogManager([f"{files.root}/data"], defaults=CONFIG, clock=TurnedClock(), files=files)
    manager.open()
    manager.load("a-cluster", 1)
    return manager


class Keys:
    """What was appended, and the last record of each key."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.appended: dict[int, Record] = {}

    def fill(self, log: PartitionLog, batches: int) -> None:
        for _ in range(batches):
            records = [
                Record(-1, START_MS, b"key-%d" % self._chance.randrange(12), self._chance.randbytes(100))
                for _ in range(self._chance.randrange(1, 5))
            ]
            codec = self._chance.choice((Compression.NONE, Compression.NONE, Compression.ZSTD))
            data = build_batch(records, compression=codec)
            info = log.append(memoryview(data), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=START_MS)
            for offset, record in enumerate(records, info.first_offset):
                self.appended[offset] = Record(offset, record.timestamp, record.key, record.value, [])
        log.flush()
        log.advance_high_watermark(log.log_end_offset)

    def check(self, log: PartitionLog) -> None:
        """Every key has its last value, every record is one that was appended there."""
        last = {record.key: record for _, record in sorted(self.appended.items())}
        found = {}
        for record in records_of(log):
            assert record == self.appended[record.offset], f"{log} holds another record at {record.offset}"
            found[record.key] = record
        assert found == last, f"{log} has lost {set(last) - set(found) or 'the last value of a key'}"
        assert log.log_end_offset == len(self.appended)
        log.check()


def check_recovered(root: Path, keys: Keys) -> None:
    """Load after a crash, and compact again."""
    manager = opened(TracingFiles(root))
    try:
        log = manager.get(TP)
        assert log is not None
        log.advance_high_watermark(log.log_end_offset)
        left = [name for name in os.listdir(log.path) if name.endswith((".cleaned", ".swap", ".deleted"))]
        assert not left, f"left over: {left}"
        keys.check(log)
        compact_fully(manager, log)
        keys.check(log)
    finally:
        manager.close(clean=False)


@pytest.mark.slow
def test_a_power_cut_or_a_kill_at_any_moment_of_a_compaction_loses_no_key(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    (tmp_path / "disk").mkdir()
    files = TracingFiles(tmp_path / "disk")
    manager, keys = opened(files), Keys(chance)
    log = manager.create(TP, bytes(range(16)), CONFIG, new=True)
    keys.fill(log, 40)
    compact(manager, log)  # the next one finds segments that were compacted before
    keys.fill(log, 40)
    first = len(files.trace)
    compact(manager, log, map_bytes=24 * 8)
    compact(manager, log)
    manager.delete_expired_files(2**62)
    total = len(files.trace)
    keys.check(log)
    moments = [(moment, killed) for moment in range(first, total + 1) for killed in (True, False)]
    for moment, killed in chance.sample(moments, min(STATES, len(moments))):
        found = tmp_path / f"{moment}-{killed}"
        disk = Disk()
        disk.play(files.trace[:moment])
        # A kill leaves everything to the page cache: as if power were lost and nothing with it.
        disk.lose_power(found, _Lucky() if killed else chance)
        try:
            check_recovered(found, keys)
        except Exception as error:
            raise AssertionError(f"KAFKAPY_SEED={SEED}, {moment} of {first} to {total}, {killed=}") from error
        shutil.rmtree(found)
    manager.close(clean=False)
    log.close_files()


class _Lucky(random.Random):
    """A random source with which every write survives."""

    def choice(self, seq):  # type: ignore[no-untyped-def]
        return seq[-1]

    def random(self) -> float:
        return 0.5


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["full", "failing"])
def test_a_compaction_whose_disk_is_full_or_fails_leaves_the_log_as_it_was(
    tmp_path: Path, error: int
) -> None:
    chance = random.Random(SEED)
    number = failed = 0
    while True:
        root = tmp_path / str(number)
        root.mkdir()
        disk = _FailingOnce(root, number, error)
        manager, keys = opened(disk), Keys(chance)
        log = manager.create(TP, bytes(range(16)), CONFIG, new=True)
        keys.fill(log, 30)
        manager.checkpoint_recovery_points()()
        disk.armed = True
        # Half-way through a swap this takes the log directory offline; before, the log cleaner does.
        with contextlib.suppress(OSError, StorageError):
            compact(manager, log)
        fired, disk.armed = disk.fired, False
        if log.log_directory.error is None:
            assert not [name for name in os.listdir(log.path) if name.endswith((".cleaned", ".swap"))]
            keys.check(log)
        manager.close(clean=False)
        log.close_files()
        check_recovered(root, keys)
        shutil.rmtree(root)
        failed += fired
        number += 1
        if not fired:
            break
    assert failed > 20


class _FailingOnce(HookedFiles):
    """Fails the n-th change after it is armed."""

    def __init__(self, root: Path, number: int, error: int) -> None:
        super().__init__(root, before=self._hook)
        self._left = number
        self._error = error
        self.armed = self.fired = False

    def _hook(self, operation: str) -> None:
        if not self.armed or operation == "unlink":
            return
        self._left -= 1
        if self._left == -1:
            self.fired = True
            raise OSError(self._error, os.strerror(self._error))
