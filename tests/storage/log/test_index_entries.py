"""Which entries the indexes of a segment get.

They are those of its batches, however the batches came.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from kafkapy.storage.directories.future_log import FutureLog
from kafkapy.storage.disk.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from kafkapy.storage.disk.files import Buffer, File
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import (
    IO_ERROR,
    NO_SPACE,
    TP,
    Fault,
    FaultyFiles,
    Logs,
    append,
    batch,
    fill,
    headers_in,
    read_bytes,
)

INTERVAL = 500
CONFIG = LogConfig(index_interval_bytes=INTERVAL)
FIRST = "00000000000000000000"


def some_batches(count: int, seed: int = 1) -> list[bytes]:
    """Batches of several sizes with offsets and epochs, as a leader's log has them.

    Time advances, with setbacks.
    """
    chance, offset = random.Random(seed), 0
    made: list[bytes] = []
    for _ in range(count):
        records = chance.randrange(1, 4)
        data = batch(
            *(b"x" * chance.randrange(300) for _ in range(records)),
            timestamp=START_MS + 100 * len(made) + chance.randrange(2000),
        )
        data[:8] = offset.to_bytes(8, "big")
        data[12:16] = bytes(4)
        offset += records
        made.append(bytes(data))
    return made


def replicate(log: PartitionLog, batches: list[bytes], at_once: int) -> None:
    """Append as a follower does, so many batches a time."""
    for first in range(0, len(batches), at_once):
        data = bytearray(b"".join(batches[first : first + at_once]))
        log.append_as_follower(memoryview(data), now_ms=START_MS)
    log.advance_high_watermark(log.log_end_offset)


def index_files(logs: Logs) -> tuple[bytes, bytes]:
    """Both indexes of the first segment, after a clean stop."""
    logs.stop()
    return (
        (logs.path / (FIRST + INDEX_SUFFIX)).read_bytes(),
        (logs.path / (FIRST + TIME_INDEX_SUFFIX)).read_bytes(),
    )


@pytest.mark.parametrize("at_once", [2, 7, 100])
def test_an_append_of_many_batches_has_the_entries_of_as_many_appends(tmp_path: Path, at_once: int) -> None:
    batches = some_batches(100)
    one_by_one, together = Logs(tmp_path / "one", config=CONFIG), Logs(tmp_path / "many", config=CONFIG)
    replicate(one_by_one.log, batches, 1)
    replicate(together.log, batches, at_once)
    together.log.check()
    assert together.log.segments.active.indexes.offset_index.entries > 40
    assert index_files(together) == index_files(one_by_one)


def test_a_moved_log_has_the_entries_of_the_original(tmp_path: Path) -> None:
    logs = Logs(tmp_path, dirs=("a", "b"), config=CONFIG)
    fill(logs.log, 200)
    directory = next(each for each in logs.manager.directories if each is not logs.log.log_directory)
    move = FutureLog(logs.log, logs.manager.moves.create_copy(TP, directory))
    while (piece := move.next_piece()) is not None:
        move.write(piece)
        piece.release()
    original, copy = (log.segments.active.indexes.offset_index for log in (logs.log, move.copy))
    assert [copy.entry(slot) for slot in range(copy.entries)] == [
        original.entry(slot) for slot in range(original.entries)
    ]


class CountingFiles(FaultyFiles):
    """Counts the bytes that are read, and the writes."""

    __slots__ = ("bytes_read", "written")

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read = 0
        self.written: list[str] = []
        """The path of each write."""

    def read_at(self, file: File, nbytes: int, position: int) -> bytes:
        data = super().read_at(file, nbytes, position)
        self.bytes_read += len(data)
        return data

    def write_at(self, file: File, buffers: Sequence[Buffer], position: int) -> int:
        self.written.append(self._path(file))
        return super().write_at(file, buffers, position)


def test_the_entries_of_an_append_are_one_write_to_each_index(tmp_path: Path) -> None:
    files = CountingFiles()
    logs = Logs(tmp_path, config=CONFIG, files=files)
    replicate(logs.log, some_batches(100), 100)
    assert logs.log.segments.active.indexes.offset_index.entries > 40
    assert [path.rpartition("/")[2] for path in files.written] == [
        FIRST + suffix for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)
    ]


def test_a_search_reads_no_more_of_a_replicated_log_than_an_interval_and_a_batch(tmp_path: Path) -> None:
    files = CountingFiles()
    logs = Logs(tmp_path, config=LogConfig(index_interval_bytes=4096), files=files)
    replicate(logs.log, some_batches(3000), 3000)
    segment = logs.log.segments.active
    assert segment.size > 500_000
    for offset in range(0, logs.log.log_end_offset, 97):
        files.bytes_read = 0
        assert segment.find(offset) is not None
        assert files.bytes_read < 20_000, f"{files.bytes_read} bytes to find offset {offset}"


def distances(log: PartitionLog) -> list[int]:
    """Bytes between the positions of neighbouring entries.

    They reach from the start of the segment to its end.
    """
    segment = log.segments.active
    index = segment.indexes.offset_index
    positions = [0, *(index.entry(slot)[1] for slot in range(index.entries)), segment.size]
    return [after - before for before, after in pairwise(positions)]


def test_entries_are_as_far_apart_after_a_restart_and_a_truncation_as_before(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=CONFIG)
    largest = 0
    for data in some_batches(300):
        log = logs.log
        append(log, bytearray(8) + data[8:])
        largest = max(largest, len(data))
        if log.log_end_offset % 5 == 0:
            log = logs.restart()
        if log.log_end_offset % 11 == 0:
            log.truncate_to(log.log_end_offset - 2)
    log.check()
    assert max(distances(log)) <= INTERVAL + largest


@pytest.mark.parametrize("seed", range(5))
def test_recovery_builds_the_offset_index_that_appends_have_written(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    logs = Logs(tmp_path, config=CONFIG)
    batches = some_batches(200, seed)
    while batches:
        count = chance.randrange(1, 20)
        replicate(logs.log, batches[:count], count)
        del batches[:count]
        if chance.random() < 0.3:
            logs.restart()
    logs.restart()  # takes the files as they are
    index = logs.log.segments.active.indexes.offset_index
    logs.log.segments.active.lookup(0)
    appended = [index.entry(slot) for slot in range(index.entries)]
    logs.restart(clean=False)  # reads the batches again
    index = logs.log.segments.active.indexes.offset_index
    assert [index.entry(slot) for slot in range(index.entries)] == appended
    logs.log.check()


def test_recovery_builds_the_time_index_that_appends_have_written(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=CONFIG)
    replicate(logs.log, some_batches(200), 50)
    index = logs.log.segments.active.indexes.time_index
    appended = [index.entry(slot) for slot in range(index.entries)]
    assert len(appended) > 2
    logs.restart(clean=False)
    index = logs.log.segments.active.indexes.time_index
    recovered = [index.entry(slot) for slot in range(index.entries)]
    assert recovered[: len(appended)] == appended
    assert len(recovered) <= len(appended) + 1  # the highest timestamp, as when a segment is closed


def test_an_index_that_becomes_full_within_an_append_takes_no_more_entries(tmp_path: Path) -> None:
    config = LogConfig(index_interval_bytes=INTERVAL, segment_index_bytes=10 * 8)
    logs = Logs(tmp_path, config=config)
    batches = some_batches(100)
    replicate(logs.log, batches, 99)
    first, last = logs.log.segments
    offset_index, time_index = first.indexes.both
    assert (offset_index.entries, time_index.entries <= time_index.max_entries) == (10, True)
    assert last.base_offset == int.from_bytes(
        batches[99][:8], "big"
    )  # which comes to a full index, and rolls
    assert (logs.path / (FIRST + INDEX_SUFFIX)).stat().st_size == 80
    logs.log.check()
    assert read_bytes(logs.restart()) == b"".join(batches)


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
def test_entries_of_an_append_that_find_no_space_are_left_out(tmp_path: Path, suffix: str) -> None:
    logs = Logs(tmp_path, config=CONFIG)
    batches = some_batches(150)
    logs.files.faults = [Fault("write", NO_SPACE, suffix, after=1, times=1)]
    replicate(logs.log, batches, 50)
    logs.log.check()
    # Without those of the second append, the first entry of the third is far from the last of the first.
    assert max(distances(logs.log)) > 10 * INTERVAL
    assert read_bytes(logs.restart()) == b"".join(batches)
    logs.log.check()


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
def test_an_append_that_fails_at_an_index_leaves_nothing_in_either(tmp_path: Path, suffix: str) -> None:
    logs = Logs(tmp_path, config=CONFIG)
    batches = some_batches(100)
    replicate(logs.log, batches[:50], 50)
    segment = logs.log.segments.active
    offset_index, time_index = segment.indexes.both
    before = (segment.size, segment.max_timestamp, offset_index.entries, time_index.entries)
    data = bytearray(b"".join(batches[50:]))
    headers = headers_in(bytes(data))
    logs.files.faults = [Fault("write", IO_ERROR, suffix, times=1)]
    with pytest.raises(OSError, match="Input/output"):
        segment.append(headers, [data], len(data))
    segment.remove_failed_append()
    assert before == (
        *(segment.size, segment.max_timestamp),
        *(offset_index.entries, time_index.entries),
    )
    segment.append(headers, [data], len(data))
    assert segment.find(headers[-1].last_offset) is not None
    assert offset_index.entries > before[2]


def test_entries_for_which_there_is_no_descriptor_are_left_out(tmp_path: Path) -> None:
    logs = Logs(tmp_path, config=CONFIG)
    batches = some_batches(150)
    replicate(logs.log, batches[:50], 50)
    logs.log.close_files()
    logs.files.faults = [Fault("open", errno.EMFILE, INDEX_SUFFIX, times=1)]
    newest = max(header.max_timestamp for header in headers_in(b"".join(batches[:100])))
    replicate(logs.log, batches[50:100], 50)
    assert logs.log.segments.active.max_timestamp == newest
    replicate(logs.log, batches[100:], 50)
    logs.log.check()
    assert max(distances(logs.log)) > 10 * INTERVAL
    assert read_bytes(logs.restart()) == b"".join(batches)


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("entry", [1, 3])
def test_an_entry_that_leads_out_of_the_segment_is_not_followed(
    tmp_path: Path, entry: int, checked: bool
) -> None:
    logs = Logs(tmp_path, config=CONFIG)
    fill(logs.log, 60)
    log = logs.restart()
    index = logs.path / (FIRST + INDEX_SUFFIX)
    data = bytearray(index.read_bytes())
    data[entry * 8 + 4] ^= 0x80  # the sign of the position
    index.write_bytes(data)
    assert log.segments.active.unchecked is not None
    if checked:
        log.segments.active.unchecked = None
    for offset in range(60):
        for max_bytes in (1, 300, 2000, 1 << 20):
            found = headers_in(read_bytes(log, offset, max_bytes=max_bytes))
            assert found[0].base_offset == offset
