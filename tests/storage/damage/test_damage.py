"""Damage below the recovery point, or in files that nobody had a reason to read.

It is reported and served around, never truncated and never served as right.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.damage.damage import (
    DAMAGED_OFFSETS,
    DamagedOffsetsError,
    DamagedRange,
    good_runs,
    joined,
)
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import TOPIC_ID, TP, ColdPages, Logs, fill, names, offsets, records_in, search

SEGMENTS_OF_5 = LogConfig(segment_bytes=1000, index_interval_bytes=200, file_delete_delay_ms=0)
BATCH = 170
FIRST, SECOND, THIRD = (f"{base:020d}.log" for base in (0, 5, 10))
FIELDS = {"offset": 0, "length": 8, "epoch": 12, "magic": 16, "crc": 17, "attributes": 21, "record": 100}


def flip(path: Path, position: int, mask: int = 0x81) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)


def flushed(tmp_path: Path, count: int = 12) -> Logs:
    """A log of 5, 5 and 2 batches, all on disk and known to be, that crashed."""
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    fill(logs.log, count)
    logs.log.flush()
    logs.save_recovery_points()
    logs.manager.checkpoint_high_watermarks()()
    logs.crash()
    return logs


def stopped_in_order(tmp_path: Path) -> Logs:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    fill(logs.log, 12)
    logs.stop()
    return logs


def start(logs: Logs) -> PartitionLog:
    logs.manager = logs.new_manager()
    return logs.log


def readable(log: PartitionLog) -> tuple[list[int], list[int]]:
    """What a consumer reads that seeks by one where an offset is damaged.

    The result is the offsets with records, and the damaged ones.
    """
    found: list[int] = []
    damaged: list[int] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            read = log.read(offset, 1 << 20, upper_bound=log.log_end_offset)
        except DamagedOffsetsError:
            damaged.append(offset)
            offset += 1
            continue
        assert read is not None
        records = records_in(read.slice.read())
        read.slice.release()
        for record in records:
            assert record.value is not None
            assert record.value.startswith(b"%d." % record.offset), "wrong bytes are served as right"
            if record.offset >= offset:
                found.append(record.offset)
        offset = max(offset + 1, found[-1] + 1)
    return found, damaged


def all_but(*damaged: int) -> tuple[list[int], list[int]]:
    return [offset for offset in range(12) if offset not in damaged], list(damaged)


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize(("segment", "index"), [(FIRST, 0), (FIRST, 2), (SECOND, 4), (THIRD, 0), (THIRD, 1)])
def test_a_bad_batch_that_was_on_disk_once_is_served_around(
    tmp_path: Path, segment: str, index: int, name: str
) -> None:
    logs = flushed(tmp_path)
    flip(logs.path / segment, index * BATCH + FIELDS[name])
    before = {each: (logs.path / each).read_bytes() for each in names(logs.path, ".log")}
    lost = int(segment[:20]) + index
    for _ in range(2):
        log = start(logs)
        if (name, lost) in (("epoch", 4), ("epoch", 9), ("epoch", 11)):
            # The leader epoch of the last batch of a segment has no batch after it to confirm it.
            assert readable(log)[0][:4] == [0, 1, 2, 3]
        else:
            assert readable(log) == all_but(lost)
        assert log.log_end_offset == 12
        logs.crash()
        assert {each: (logs.path / each).read_bytes() for each in names(logs.path, ".log")} == before


@pytest.mark.parametrize("name", sorted(set(FIELDS) - {"epoch"}))
def test_rot_in_a_closed_segment_is_found_after_a_clean_stop_when_it_is_read(
    tmp_path: Path, name: str
) -> None:
    logs = stopped_in_order(tmp_path)
    flip(logs.path / FIRST, 2 * BATCH + FIELDS[name])
    log = start(logs)
    assert readable(log) == all_but(2)
    assert (logs.path / DAMAGED_OFFSETS).read_text() == f"0\n1\n0 {2 * BATCH} {3 * BATCH} 2 3\n"
    assert readable(logs.restart()) == all_but(2)


@pytest.mark.parametrize("name", ["offset", "crc", "record"])
@pytest.mark.parametrize("lost", [1, 2, 4])
def test_rot_that_a_seek_finds_first_does_not_take_what_lies_before(
    tmp_path: Path, name: str, lost: int
) -> None:
    logs = stopped_in_order(tmp_path)
    flip(logs.path / FIRST, lost * BATCH + FIELDS[name])
    log = start(logs)
    with pytest.raises(DamagedOffsetsError):
        log.read(lost, 1 << 20, upper_bound=12)
    assert (logs.path / DAMAGED_OFFSETS).read_text().splitlines()[2].endswith(f" {lost} {lost + 1}")
    assert readable(log) == all_but(lost)


def test_without_the_check_rot_is_left_to_the_consumer(tmp_path: Path) -> None:
    logs = stopped_in_order(tmp_path)
    flip(logs.path / FIRST, 2 * BATCH + 100)
    logs.manager = logs.new_manager()
    for segment in logs.log.segments:
        segment.unchecked = None
    read = logs.log.read(2, 1000, upper_bound=12)
    assert read is not None
    read.slice.release()


def test_a_log_that_lost_its_end_goes_on_behind_it(tmp_path: Path) -> None:
    logs = flushed(tmp_path)
    with (logs.path / THIRD).open("r+b") as file:
        file.truncate(BATCH)
    log = start(logs)
    assert log.log_end_offset == 12
    fill(log, 2)
    assert readable(log) == ([*range(11), 12, 13], [11])
    for clean in (True, False):
        log = logs.restart(clean=clean)
        assert readable(log) == ([*range(11), 12, 13], [11])
        assert log.log_end_offset == 14


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("size", [0, 1, BATCH, 3 * BATCH + 60])
def test_a_closed_segment_that_was_cut_short_is_missed_only_where_it_is(
    tmp_path: Path, size: int, clean: bool
) -> None:
    logs = stopped_in_order(tmp_path) if clean else flushed(tmp_path)
    with (logs.path / SECOND).open("r+b") as file:
        file.truncate(size)
    found, damaged = readable(start(logs))
    assert (found, damaged) == all_but(*range(5 + size // BATCH, 10))


def test_damage_behind_which_nothing_good_lies_does_not_hide_the_next_segment(tmp_path: Path) -> None:
    logs = flushed(tmp_path)
    path = logs.path / FIRST
    path.write_bytes(path.read_bytes()[: 2 * BATCH] + b"\2" * (3 * BATCH))
    assert readable(start(logs)) == all_but(2, 3, 4)


def test_bytes_that_came_between_two_batches_are_skipped(tmp_path: Path) -> None:
    logs = stopped_in_order(tmp_path)
    path = logs.path / FIRST
    data = path.read_bytes()
    path.write_bytes(data[: 2 * BATCH] + data[BATCH : 2 * BATCH] + b"xyz" + data[2 * BATCH :])
    found, damaged = readable(start(logs))
    assert (found, damaged) == all_but()


@pytest.mark.parametrize("entry", [struct.pack(">ii", 1, 700), struct.pack(">ii", 4, 170), bytes(8)])
def test_a_wrong_index_entry_leads_nobody_past_a_record(tmp_path: Path, entry: bytes) -> None:
    logs = stopped_in_order(tmp_path)
    index = logs.path / f"{0:020d}.index"
    clean = index.read_bytes()
    index.write_bytes(entry + clean[8:])
    log = start(logs)
    for offset in (4, 3, 2, 1, 0):
        read = log.read(offset, 100, upper_bound=12)
        assert read is not None
        assert records_in(read.slice.read())[0].offset <= offset
        read.slice.release()
    assert readable(log) == all_but()


@pytest.mark.parametrize("check", [True, False])
def test_an_index_whose_pages_have_to_be_loaded_is_looked_at_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    logs = stopped_in_order(tmp_path)
    (logs.path / f"{5:020d}.index").write_bytes(struct.pack(">ii", 1, 10_000))
    log = start(logs)
    if not check:
        for segment in log.segments:
            segment.unchecked = None
    assert ColdPages(monkeypatch).read(log, 7) == 8


def test_a_wrong_newest_timestamp_does_not_have_retention_delete_a_segment(tmp_path: Path) -> None:
    logs = stopped_in_order(tmp_path)
    for base in (0, 5):
        index = logs.path / f"{base:020d}.timeindex"
        data = index.read_bytes()
        index.write_bytes(data[:-12] + struct.pack(">qi", 1000, 4))
    log = start(logs)
    log.config = LogConfig(segment_bytes=1000, index_interval_bytes=200, retention_ms=86_400_000)
    assert log.delete_old_segments(START_MS + 1000) == 0
    found = search(log, START_MS + 3)
    assert found is not None
    assert found.offset == 3


def test_a_recovery_point_that_only_one_file_knows_loses_nothing(tmp_path: Path) -> None:
    logs = flushed(tmp_path)
    path = tmp_path / "data" / "recovery-point-offset-checkpoint"
    path.write_text("0\n1\nevents 0 900012\n")
    assert readable(start(logs)) == all_but()
    assert logs.log.log_end_offset == 12


def test_a_log_start_offset_that_cannot_be_loses_nothing(tmp_path: Path) -> None:
    logs = flushed(tmp_path)
    (tmp_path / "data" / "log-start-offset-checkpoint").write_text("0\n1\nevents 0 9000003\n")
    assert readable(start(logs)) == all_but()


def test_a_damaged_topic_id_is_not_taken_for_a_deleted_topic(tmp_path: Path) -> None:
    logs = stopped_in_order(tmp_path)
    path = logs.path / "partition.metadata"
    flip(path, path.stat().st_size - 5, 1)
    log = start(logs)
    assert logs.manager.create(TP, TOPIC_ID, SEGMENTS_OF_5) is log
    assert offsets(log) == list(range(12))


def test_damage_goes_with_its_segment(tmp_path: Path) -> None:
    logs = stopped_in_order(tmp_path)
    flip(logs.path / FIRST, 100)
    log = start(logs)
    assert readable(log) == all_but(0)
    log.advance_log_start_offset(5)
    log.delete_old_segments(0)
    assert readable(logs.restart(clean=False)) == (list(range(5, 12)), [])


def test_other_partitions_do_not_notice(tmp_path: Path) -> None:
    logs = flushed(tmp_path)
    flip(logs.path / FIRST, 100)
    start(logs)
    other = logs.manager.create(TopicPartition("other", 0), bytes(16), SEGMENTS_OF_5, new=True)
    fill(other, 3)
    assert offsets(other) == [0, 1, 2]


def test_runs_between_damage() -> None:
    damage = joined([DamagedRange(20, 30, 2, 3), DamagedRange(0, 10, 0, 1), DamagedRange(20, 25, 2, 3)])
    assert damage == (DamagedRange(0, 10, 0, 1), DamagedRange(20, 30, 2, 3))
    assert list(good_runs(damage, 0, 40)) == [(10, 20), (30, 40)]
    assert list(good_runs(damage, 15, 25)) == [(15, 20)]
    assert list(good_runs(damage, 22, 28)) == []
