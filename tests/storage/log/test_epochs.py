"""The leader epoch cache: what Kafka's LeaderEpochFileCache answers."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.epochs import LeaderEpochCache


def cache_of(*entries: tuple[int, int]) -> LeaderEpochCache:
    cache = LeaderEpochCache()
    for epoch, start_offset in entries:
        cache.assign(epoch, start_offset)
    return cache


def test_an_epoch_starts_with_its_first_record() -> None:
    cache = cache_of((2, 10), (2, 11), (2, 99))
    assert cache.entries == [(2, 10)]
    assert cache.latest_epoch == 2


@pytest.mark.parametrize(
    ("new", "entries"),
    [
        ((4, 20), [(2, 6), (3, 12), (4, 20)]),
        ((4, 12), [(2, 6), (4, 12)]),
        ((4, 3), [(4, 3)]),
        ((2, 20), [(2, 20)]),
        ((1, 3), [(1, 3)]),
        ((3, 11), [(2, 6), (3, 11)]),
    ],
)
def test_a_new_leader_overrules_what_contradicts_it(
    new: tuple[int, int], entries: list[tuple[int, int]]
) -> None:
    cache = cache_of((2, 6), (3, 12))
    assert cache.assign(*new)
    assert cache.entries == entries


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_an_undefined_epoch_is_not_assigned(entry: tuple[int, int]) -> None:
    cache = LeaderEpochCache()
    assert not cache.assign(*entry)
    assert cache.entries == []


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [(-1, (-1, -1)), (0, (0, 6)), (2, (2, 12)), (4, (3, 16)), (5, (5, 17)), (6, (-1, -1))],
)
def test_an_epoch_ends_where_the_next_one_starts(epoch: int, answer: tuple[int, int]) -> None:
    assert cache_of((2, 6), (3, 12), (5, 16)).end_offset_for(epoch, 17) == answer


def test_an_empty_cache_knows_no_epoch() -> None:
    cache = LeaderEpochCache()
    assert cache.end_offset_for(0, 5) == (-1, -1)
    assert cache.latest_epoch == -1
    assert cache.earliest_epoch(0) == -1
    assert cache.epoch_for_offset(3) == -1


def test_truncating_the_end_forgets_epochs_that_start_there_or_later() -> None:
    cache = cache_of((2, 6), (3, 8), (4, 11))
    cache.truncate_from_end(8)
    assert cache.entries == [(2, 6)]
    assert cache.latest_epoch == 2


@pytest.mark.parametrize(
    ("start", "entries"),
    [
        (5, [(2, 6), (3, 8), (4, 11)]),
        (6, [(2, 6), (3, 8), (4, 11)]),
        (7, [(2, 7), (3, 8), (4, 11)]),
        (8, [(3, 8), (4, 11)]),
        (9, [(3, 9), (4, 11)]),
        (99, [(4, 99)]),
    ],
)
def test_truncating_the_start_keeps_the_epoch_of_the_new_start(
    start: int, entries: list[tuple[int, int]]
) -> None:
    cache = cache_of((2, 6), (3, 8), (4, 11))
    cache.truncate_from_start(start)
    assert cache.entries == entries


def test_the_epoch_of_an_offset_and_of_the_log_start_are_known() -> None:
    cache = cache_of((2, 6), (3, 8))
    assert [cache.epoch_for_offset(offset) for offset in (5, 6, 7, 8, 100)] == [-1, 2, 2, 3, 3]
    assert cache.earliest_epoch(6) == 2
    assert cache.earliest_epoch(5) == -1


def test_the_checkpoint_brings_the_cache_back(tmp_path: Path) -> None:
    files, path = FileSystem(), str(tmp_path / "leader-epoch-checkpoint")
    cache = cache_of((0, 0), (7, 30))
    assert cache.unsaved
    cache.save(files, path)
    assert not cache.unsaved
    loaded = LeaderEpochCache.load(files, path)
    assert loaded.entries == [(0, 0), (7, 30)]
    assert not loaded.unsaved
    assert Path(path).read_bytes() == b"0\n2\n0 0\n7 30\n"


@given(
    st.lists(st.tuples(st.sampled_from(["assign", "end", "start"]), st.integers(0, 8), st.integers(0, 20)))
)
def test_epochs_and_offsets_always_rise(steps: list[tuple[str, int, int]]) -> None:
    cache = LeaderEpochCache()
    for step, epoch, offset in steps:
        if step == "assign":
            cache.assign(epoch, offset)
            assert cache.entries[-1][0] == epoch
        elif step == "end":
            cache.truncate_from_end(offset)
            assert all(start < offset for _, start in cache.entries)
        else:
            cache.truncate_from_start(offset)
        entries = cache.entries
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(entries))
        assert cache.latest_epoch == (entries[-1][0] if entries else -1)
