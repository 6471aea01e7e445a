"""Compaction of a log that is in use: what is chosen, and what readers see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kafkapy.protocol.control_records import ControlType
from kafkapy.protocol.records import Compression, Record, build_batch, iter_headers
from kafkapy.storage.cleaning.cleanable import look_at, roll_if_old
from kafkapy.storage.disk.checkpoints import read_offsets
from kafkapy.storage.log.validate import AppendOrigin
from tests.loop.turned_clock import START_MS
from tests.storage.cleaning.harness import (
    COMPACT,
    DAY,
    compact,
    compact_fully,
    compacted,
    fill,
    put,
    put_transaction,
    records_of,
)
from tests.storage.log_harness import TP, names, offsets, read_bytes, records_in

# --- readers ------------------------------------------------------------------------------------------------


def test_offsets_stay_and_a_reader_finds_the_next_one_that_is_left(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    compact_fully(logs.manager, logs.log)
    assert offsets(logs.log) == [27, 28, 29]
    for start in range(28):
        assert offsets(logs.log, start) == [27, 28, 29]
    assert logs.log.log_end_offset == 30
    assert logs.log.log_start_offset == 0
    logs.log.check()


def test_a_reader_that_holds_a_slice_of_an_old_segment_goes_on(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    before = read_bytes(logs.log, 0, max_bytes=500)
    read = logs.log.read(0, 500, upper_bound=30)
    assert read is not None
    compact_fully(logs.manager, logs.log)
    logs.manager.delete_expired_files(2**62)
    assert read.slice.read() == before[: read.slice.nbytes]
    read.slice.release()


def test_old_segments_are_renamed_and_removed_after_the_delay(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    compact_fully(logs.manager, logs.log)
    assert names(logs.path, ".log.deleted")
    assert not [name for name in names(logs.path) if name.endswith((".cleaned", ".swap"))]
    logs.manager.delete_expired_files(START_MS + COMPACT.file_delete_delay_ms)
    assert not names(logs.path, ".deleted")


def test_small_segments_are_put_together_within_segment_bytes(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 60, keys=60)
    logs.log.roll()
    before = len(logs.log.segments)
    logs.config = replace(COMPACT, segment_bytes=4000)
    compact(logs.manager, logs.log)
    assert len(logs.log.segments) <= before // 3
    assert all(segment.size <= 4000 for segment in logs.log.segments)
    assert offsets(logs.log) == list(range(60))
    logs.log.check()


def test_records_without_a_key_go(tmp_path: Path) -> None:
    logs = compacted(tmp_path, replace(COMPACT, cleanup_policy=frozenset({"delete"})))
    batch = build_batch(
        [Record(-1, START_MS, None, b"before the topic was compacted"), Record(-1, START_MS, b"k", b"v")]
    )
    logs.log.append(memoryview(batch), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=START_MS)
    logs.log.advance_high_watermark(2)
    logs.config = COMPACT
    logs.log.roll()
    stats = compact(logs.manager, logs.log)
    assert stats is not None
    assert stats.records_without_key == 1
    assert offsets(logs.log) == [1]


def test_the_last_sequence_number_of_a_producer_stays_as_an_empty_batch(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    put(logs.log, b"k", b"old", producer_id=9)
    put(logs.log, b"k", b"new")
    compact_fully(logs.manager, logs.log)
    for path in logs.path.glob("*.snapshot"):
        path.unlink()
    logs.log.flush()
    (tmp_path / "data" / "recovery-point-offset-checkpoint").unlink()
    log = logs.restart(clean=False)
    assert offsets(log) == [1]
    entry = log.producers.get(9)
    assert entry is not None
    assert entry.last_sequence == 0


@pytest.mark.parametrize("value", [b"new", None])
def test_a_transaction_that_was_aborted_before_the_dirty_part_does_not_hide_the_next_one(
    tmp_path: Path, value: bytes | None
) -> None:
    logs = compacted(tmp_path)
    put(logs.log, b"k", b"old")
    put_transaction(logs.log, b"x", b"aborted", 0, ControlType.ABORT)
    compact_fully(logs.manager, logs.log)
    put_transaction(logs.log, b"k", value, 1, ControlType.COMMIT)
    compact_fully(logs.manager, logs.log)
    assert [record.value for record in records_of(logs.log)] == [value]


def test_a_compressed_batch_keeps_its_codec(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    for codec in Compression:
        records = [Record(-1, START_MS, b"same", b"old"), Record(-1, START_MS, b"own %d" % codec, b"value")]
        batch = build_batch(records, compression=codec)
        logs.log.append(memoryview(batch), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=START_MS)
    logs.log.advance_high_watermark(10)
    compact_fully(logs.manager, logs.log)
    assert [header.compression for _, header in iter_headers(read_bytes(logs.log))] == list(Compression)
    assert offsets(logs.log) == [1, 3, 5, 7, 8, 9]


# --- what is chosen -----------------------------------------------------------------------------------------


def test_the_active_segment_and_undecided_transactions_are_not_compacted(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 4)
    assert look_at(logs.log, START_MS) is None
    logs.log.roll()
    found = look_at(logs.log, START_MS)
    assert found is not None
    assert found.end_offset == 4
    logs.log.producers.first_unstable_offset = 3
    assert look_at(logs.log, START_MS) is None


def test_dirty_bytes_are_compared_with_all_bytes(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    compact_fully(logs.manager, logs.log)
    assert look_at(logs.log, START_MS) is None
    put(logs.log, b"key-0", b"small")
    logs.log.roll()
    found = look_at(logs.log, START_MS)
    assert found is not None
    assert 0.05 < found.dirty_ratio < 0.5
    assert not found.is_due
    logs.config = replace(COMPACT, min_cleanable_dirty_ratio=0.05)
    assert look_at(logs.log, START_MS).is_due  # type: ignore[union-attr]


def test_min_compaction_lag_keeps_young_records(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 5, timestamp=START_MS)
    logs.log.roll()
    fill(logs.log, 5, timestamp=START_MS + 10_000)
    logs.log.roll()
    logs.config = replace(COMPACT, min_compaction_lag_ms=60_000)
    assert look_at(logs.log, START_MS + 59_999) is None
    assert look_at(logs.log, START_MS + 60_000).end_offset == 5  # type: ignore[union-attr]
    assert look_at(logs.log, START_MS + 70_000).end_offset == 10  # type: ignore[union-attr]


def test_max_compaction_lag_makes_a_log_due_and_closes_its_active_segment(tmp_path: Path) -> None:
    logs = compacted(tmp_path, replace(COMPACT, max_compaction_lag_ms=60_000, min_cleanable_dirty_ratio=1.0))
    fill(logs.log, 5)
    roll_if_old(logs.log, START_MS + 60_000)
    assert len(logs.log.segments) == 1
    roll_if_old(logs.log, START_MS + 60_001)
    assert len(logs.log.segments) == 2
    assert not look_at(logs.log, START_MS + 60_000).is_due  # type: ignore[union-attr]
    assert look_at(logs.log, START_MS + 60_001).is_due  # type: ignore[union-attr]


def test_an_append_rolls_after_max_compaction_lag(tmp_path: Path) -> None:
    logs = compacted(tmp_path, replace(COMPACT, max_compaction_lag_ms=60_000))
    put(logs.log, b"k", b"v", START_MS)
    put(logs.log, b"k", b"v", START_MS + 60_001)
    assert len(logs.log.segments) == 2


def test_old_records_that_come_now_do_not_close_a_segment_each_time(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    put(logs.log, b"k", b"v", START_MS - 365 * DAY)
    roll_if_old(logs.log, START_MS + 1000)
    assert len(logs.log.segments) == 1
    roll_if_old(logs.log, START_MS + COMPACT.segment_ms + 1)
    assert len(logs.log.segments) == 2


def test_what_is_clean_is_known_after_a_restart(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    compact_fully(logs.manager, logs.log)
    path = f"{tmp_path}/data/cleaner-offset-checkpoint"
    assert read_offsets(logs.files, path) == {TP: 30}
    log = logs.restart()
    assert log.cleaned_offset == 30
    log.advance_high_watermark(30)
    assert look_at(log, START_MS) is None


def test_a_deleted_topic_leaves_nothing_in_the_cleaner_offsets(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    compact_fully(logs.manager, logs.log)
    logs.manager.delete(TP)
    assert logs.log.cleaned_offset is None
    assert read_offsets(logs.files, f"{tmp_path}/data/cleaner-offset-checkpoint") == {}


def test_a_truncated_log_is_dirty_from_its_new_end(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30, keys=30)
    compact_fully(logs.manager, logs.log)
    logs.log.truncate_to(20)
    assert logs.log.cleaned_offset == logs.log.log_end_offset == 20


# --- tombstones ---------------------------------------------------------------------------------------------


def test_a_tombstone_stays_until_its_delete_horizon(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    put(logs.log, b"gone", b"value")
    put(logs.log, b"gone", None)
    compact_fully(logs.manager, logs.log)
    assert [record.value for record in records_in(read_bytes(logs.log))] == [None]
    put(logs.log, b"other", b"1")
    logs.clock.turn_ms(COMPACT.delete_retention_ms - 1)
    compact_fully(logs.manager, logs.log)
    assert offsets(logs.log) == [1, 2]
    put(logs.log, b"other", b"2")
    logs.clock.turn_ms(1)
    compact_fully(logs.manager, logs.log)
    assert offsets(logs.log) == [3]


def test_a_delete_horizon_does_not_change_a_timestamp(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    records = [
        Record(-1, START_MS - 5, b"a", None),
        Record(-1, START_MS + 7, b"b", b"value", [("h", b"x")]),
        Record(-1, -1, b"c", None),
    ]
    batch = build_batch(records)
    logs.log.append(memoryview(batch), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=START_MS)
    logs.log.advance_high_watermark(3)
    compact_fully(logs.manager, logs.log)
    found = records_in(read_bytes(logs.log))
    assert [record.timestamp for record in found] == [START_MS - 5, START_MS + 7, -1]
    assert found[1].headers == [("h", b"x")]
