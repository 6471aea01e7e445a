"""Compaction of a log that is in use: what is chosen, what readers see, and what stops it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafkapy.protocol.control_records import ControlType, control_record_key, end_txn_marker_value
from kafkapy.protocol.errors import KafkaError
from kafkapy.protocol.records import Compression, Record, build_batch, iter_headers
from kafkapy.storage.batches import BadBatchError
from kafkapy.storage.checkpoints import read_offsets
from kafkapy.storage.cleaning.cleanable import look_at, roll_if_old
from kafkapy.storage.cleaning.offset_map import OffsetMap
from kafkapy.storage.cleaning.pace import Pace
from kafkapy.storage.cleaning.task import CleaningAbortedError, CleaningTask
from kafkapy.storage.cleaning.throttle import Throttle
from kafkapy.storage.log import PartitionLog
from kafkapy.storage.log_config import LogConfig
from kafkapy.storage.validate import AppendOrigin
from tests.storage.cleaning_harness import compact, compact_fully, records_of
from tests.storage.log_harness import (
    IO_ERROR,
    START_MS,
    TP,
    Fault,
    Logs,
    names,
    offsets,
    read_bytes,
    records_in,
)

COMPACT = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=1000,
    index_interval_bytes=100,
    delete_retention_ms=1000,
)
DAY = 86_400_000


def put(
    log: PartitionLog, key: bytes, value: bytes | None, timestamp: int = START_MS, producer_id: int = -1
) -> int:
    """Append one record that readers see at once; its offset."""
    batch = build_batch(
        [Record(-1, timestamp, key, value)],
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
    )
    info = log.append(memoryview(batch), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=timestamp)
    log.advance_high_watermark(log.log_end_offset)
    return info.first_offset


def fill(log: PartitionLog, count: int, keys: int = 3, timestamp: int = START_MS) -> None:
    for number in range(count):
        put(log, b"key-%d" % (number % keys), b"value".ljust(100, b"."), timestamp)


def compacted(tmp_path: Path, config: LogConfig = COMPACT) -> Logs:
    return Logs(tmp_path, config=config)


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


def put_transaction(
    log: PartitionLog, key: bytes, value: bytes | None, sequence: int, end: ControlType
) -> None:
    log.producers.verified_transactions.add(9)
    producer: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "transactional": True}
    record = Record(-1, START_MS, key, value)
    marker = Record(-1, START_MS, control_record_key(end), end_txn_marker_value(0))
    for batch, origin in (
        (build_batch([record], base_sequence=sequence, **producer), AppendOrigin.CLIENT),
        (build_batch([marker], control=True, **producer), AppendOrigin.COORDINATOR),
    ):
        log.append(memoryview(batch), leader_epoch=0, origin=origin, now_ms=START_MS)
    log.advance_high_watermark(log.log_end_offset)


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
    logs.clock.ms += COMPACT.delete_retention_ms - 1
    compact_fully(logs.manager, logs.log)
    assert offsets(logs.log) == [1, 2]
    put(logs.log, b"other", b"2")
    logs.clock.ms += 1
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


# --- what stops it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["truncate", "truncate all", "delete", "abandon"])
def test_a_change_of_the_log_stops_compaction_without_a_trace(tmp_path: Path, change: str) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    logs.log.roll()
    log = logs.log

    def happen() -> None:
        assert names(logs.path, ".swap")
        if change == "truncate":
            log.truncate_to(17)
        elif change == "truncate all":
            log.truncate_fully_and_start_at(100)
        elif change == "delete":
            logs.manager.delete(TP)
        else:
            log.stop_cleaning()

    with pytest.raises(CleaningAbortedError):
        compact(logs.manager, log, before_swap=happen)
    folder = Path(log.path)
    assert not [name for name in names(folder) if name.endswith((".cleaned", ".swap"))]
    if change == "truncate":
        assert offsets(log) == list(range(17))
    elif change == "abandon":
        assert offsets(log) == list(range(30))
    if change != "delete":
        log.check()
        compact_fully(logs.manager, log)


def test_a_new_topic_of_the_same_name_is_not_touched_by_the_pass_over_the_old_one(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    logs.log.roll()

    def recreate() -> None:
        logs.manager.delete(TP)
        fill(logs.log, 4, keys=4)

    with pytest.raises(CleaningAbortedError):
        compact(logs.manager, logs.log, before_swap=recreate)
    assert offsets(logs.log) == [0, 1, 2, 3]
    assert not [name for name in names(logs.path) if name.endswith((".cleaned", ".swap"))]


def test_a_log_that_moves_to_another_directory_is_not_compacted_meanwhile(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=COMPACT, dirs=("data", "other"))
    fill(logs.log, 30)
    logs.log.roll()
    log = logs.log
    other = next(each for each in logs.manager.directories if each is not log.log_directory)

    def move() -> None:
        logs.manager.moves.create_copy(TP, other)

    with pytest.raises(CleaningAbortedError):
        compact(logs.manager, log, before_swap=move)
    assert offsets(log) == list(range(30))


@pytest.mark.parametrize("operation", ["sync", "rename", "write"])
def test_a_disk_that_fails_during_a_pass_is_found_out_and_loses_nothing(
    tmp_path: Path, operation: str
) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    logs.log.roll()
    logs.log.flush()
    logs.save_recovery_points()
    suffix = ".swap" if operation == "rename" else ".cleaned"
    logs.files.faults.append(Fault(operation, IO_ERROR, suffix))
    with pytest.raises(OSError, match=r"\[Errno 5\]"):
        compact(logs.manager, logs.log)
    assert offsets(logs.log) == list(range(30))
    logs.files.faults.clear()
    compact_fully(logs.manager, logs.log)
    assert offsets(logs.log) == [27, 28, 29]


def test_a_gap_that_apache_kafka_left_between_segments_is_no_loss(tmp_path: Path) -> None:
    for cleaner_offset, expected in ((10, [0, 1, 2, 3, 4, 10, 11]), (9, [0, 1, 2, 3, 4])):
        logs = compacted(tmp_path / str(cleaner_offset))
        fill(logs.log, 5)
        logs.log.roll()
        fill(logs.log, 5)
        logs.log.roll()
        fill(logs.log, 2)
        logs.crash()
        for path in logs.path.glob("00000000000000000005.*"):
            path.unlink()
        data = logs.path.parent
        (data / "cleaner-offset-checkpoint").write_text(f"0\n1\nevents 0 {cleaner_offset}\n")
        logs.manager = logs._start()
        assert offsets(logs.log) == expected
        logs.crash()


def test_the_log_start_offset_may_move_during_a_pass(tmp_path: Path) -> None:
    logs = compacted(tmp_path, replace(COMPACT, cleanup_policy=frozenset({"compact", "delete"})))
    fill(logs.log, 30)
    logs.log.roll()

    def move() -> None:
        logs.log.advance_log_start_offset(28)

    compact(logs.manager, logs.log, before_swap=move)
    assert offsets(logs.log, 28) == [28, 29]
    logs.log.delete_old_segments(START_MS)
    logs.log.check()


def test_appends_and_rolls_go_on_during_a_pass(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    logs.log.roll()
    compact(logs.manager, logs.log, before_swap=lambda: fill(logs.log, 12, keys=12))
    found = offsets(logs.log)
    assert found[:3] == [27, 28, 29]
    assert found[-1] == logs.log.log_end_offset - 1
    logs.log.check()


def test_a_damaged_batch_ends_the_pass_and_stays_as_it_is(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    logs.log.roll()
    path = Path(logs.log.segments.first.path)
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(BadBatchError, match="damaged"):
        compact(logs.manager, logs.log)
    assert path.read_bytes() == data
    assert not [name for name in names(logs.path) if name.endswith((".cleaned", ".swap"))]


def test_a_base_offset_that_rotted_is_damage_though_the_crc_is_right(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    logs.log.roll()
    path = Path(logs.log.segments.first.path)
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[8:12], "big") + 12
    data[size : size + 8] = (7_000_000).to_bytes(8, "big")
    path.write_bytes(data)
    with pytest.raises(BadBatchError):
        compact(logs.manager, logs.log)


def test_a_swap_that_is_damaged_keeps_the_log_offline(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    fill(logs.log, 30)
    logs.log.roll()
    logs.log.flush()
    logs.crash()
    (logs.path / "00000000000000000000.log.swap").write_bytes(b"rot" * 50)
    logs.manager = logs._start()
    with pytest.raises(KafkaError, match="compacted segment"):
        logs.manager.get(TP)


# --- parts --------------------------------------------------------------------------------------------------


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
