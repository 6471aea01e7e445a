"""Damaged indexes are rebuilt in a thread, whatever happens to the log meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from kafkapy.storage.disk.errors import DiskFullError, StorageError
from kafkapy.storage.disk.file_names import INDEX_SUFFIX, LOG_SUFFIX, TEMPORARY_SUFFIX, TIME_INDEX_SUFFIX
from kafkapy.storage.log.batches import BatchPlace
from kafkapy.storage.log.index_repair import IndexRepair, repair_of
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.log.segment import IndexesNotReadyError, Segment
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import (
    IO_ERROR,
    NO_SPACE,
    TP,
    Fault,
    Logs,
    fill,
    headers_in,
    names,
    offsets,
    read_bytes,
    search,
)

CONFIG = LogConfig(index_interval_bytes=500)
FIRST = "00000000000000000000"
RECORDS = 100
ENTRY_SIZES = {INDEX_SUFFIX: 8, TIME_INDEX_SUFFIX: 12}
REBUILDING = "Rebuilding the indexes"


def of_two_segments(tmp_path: Path, records: int = RECORDS, config: LogConfig = CONFIG) -> Logs:
    """A log of two segments, whose process has stopped."""
    logs = Logs(tmp_path, config=config)
    fill(logs.log, records)
    logs.log.roll()
    fill(logs.log, 10, timestamp=START_MS + records)
    logs.stop()
    return logs


def entries_of(path: Path) -> list[bytes]:
    data, size = path.read_bytes(), ENTRY_SIZES[path.suffix]
    return [data[at : at + size] for at in range(0, len(data), size)]


def reverse(path: Path) -> None:
    path.write_bytes(b"".join(reversed(entries_of(path))))


def swap_two(path: Path) -> None:
    entries = entries_of(path)
    entries[8], entries[9] = entries[9], entries[8]
    path.write_bytes(b"".join(entries))


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def started(logs: Logs) -> PartitionLog:
    logs.manager = logs.new_manager()
    return logs.log


def rebuilds(caplog: pytest.LogCaptureFixture) -> int:
    return sum(REBUILDING in record.message for record in caplog.records)


def read(log: PartitionLog, offset: int) -> int:
    """The offset of the first batch of a read on the event loop."""
    with log.log_directory.files.cached_only(or_wait=True):
        found = log.read(offset, 1, upper_bound=log.log_end_offset)
    assert found is not None
    with_header = found.slice.read()
    found.slice.release()
    return headers_in(with_header)[0].base_offset


def begun(log: PartitionLog, offset: int = RECORDS // 2) -> IndexRepair:
    """The repair that a read waits for."""
    with pytest.raises(IndexesNotReadyError) as missing:
        read(log, offset)
    repair = repair_of(missing.value)
    assert repair is not None
    return repair


@pytest.fixture
def damaged(tmp_path: Path) -> Logs:
    """A log whose first offset index is in reverse order."""
    logs = of_two_segments(tmp_path)
    reverse(logs.path / (FIRST + INDEX_SUFFIX))
    started(logs)
    return logs


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
@pytest.mark.parametrize("disorder", [reverse, swap_two])
def test_an_index_whose_entries_do_not_rise_is_rebuilt_when_it_is_opened(
    tmp_path: Path, suffix: str, disorder: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    logs = of_two_segments(tmp_path)
    path = logs.path / (FIRST + suffix)
    right = path.read_bytes()
    disorder(path)
    log = started(logs)
    assert offsets(log, 50)[0] == 50
    assert rebuilds(caplog) == 1
    assert path.read_bytes() == right
    log.check()


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
@pytest.mark.parametrize("disorder", [reverse, swap_two])
def test_a_search_by_time_does_not_use_an_index_whose_entries_do_not_rise(
    tmp_path: Path, suffix: str, disorder: Callable[[Path], None]
) -> None:
    logs = of_two_segments(tmp_path)
    disorder(logs.path / (FIRST + suffix))
    log = started(logs)
    for number in range(0, RECORDS, 7):
        found = search(log, START_MS + number)
        assert found is not None
        assert found.offset == number


def test_a_read_of_the_event_loop_leaves_the_rebuild_to_a_thread(
    damaged: Logs, caplog: pytest.LogCaptureFixture
) -> None:
    log, path = damaged.log, damaged.path / (FIRST + INDEX_SUFFIX)
    before = path.read_bytes()
    repair = begun(log)
    assert (path.read_bytes(), rebuilds(caplog)) == (before, 0)
    repair.run()
    repair.settle()
    assert read(log, 50) == 50
    assert entries_of(path) == list(reversed([before[at : at + 8] for at in range(0, len(before), 8)]))
    assert rebuilds(caplog) == 1
    assert names(damaged.path, TEMPORARY_SUFFIX) == []
    log.check()


def test_all_readers_of_a_segment_wait_for_one_repair(damaged: Logs) -> None:
    repair = begun(damaged.log, 20)
    assert begun(damaged.log, 70) is repair
    repair.run()
    assert begun(damaged.log, 70) is repair
    repair.settle()
    assert [read(damaged.log, offset) for offset in (20, 70)] == [20, 70]


def with_large_indexes(tmp_path: Path) -> Logs:
    """A log whose first segment has a time index of more than 64 KiB."""
    logs = of_two_segments(tmp_path, 6_000, LogConfig(index_interval_bytes=0))
    assert (logs.path / (FIRST + TIME_INDEX_SUFFIX)).stat().st_size > 64 << 10
    return logs


def test_the_order_of_a_large_index_is_checked_once_and_by_a_thread(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs = with_large_indexes(tmp_path)
    inode = (logs.path / (FIRST + INDEX_SUFFIX)).stat().st_ino
    log = started(logs)
    repair = begun(log)
    repair.run()
    repair.settle()
    assert [read(log, offset) for offset in (20, 70)] == [20, 70]
    assert (rebuilds(caplog), (logs.path / (FIRST + INDEX_SUFFIX)).stat().st_ino) == (0, inode)


def test_a_search_by_time_checks_the_order_for_later_reads(tmp_path: Path) -> None:
    logs = with_large_indexes(tmp_path)
    log = started(logs)
    assert search(log, START_MS + 9) is not None
    assert read(log, 20) == 20


def truncate(logs: Logs) -> None:
    logs.log.truncate_to(60)


def truncate_all(logs: Logs) -> None:
    logs.log.truncate_fully_and_start_at(500)


def truncate_the_end(logs: Logs) -> None:
    logs.log.truncate_to(RECORDS + 5)


def expire(logs: Logs) -> None:
    logs.log.advance_log_start_offset(RECORDS)
    assert logs.log.delete_old_segments(START_MS) == 1


def restart(logs: Logs) -> None:
    logs.restart()


def crash(logs: Logs) -> None:
    logs.restart(clean=False)


def delete(logs: Logs) -> None:
    logs.manager.delete(TP)


CHANGES = [truncate, truncate_all, truncate_the_end, expire, restart, crash, delete]


def amid_the_walk(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Make a change after the thread has read some batches."""
    places, changes = Segment.places, [change]

    def watched(self: Segment, start: int = 0, end: int | None = None) -> Iterator[BatchPlace]:
        found = places(self, start, end)
        if changes:
            yield from chain(next(found) for _ in range(10))
            changes.pop()()
        yield from found

    monkeypatch.setattr(Segment, "places", watched)


