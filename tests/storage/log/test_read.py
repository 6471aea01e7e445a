"""Reading a log, by offset with bounds and by timestamp.

Reads go past what retention and truncation remove.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.records import Compression
from kafkapy.storage.disk.files import FileSlice
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import (
    Logs,
    append,
    batch,
    fill,
    headers_in,
    offsets,
    read_bytes,
    records_in,
    search,
)

BATCH = 170
"""Bytes of a batch that `fill` appends."""

SEGMENTS_OF_5 = LogConfig(segment_bytes=1000, index_interval_bytes=200)


def read(
    log: PartitionLog,
    offset: int,
    max_bytes: int,
    *,
    upper_bound: int | None = None,
    min_one_batch: bool = True,
) -> tuple[list[int], int] | None:
    """The offsets of one read, and where it says to continue."""
    found = log.read(
        offset,
        max_bytes,
        upper_bound=log.high_watermark if upper_bound is None else upper_bound,
        min_one_batch=min_one_batch,
    )
    if found is None:
        return None
    data = found.slice.read()
    found.slice.release()
    return [record.offset for record in records_in(data)], found.end_offset


def test_a_read_ends_with_a_whole_batch_within_max_bytes(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    fill(log, 5)
    assert read(log, 0, 3 * BATCH) == ([0, 1, 2], 3)
    assert read(log, 0, 3 * BATCH + BATCH - 1) == ([0, 1, 2], 3)
    assert read(log, 3, 10 * BATCH) == ([3, 4], 5)


def test_the_first_batch_is_returned_though_it_is_larger_than_max_bytes(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    fill(log, 3)
    assert read(log, 1, 1) == ([1], 2)
    assert read(log, 1, 1, min_one_batch=False) is None
    assert read(log, 1, BATCH, min_one_batch=False) == ([1], 2)


def test_a_read_in_the_middle_of_a_batch_returns_the_whole_batch(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    append(log, batch(b"a", b"b", b"c"))
    append(log, batch(b"d"))
    assert read(log, 1, 1 << 20, upper_bound=4) == ([0, 1, 2, 3], 4)


def test_nothing_at_or_above_the_upper_bound_is_returned(tmp_path: Path) -> None:
    log = Logs(tmp_path, config=SEGMENTS_OF_5).log
    fill(log, 12)
    for bound in range(1, 13):
        for offset in range(bound):
            found = read(log, offset, 1 << 20, upper_bound=bound)
            assert found is not None
            assert found[0][0] == offset
            assert found[0][-1] < bound
        assert read(log, bound, 1 << 20, upper_bound=bound) is None


def test_a_batch_that_reaches_over_the_upper_bound_is_left_out(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    append(log, batch(b"a"))
    append(log, batch(b"b", b"c", b"d"))
    assert read(log, 0, 1 << 20, upper_bound=2) == ([0], 2)
    assert read(log, 1, 1 << 20, upper_bound=2) is None


def test_a_read_stays_within_one_segment(tmp_path: Path) -> None:
    log = Logs(tmp_path, config=SEGMENTS_OF_5).log
    fill(log, 12)
    assert read(log, 3, 1 << 20) == ([3, 4], 5)
    assert read(log, 5, 1 << 20) == ([5, 6, 7, 8, 9], 10)


@pytest.mark.parametrize("offset", [-1, 13])
def test_an_offset_outside_the_log_is_out_of_range(tmp_path: Path, offset: int) -> None:
    log = Logs(tmp_path).log
    fill(log, 12)
    with pytest.raises(KafkaError) as refused:
        read(log, offset, 100)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert read(log, 12, 100) is None


def test_a_consumer_sees_every_record_once_whatever_its_fetch_size(tmp_path: Path) -> None:
    log = Logs(tmp_path, config=LogConfig(segment_bytes=30_000, index_interval_bytes=1000)).log
    chance = random.Random(5)
    for _ in range(400):
        append(log, batch(*[b"v" * chance.randrange(300)] * chance.randrange(1, 5)))
    for max_bytes in (1, 700, 5000, 100_000):
        assert offsets_with(log, max_bytes) == list(range(log.log_end_offset))


def offsets_with(log: PartitionLog, max_bytes: int) -> list[int]:
    return [record.offset for record in records_in(read_bytes(log, max_bytes=max_bytes))]


def test_a_slice_can_be_read_after_its_segment_is_gone(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=LogConfig(segment_bytes=1000, retention_bytes=0, file_delete_delay_ms=0))
    log = logs.log
    fill(log, 12)
    found = log.read(0, 1 << 20, upper_bound=12)
    assert found is not None
    assert log.delete_old_segments(logs.clock.now_ms()) > 0
    logs.manager.delete_expired_files(logs.clock.now_ms())
    assert [record.offset for record in records_in(found.slice.read())] == [0, 1, 2, 3, 4]
    fd = found.slice.fileno
    found.slice.release()
    found.slice.release()
    with pytest.raises(OSError, match="Bad file descriptor"):
        FileSlice.read(found.slice)
    assert fd >= 0


def test_gaps_between_offsets_are_skipped(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    for base_offset in (0, 10, 20):
        data = batch(b"x", b"y")
        data[:8] = base_offset.to_bytes(8, "big")
        log.append_as_follower(memoryview(data), now_ms=START_MS)
    log.advance_high_watermark(22)
    for offset, seen in ((0, 0), (2, 10), (9, 10), (11, 10), (12, 20), (21, 20)):
        found = read(log, offset, 1)
        assert found is not None
        assert found[0][0] == seen


def test_a_damaged_batch_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 5)
    with (logs.path / "00000000000000000000.log").open("r+b") as file:
        file.seek(2 * BATCH + 8)
        file.write(b"\xff\xff\xff\xff")
    with pytest.raises(KafkaError) as refused:
        read(logs.log, 3, 100)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
    assert read(logs.log, 0, BATCH) == ([0], 1)


# --- by timestamp ------------------------------------------------------------------------------------------


def test_a_timestamp_finds_the_first_record_that_is_not_older(tmp_path: Path) -> None:
    log = Logs(tmp_path, config=SEGMENTS_OF_5).log
    fill(log, 12, step=10)
    for timestamp, offset in (
        (0, 0),
        (START_MS, 0),
        (START_MS + 1, 1),
        (START_MS + 70, 7),
        (START_MS + 110, 11),
    ):
        found = search(log, timestamp)
        assert found is not None
        assert (found.offset, found.timestamp, found.leader_epoch) == (offset, START_MS + 10 * offset, 0)
    assert search(log, START_MS + 111) is None


@pytest.mark.parametrize("compression", list(Compression))
def test_a_timestamp_finds_a_record_inside_a_batch(tmp_path: Path, compression: Compression) -> None:
    log = Logs(tmp_path).log
    append(log, batch(b"a"))
    append(log, batch(b"b", b"c", b"d", timestamp=START_MS + 10, compression=compression))
    found = search(log, START_MS + 11)
    assert found is not None
    assert (found.offset, found.timestamp) == (2, START_MS + 11)


def test_timestamps_out_of_order_find_the_first_offset_not_the_nearest_time(tmp_path: Path) -> None:
    log = Logs(tmp_path, config=SEGMENTS_OF_5).log
    times = [START_MS + t for t in (5, 1, 9, 2, 7, 30, 3, 4, 12, 8, 6, 11)]
    for timestamp in times:
        append(log, batch(b"x" * 100, timestamp=timestamp))
    for timestamp in range(START_MS, START_MS + 32):
        expected = next((i for i, t in enumerate(times) if t >= timestamp), None)
        found = search(log, timestamp)
        assert (None if found is None else found.offset) == expected


def test_an_answer_stays_right_while_the_log_grows_and_when_its_start_moves(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    fill(log, 5, step=10)
    assert search(log, START_MS + 100) is None
    fill(log, 1, timestamp=START_MS + 100)
    found = search(log, START_MS + 20)
    assert found is not None
    assert found.offset == 2
    log.advance_log_start_offset(4)
    found = search(log, START_MS + 20)
    assert found is not None
    assert found.offset == 4
    found = search(log, START_MS + 100)
    assert found is not None
    assert found.offset == 5


def test_the_max_timestamp_is_that_of_the_first_record_that_has_it(tmp_path: Path) -> None:
    log = Logs(tmp_path, config=SEGMENTS_OF_5).log
    assert search(log, None) is None
    for timestamp in (5, 9, 2, 9, 1, 3, 9):
        append(log, batch(b"x" * 100, b"y" * 50, timestamp=START_MS + timestamp))
    found = search(log, None)
    assert found is not None
    assert (found.offset, found.timestamp) == (3, START_MS + 10)


def test_records_without_time_have_no_max_timestamp(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    append(log, batch(b"x", timestamp=-1))
    assert search(log, None) is None
    assert search(log, 0) is None


def test_timestamps_are_found_after_a_restart(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=SEGMENTS_OF_5)
    fill(logs.log, 12, step=10)
    for clean in (True, False):
        log = logs.restart(clean=clean)
        log.check()
        for index in range(12):
            found = search(log, START_MS + 10 * index)
            assert found is not None
            assert found.offset == index


def test_leader_epochs_say_where_an_epoch_ended(tmp_path: Path) -> None:
    log = Logs(tmp_path).log
    append(log, batch(b"a", b"b"), leader_epoch=2)
    append(log, batch(b"c"), leader_epoch=5)
    assert log.end_offset_for_epoch(2) == (2, 2)
    assert log.end_offset_for_epoch(3) == (2, 2)
    assert log.end_offset_for_epoch(5) == (5, 3)
    assert log.end_offset_for_epoch(6) == (-1, -1)
    assert [header.partition_leader_epoch for header in headers_in(read_bytes(log))] == [2, 5]
    assert offsets(log) == [0, 1, 2]
