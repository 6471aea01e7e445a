"""The offset index and the time index of a segment."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.protocol.records import NO_TIMESTAMP
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.index_file import CorruptIndexError, IndexFile
from kafkapy.storage.log.offset_index import OffsetIndex
from kafkapy.storage.log.time_index import TimeIndex
from tests.storage.log_harness import AT_THE_END, IO_ERROR, Fault, FaultyFiles

BASE = 1000

Index = TypeVar("Index", bound=IndexFile)


def closed_at_the_end(index: Index) -> Index:
    AT_THE_END.append(index.close_file)
    return index


def offset_index(
    path: Path, max_bytes: int = 8 * 100_000, *, new: bool = True, files: FileSystem | None = None
) -> OffsetIndex:
    return closed_at_the_end(OffsetIndex(files or FileSystem(), str(path), BASE, max_bytes, new=new))


def time_index(path: Path, max_bytes: int = 12 * 100_000, *, new: bool = True) -> TimeIndex:
    return closed_at_the_end(TimeIndex(FileSystem(), str(path), BASE, max_bytes, new=new))


def test_an_offset_index_entry_is_a_relative_offset_and_a_position_in_4_bytes_each(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "index")
    index.append(BASE + 5, 4097)
    index.trim()
    assert (tmp_path / "index").read_bytes() == struct.pack(">ii", 5, 4097)


def test_a_time_index_entry_is_a_timestamp_in_8_bytes_and_a_relative_offset_in_4(tmp_path: Path) -> None:
    index = time_index(tmp_path / "timeindex")
    index.maybe_append(1_700_000_000_000, BASE + 5)
    index.trim()
    assert (tmp_path / "timeindex").read_bytes() == struct.pack(">qi", 1_700_000_000_000, 5)


def test_an_index_in_use_is_preallocated_to_a_multiple_of_its_entry_size(tmp_path: Path) -> None:
    offsets, times = (
        offset_index(tmp_path / "index", 10_485_760),
        time_index(tmp_path / "timeindex", 10_485_760),
    )
    offsets.append(BASE + 1, 5000)
    times.maybe_append(1, BASE + 1)
    offsets.write()
    times.write()
    assert (tmp_path / "index").stat().st_size == 10_485_760
    assert (tmp_path / "timeindex").stat().st_size == 10_485_756


@given(
    gaps=st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 9000)), max_size=3000),
    wanted=st.lists(st.integers(-10, 6_000_000), min_size=1, max_size=20),
)
def test_a_lookup_finds_the_last_entry_that_is_not_above(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[tuple[int, int]], wanted: list[int]
) -> None:
    index = offset_index(tmp_path_factory.mktemp("index") / "index")
    entries = [(BASE, 0)]
    for offset_gap, position_gap in gaps:
        entries.append((entries[-1][0] + offset_gap, entries[-1][1] + position_gap))
        index.append(*entries[-1])
    for target in [*wanted, entries[-1][0], entries[len(entries) // 2][0]]:
        expected = max((entry for entry in entries if entry[0] <= BASE + target), default=(BASE, 0))
        assert index.lookup(BASE + target) == expected
        assert index.last_position_up_to(target) == max(p for _, p in entries if p <= max(target, 0))
    index.close()


def test_truncating_drops_the_entries_at_and_above_the_offset(tmp_path: Path) -> None:
    offsets, times = offset_index(tmp_path / "index"), time_index(tmp_path / "timeindex")
    for step in range(1, 11):
        offsets.append(BASE + step * 10, step * 5000)
        times.maybe_append(step, BASE + step * 10)
    offsets.truncate_to(BASE + 50)
    times.truncate_to(BASE + 50)
    assert (offsets.entries, offsets.last_offset) == (4, BASE + 40)
    assert (times.entries, times.last_timestamp, times.last_offset) == (4, 4, BASE + 40)
    offsets.truncate_to(BASE + 45)
    assert offsets.entries == 4
    offsets.truncate_to(BASE)
    times.truncate_to(BASE)
    assert (offsets.entries, offsets.last_offset) == (0, BASE)
    assert (times.entries, times.last_timestamp) == (0, NO_TIMESTAMP)


def test_a_time_index_takes_only_higher_timestamps(tmp_path: Path) -> None:
    index = time_index(tmp_path / "timeindex")
    for timestamp, offset in ((5, 1), (5, 2), (4, 3), (6, 4)):
        index.maybe_append(timestamp, BASE + offset)
    assert [index.entry(slot) for slot in range(index.entries)] == [(5, BASE + 1), (6, BASE + 4)]
    assert index.lookup(4) == (NO_TIMESTAMP, BASE)
    assert index.lookup(5) == (5, BASE + 1)
    assert index.lookup(99) == (6, BASE + 4)


def test_a_time_index_keeps_its_last_slot_for_the_entry_of_a_roll(tmp_path: Path) -> None:
    index = time_index(tmp_path / "timeindex", 24)
    assert not index.is_full
    index.maybe_append(1, BASE)
    assert index.is_full
    index.maybe_append(2, BASE)
    index.trim()
    assert (tmp_path / "timeindex").stat().st_size == 24


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (struct.pack(">ii", 5, 100) + b"\0", "no multiple"),
        (struct.pack(">iiii", 5, 100, 0, 0), "ends with"),
        (struct.pack(">ii", -1, 100), "ends with"),
    ],
)
def test_a_damaged_offset_index_is_noticed_when_it_is_loaded(
    tmp_path: Path, content: bytes, why: str
) -> None:
    (tmp_path / "index").write_bytes(content)
    with pytest.raises(CorruptIndexError, match=why):
        offset_index(tmp_path / "index", new=False).load()


def test_a_damaged_time_index_is_noticed_when_it_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "timeindex").write_bytes(struct.pack(">qiqi", 1_700_000_000_000, 1, 0, 0))
    with pytest.raises(CorruptIndexError):
        time_index(tmp_path / "timeindex", new=False).load()


def test_an_index_whose_end_cannot_be_read_is_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "index").write_bytes(struct.pack(">ii", 5, -1))
    files = FaultyFiles()
    index = offset_index(tmp_path / "index", new=False, files=files)
    files.faults = [Fault("read", IO_ERROR)]
    with pytest.raises(OSError, match="Input/output error"):
        index.load()
    assert index.entries < 0


def test_an_index_goes_on_where_it_was_after_it_was_closed(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "index")
    index.append(BASE + 1, 5000)
    index.trim()
    index.close()
    again = offset_index(tmp_path / "index", new=False)
    again.load()
    again.append(BASE + 9, 10_000)
    assert [again.entry(slot) for slot in range(again.entries)] == [(BASE + 1, 5000), (BASE + 9, 10_000)]