@pytest.mark.parametrize("when", ["before", "amid", "after"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_log_ends_a_repair_without_effect(
    damaged: Logs, change: Callable[[Logs], None], when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repair = begun(damaged.log)
    if when == "before":
        change(damaged)
    elif when == "amid":
        amid_the_walk(monkeypatch, lambda: change(damaged))
    repair.run()
    if when == "after":
        change(damaged)
    repair.settle()
    left = list(damaged.root.glob(f"**/*{TEMPORARY_SUFFIX}"))
    assert left == [], "the files of the repair are gone"
    log = damaged.log
    log.check()
    for offset in range(log.log_start_offset, log.log_end_offset):
        found = headers_in(read_bytes(log, offset))
        assert found[0].base_offset == offset


def test_a_repair_that_was_not_begun_when_the_segment_changed_is_not_begun(damaged: Logs) -> None:
    with pytest.raises(IndexesNotReadyError) as missing:
        read(damaged.log, 50)
    damaged.log.truncate_to(60)
    assert repair_of(missing.value) is None


@pytest.mark.parametrize("rolls", [False, True])
@pytest.mark.parametrize("when", ["amid", "after"])
def test_batches_that_are_appended_during_a_repair_are_indexed(
    tmp_path: Path, when: str, rolls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = Logs(tmp_path, config=CONFIG)
    fill(logs.log, RECORDS)
    log = logs.restart()
    path = logs.path / (FIRST + INDEX_SUFFIX)
    data = bytearray(path.read_bytes())
    data[5 * 8 + 7] ^= 1  # the position of an entry in the active segment
    path.write_bytes(data)
    wrong = int.from_bytes(data[5 * 8 : 5 * 8 + 4], "big")
    repair = begun(log, wrong)

    def go_on() -> None:
        fill(log, RECORDS, timestamp=START_MS + RECORDS)
        if rolls:
            log.roll()
            fill(log, 10, timestamp=START_MS + 2 * RECORDS)

    if when == "amid":
        amid_the_walk(monkeypatch, go_on)
    repair.run()
    if when == "after":
        go_on()
    repair.settle()
    log.check()
    entries = log.segments.first.indexes.offset_index.entries
    assert read(log, wrong) == wrong
    log = logs.restart()
    log.check()
    segment = log.segments.first
    segment.rebuild_indexes()
    assert segment.indexes.offset_index.entries == entries, "an entry for every interval"


@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_read_that_finds_damage_waits_for_indexes_that_leave_it_out(
    tmp_path: Path, is_reversed: bool
) -> None:
    logs = of_two_segments(tmp_path)
    if is_reversed:
        reverse(logs.path / (FIRST + INDEX_SUFFIX))
    log_file = logs.path / (FIRST + LOG_SUFFIX)
    data = bytearray(log_file.read_bytes())
    size = headers_in(bytes(data))[0].size
    data[size * 60 + 70] ^= 1
    log_file.write_bytes(data)
    log = started(logs)
    for _ in range(1 + is_reversed):
        repair = begun(log)
        repair.run()
        repair.settle()
    assert read(log, 50) == 50
    segment = log.segments.first
    (damage,) = segment.damage
    index = segment.indexes.offset_index
    positions = [index.entry(slot)[1] for slot in range(index.entries)]
    assert not [at for at in positions if damage.position <= at < damage.end_position]
    assert [read(log, offset) for offset in (59, 61, 99)] == [59, 61, 99]


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
def test_a_reader_gets_the_error_of_a_repair_and_the_next_one_tries_again(damaged: Logs, suffix: str) -> None:
    log = damaged.log
    damaged.files.faults = [Fault("write", NO_SPACE, suffix + TEMPORARY_SUFFIX, times=1)]
    repair = begun(log)
    repair.run()
    repair.settle()
    with pytest.raises(DiskFullError):
        read(log, 50)
    assert names(damaged.path, TEMPORARY_SUFFIX) == []
    again = begun(log)
    again.run()
    again.settle()
    assert read(log, 50) == 50


def test_new_indexes_are_on_disk_before_they_replace_others(damaged: Logs) -> None:
    repair = begun(damaged.log)
    damaged.files.synced.clear()
    repair.run()
    synced = {Path(path).name for path in damaged.files.synced}
    assert synced == {FIRST + suffix + TEMPORARY_SUFFIX for suffix in ENTRY_SIZES}
    repair.settle()


def test_a_repair_whose_files_cannot_be_renamed_fails_the_disk(damaged: Logs) -> None:
    repair = begun(damaged.log)
    repair.run()
    damaged.files.faults = [Fault("rename", IO_ERROR, TIME_INDEX_SUFFIX)]
    repair.settle()
    with pytest.raises(StorageError, match="Input/output"):
        read(damaged.log, 50)
    assert damaged.manager.offline_dirs


def test_a_start_removes_what_an_interrupted_repair_left(damaged: Logs) -> None:
    begun(damaged.log).run()
    left = {path: path.read_bytes() for path in damaged.path.glob(f"*{TEMPORARY_SUFFIX}")}
    assert len(left) == 2
    damaged.crash()
    for path, data in left.items():
        path.write_bytes(data)  # as they are when the process was killed
    damaged.manager = damaged.new_manager()
    assert names(damaged.path, TEMPORARY_SUFFIX) == []
    damaged.log.check()
