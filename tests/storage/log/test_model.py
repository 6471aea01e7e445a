"""A log against a model: a list of batches that the log must be.

That holds whatever is done to it in whatever order.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafkapy.protocol.records import Compression
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import Logs, append, batch, read_bytes, records_in, search


@dataclass(frozen=True)
class Entry:
    """One record as a consumer must see it."""

    batch: int
    offset: int
    timestamp: int
    value: bytes


CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=300, segment_index_bytes=120, retention_ms=-1)


class LogModel(RuleBasedStateMachine):
    """Appends, reads, rolls, truncations and restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.logs = Logs(self.root, config=CONFIG)
        self.entries: list[Entry] = []
        self.end = self.start = self.flushed = 0
        self.batches = 0
        self.epoch = 0
        """A leader's epoch never falls, also where the log has forgotten its records and their epochs."""
        self.now = START_MS

    def teardown(self) -> None:
        self.logs.crash()
        shutil.rmtree(self.root)

    @property
    def log(self) -> PartitionLog:
        return self.logs.log

    @property
    def visible(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.offset >= self.start]

    @rule(
        sizes=st.lists(st.integers(0, 400), min_size=1, max_size=5),
        ahead=st.integers(-5000, 5000),
        compression=st.sampled_from([Compression.NONE, Compression.NONE, Compression.GZIP]),
        epoch=st.integers(0, 1),
    )
    def append(self, sizes: list[int], ahead: int, compression: Compression, epoch: int) -> None:
        self.batches += 1
        timestamp = self.now + ahead
        values = [b"%d" % self.batches * (size // 4 + 1) for size in sizes]
        self.epoch += epoch
        info = append(
            self.log,
            batch(*values, timestamp=timestamp, compression=compression),
            leader_epoch=self.epoch,
            now_ms=self.now,
        )
        assert info.first_offset == self.end
        for index, value in enumerate(values):
            self.entries.append(Entry(self.batches, self.end + index, timestamp + index, value))
        self.end = info.last_offset + 1
        assert self.log.log_end_offset == self.end

    @rule(offset=st.integers(0, 200), max_bytes=st.integers(1, 4000), back=st.integers(0, 3))
    def read(self, offset: int, max_bytes: int, back: int) -> None:
        if not self.start <= offset <= self.end:
            return
        bound = max(self.end - back, self.start)
        found = self.log.read(offset, max_bytes, upper_bound=bound)
        # A batch that reaches over the bound is not seen; neither is what lies after it.
        whole = [e for e in self.entries if e.offset >= offset and self._end_of(e.batch) <= bound]
        if offset >= bound or not whole:
            assert found is None
            return
        assert found is not None
        data = found.slice.read()
        found.slice.release()
        records = [r for r in records_in(data) if r.offset >= offset]
        expected = whole[: len(records)]
        assert [(r.offset, r.timestamp, r.value) for r in records] == [
            (e.offset, e.timestamp, e.value) for e in expected
        ]
        assert records
        assert records[-1].offset < found.end_offset <= bound

    def _end_of(self, number: int) -> int:
        return max(e.offset for e in self.entries if e.batch == number) + 1

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.end

    @rule()
    def checkpoint(self) -> None:
        self.logs.save_recovery_points()
        self.logs.manager.checkpoint_log_start_offsets()()

    @rule(back=st.integers(0, 30))
    def truncate(self, back: int) -> None:
        offset = max(self.end - back, 0)
        self.log.truncate_to(offset)
        gone = {entry.batch for entry in self.entries if entry.offset >= offset}
        self.entries = [entry for entry in self.entries if entry.batch not in gone]
        last = self.visible[-1].offset + 1 if self.visible else 0
        self.end = self.log.log_end_offset
        assert last <= self.end <= offset
        self.start = self.log.log_start_offset
        assert self.start <= self.end
        self.flushed = min(self.flushed, self.end)

    @rule(forward=st.integers(0, 10))
    def delete_records(self, forward: int) -> None:
        self.log.advance_high_watermark(self.end)
        offset = min(self.start + forward, self.end)
        self.log.advance_log_start_offset(offset)
        self.start = offset

    @rule(keep=st.integers(0, 6000))
    def retain(self, keep: int) -> None:
        self.log.advance_high_watermark(self.end)
        self.log.config = replace(CONFIG, retention_bytes=keep)
        self.log.delete_old_segments(self.now)
        self.log.config = CONFIG
        assert self.log.size <= max(keep + CONFIG.segment_bytes, CONFIG.segment_bytes)
        self.start = self.log.log_start_offset

    @rule(timestamp=st.integers(-6000, 6000))
    def find_time(self, timestamp: int) -> None:
        wanted = START_MS + timestamp
        found = search(self.log, wanted)
        expected = next((e for e in self.visible if e.timestamp >= wanted), None)
        assert (None if found is None else (found.offset, found.timestamp)) == (
            None if expected is None else (expected.offset, expected.timestamp)
        )

    @rule()
    def find_newest(self) -> None:
        found = search(self.log, None)
        newest = max((e.timestamp for e in self.visible), default=None)
        if found is not None and newest is not None and found.timestamp == newest:
            assert found.offset == next(e.offset for e in self.visible if e.timestamp == newest)

    @rule()
    def stop_and_start(self) -> None:
        self.logs.restart()
        self.flushed = self.end

    @precondition(lambda self: self.entries)
    @rule(torn=st.integers(0, 500), garbage=st.binary(max_size=40))
    def crash(self, torn: int, garbage: bytes) -> None:
        self.logs.manager.checkpoint_log_start_offsets()()
        active = self.log.segments.active
        path, size, base = Path(active.path), active.size, active.base_offset
        kept = 0
        if self.flushed >= base:
            place = active.find(self.flushed)
            kept = size if place is None else place.position
        self.logs.crash()
        end = max(size - torn, kept)
        with path.open("r+b") as file:
            file.truncate(end)
            file.seek(end)
            file.write(garbage)
        self.logs.restart(clean=False)
        seen = {record.offset for record in records_in(read_bytes(self.log))}
        gone = {entry.batch for entry in self.visible if entry.offset not in seen}
        lost = [entry for entry in self.entries if entry.batch in gone]
        assert all(entry.offset >= self.flushed for entry in lost)
        assert end < size or not lost
        self.entries = [entry for entry in self.entries if entry.batch not in gone]
        last = self.visible[-1].offset + 1 if self.visible else self.start
        assert self.log.log_end_offset >= last
        self.end = self.flushed = self.log.log_end_offset
        self.start = max(self.start, self.log.log_start_offset)

    @invariant()
    def holds(self) -> None:
        log = self.log
        log.check()
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        seen = [(r.offset, r.value) for r in records_in(read_bytes(log)) if r.offset >= self.start]
        assert seen == [(e.offset, e.value) for e in self.visible]


TestLogModel = LogModel.TestCase
TestLogModel.settings = settings(
    max_examples=40, stateful_step_count=30, suppress_health_check=list(HealthCheck)
)
