"""Batches and segments from which compaction took every record.

Tested is what readers and searches make of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kafkapy.protocol.records import HEADER_SIZE, iter_headers
from kafkapy.storage.damage.damage import DamagedOffsetsError
from kafkapy.storage.log.partition_log import LogRead, PartitionLog
from tests.loop.turned_clock import START_MS
from tests.storage.cleaning.harness import COMPACT, compact_fully, compacted, fill, put
from tests.storage.log_harness import Logs, records_in, search


def superseded(tmp_path: Path, segments: int = 15) -> Logs:
    """A log whose first segments hold an empty batch each, and no record.

    The last records are those of 3 keys.
    """
    logs = compacted(tmp_path)
    fill(logs.log, 6 * segments + 6)
    compact_fully(logs.manager, logs.log)
    sizes = [segment.size for segment in logs.log.segments]
    assert sizes[: segments - 1] == [HEADER_SIZE] * (segments - 1)
    return logs


def read(log: PartitionLog, offset: int, max_bytes: int = 1 << 20, upper_bound: int = -1) -> LogRead | None:
    """One read of a consumer."""
    end = log.log_end_offset if upper_bound < 0 else upper_bound
    return log.read(offset, max_bytes, upper_bound=end, pass_empty=True)


def offsets_in(found: LogRead | None) -> tuple[list[int], int]:
    """The records of a read, and where it says to continue."""
    assert found is not None
    data = found.slice.read()
    found.slice.release()
    return [record.offset for record in records_in(data)], found.end_offset


@pytest.mark.parametrize("clean", [True, False, None])
def test_a_consumer_is_never_answered_with_empty_batches_alone_while_records_follow(
    tmp_path: Path, clean: bool | None
) -> None:
    logs = superseded(tmp_path)
    log = logs.log if clean is None else logs.restart(clean=clean)
    end = log.log_end_offset
    for start in range(0, end - 3, 7):
        offset, seen = start, []
        while offset < end:
            found, offset = offsets_in(read(log, offset))
            assert found
            seen += found
        assert seen[-3:] == [end - 3, end - 2, end - 1]


def test_a_copy_of_the_log_gets_empty_batches_too(tmp_path: Path) -> None:
    log = superseded(tmp_path).log
    found = log.read(0, 1 << 20, upper_bound=log.log_end_offset)
    assert found is not None
    assert found.slice.nbytes == HEADER_SIZE
    found.slice.release()


def test_an_empty_batch_is_the_answer_where_nothing_that_may_be_read_follows(tmp_path: Path) -> None:
    log = superseded(tmp_path).log
    bound = list(log.segments)[3].base_offset
    assert offsets_in(read(log, 0, upper_bound=bound)) == ([], bound)


def test_the_batch_behind_empty_ones_is_read_though_it_is_larger_than_max_bytes(tmp_path: Path) -> None:
    log = superseded(tmp_path).log
    found, _ = offsets_in(read(log, 0, max_bytes=70))
    assert len(found) == 1
    assert log.read(0, 70, upper_bound=log.log_end_offset, min_one_batch=False, pass_empty=True) is None


def test_empty_batches_that_hold_sequence_numbers_are_passed_by_as_well(tmp_path: Path) -> None:
    logs = compacted(tmp_path)
    for producer_id in range(20):
        put(logs.log, b"k", b"v".ljust(100, b"."), producer_id=producer_id)
    put(logs.log, b"k", b"newest")
    compact_fully(logs.manager, logs.log)
    assert logs.log.segments.first.size == HEADER_SIZE * 5
    found, end = offsets_in(read(logs.log, 0))
    assert (found, end) == ([20], 21)


def test_rot_behind_empty_batches_is_an_error_for_who_reads_on_from_there(tmp_path: Path) -> None:
    logs = superseded(tmp_path)
    logs.stop()
    segment = list(logs.log.segments)[3]
    data = bytearray(Path(segment.path).read_bytes())
    data[30] ^= 1
    Path(segment.path).write_bytes(data)
    logs.manager = logs.new_manager()
    base = segment.base_offset
    found = read(logs.log, 0)
    assert offsets_in(found) == ([], base)
    with pytest.raises(DamagedOffsetsError):
        read(logs.log, base)


def test_a_read_passes_by_few_enough_segments_not_to_hold_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkapy.storage.log.log_reader._MOST_EMPTY", 5)
    log = superseded(tmp_path).log
    bases = [segment.base_offset for segment in log.segments]
    assert offsets_in(read(log, 0)) == ([], bases[6])


# --- the highest timestamp ----------------------------------------------------------------------------------


def newest_of(log: PartitionLog) -> tuple[int, int] | None:
    """The highest timestamp and its first offset.

    They are found by reading every record from the start of the log.
    """
    best: tuple[int, int] | None = None
    for segment in log.segments:
        data = Path(segment.path).read_bytes()[: segment.size]
        for position, header in iter_headers(data):
            for record in records_in(data[position : position + header.size]):
                if record.offset >= log.log_start_offset and (best is None or record.timestamp > best[0]):
                    best = record.timestamp, record.offset
    return best


TIMES: dict[str, Callable[[int], int]] = {
    "equal": lambda number: START_MS,
    "falling": lambda number: START_MS - number,
    "rising": lambda number: START_MS + number,
    "up and down": lambda number: START_MS + number * 7 % 11,
}


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_the_highest_timestamp_is_that_of_a_record_which_compaction_left(
    tmp_path: Path, times: str, timestamp_type: str
) -> None:
    logs = compacted(tmp_path, replace(COMPACT, message_timestamp_type=timestamp_type))
    for number in range(60):
        put(logs.log, b"key-%d" % (number % 3), b"value".ljust(100, b"."), TIMES[times](number))
    for log in (logs.log, None):
        if log is None:
            log = logs.restart()
        else:
            compact_fully(logs.manager, log)
        found = search(log, None)
        assert found is not None
        assert (found.timestamp, found.offset) == newest_of(log)


@pytest.mark.parametrize("times", TIMES)
def test_the_highest_timestamp_is_not_that_of_a_record_below_the_log_start(
    tmp_path: Path, times: str
) -> None:
    log = compacted(tmp_path).log
    for number in range(23):
        put(log, b"key-%d" % number, b"value".ljust(100, b"."), TIMES[times](number))
    for start in range(23):
        log.advance_log_start_offset(start)
        found = search(log, None)
        assert found is not None
        assert (found.timestamp, found.offset) == newest_of(log)
    log.advance_log_start_offset(23)
    assert search(log, None) is None
