"""Room on the disk: the free-space limit for clients and the reserve of the broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.storage.disk.disk_space import RESERVE_FILE, DiskSpace
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import IO_ERROR, NO_SPACE, Fault, FaultyFiles


class SmallDisk(FaultyFiles):
    """A disk of 1 GB."""

    def total_bytes(self, path: str) -> int:
        return 1 << 30


def space(tmp_path: Path, *, free: int, keep_reserve: bool = False) -> tuple[DiskSpace, SmallDisk]:
    files = SmallDisk()
    files.free = free
    return DiskSpace(files, str(tmp_path), keep_reserve=keep_reserve), files


def test_the_limit_is_a_fiftieth_of_the_disk(tmp_path: Path) -> None:
    disk, _ = space(tmp_path, free=1 << 29)
    assert disk.limit == (1 << 30) // 50


def test_clients_may_write_while_more_than_the_limit_is_free(tmp_path: Path) -> None:
    disk, files = space(tmp_path, free=0)
    assert not disk.admit(1, START_MS)
    files.free = disk.limit
    assert disk.admit(1, START_MS)


def test_appends_that_may_have_used_up_the_free_space_are_looked_at_again(tmp_path: Path) -> None:
    disk, files = space(tmp_path, free=100 << 20)
    assert disk.admit(1000, START_MS)
    files.free = 0
    assert disk.admit(1000, START_MS + 1)
    assert not disk.admit(60 << 20, START_MS + 2)


def test_space_that_others_use_up_is_noticed_within_a_second(tmp_path: Path) -> None:
    disk, files = space(tmp_path, free=1 << 29)
    assert disk.admit(1, START_MS)
    files.free = 0
    assert disk.admit(1, START_MS + 999)
    assert not disk.admit(1, START_MS + 1000)


def test_writing_resumes_at_once_when_space_returns(tmp_path: Path) -> None:
    disk, files = space(tmp_path, free=0)
    assert not disk.admit(1, START_MS)
    files.free = 1 << 29
    assert disk.admit(1, START_MS)


def test_the_reserve_is_made_of_blocks_and_given_back_once(tmp_path: Path) -> None:
    disk, _ = space(tmp_path, free=1 << 29, keep_reserve=True)
    disk.look(START_MS)
    reserve = tmp_path / RESERVE_FILE
    assert reserve.stat().st_blocks * 512 >= disk.reserve_bytes == 16 << 20
    assert disk.release_reserve()
    assert 0 < reserve.stat().st_size <= reserve.stat().st_blocks * 512 <= 9 << 20
    assert disk.release_reserve()
    assert reserve.stat().st_blocks == 0
    assert not disk.release_reserve()
    disk.look(START_MS)
    assert disk.reserved


def test_coordinators_get_one_half_of_the_reserve_and_leave_the_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk, files = space(tmp_path, free=1 << 29, keep_reserve=True)
    disk.look(START_MS)
    files.free = 0
    assert disk.admit_coordinator(START_MS)
    assert disk.release_coordinators_half()
    assert disk.reserved == (tmp_path / RESERVE_FILE).stat().st_size == 8 << 20
    assert not any(disk.release_coordinators_half() for _ in range(3))
    assert caplog.text.count("offset commits, new members and transactions are refused") == 1
    assert disk.release_reserve()
    assert not disk.admit_coordinator(START_MS)
    files.free = disk.coordinators_limit
    assert disk.admit_coordinator(START_MS + 1000)


def test_coordinators_are_refused_before_metadata_while_the_reserve_is_in_use(tmp_path: Path) -> None:
    space(tmp_path, free=1 << 29, keep_reserve=True)[0].look(START_MS)
    started, files = space(tmp_path, free=0, keep_reserve=True)
    assert started.release_reserve()
    assert started.admit_coordinator(START_MS)
    assert started.release_reserve()
    files.free = 16 << 10
    assert not started.admit_coordinator(START_MS)
    files.free = 1 << 29
    assert started.admit_coordinator(START_MS + 1000)
    assert started.reserved == 16 << 20


def test_without_a_reserve_coordinators_leave_space_for_metadata(tmp_path: Path) -> None:
    disk, files = space(tmp_path, free=1 << 29)
    assert disk.admit_coordinator(START_MS)
    files.free = disk.coordinators_limit - 1
    assert not disk.admit_coordinator(START_MS + 1000)


def test_the_reserve_of_the_run_before_is_still_there(tmp_path: Path) -> None:
    space(tmp_path, free=1 << 29, keep_reserve=True)[0].look(START_MS)
    for _ in range(2):
        assert space(tmp_path, free=0, keep_reserve=True)[0].release_reserve()
    assert not space(tmp_path, free=0, keep_reserve=True)[0].release_reserve()


def test_a_reserve_that_finds_no_space_is_not_half_made(tmp_path: Path) -> None:
    disk, files = space(tmp_path, free=1 << 29, keep_reserve=True)
    files.faults = [Fault("allocate", NO_SPACE, times=1)]
    disk.look(START_MS)
    assert not disk.reserved
    assert (tmp_path / RESERVE_FILE).stat().st_size == 0


def test_without_a_reserve_appends_go_on(tmp_path: Path) -> None:
    disk, files = space(tmp_path, free=1 << 29, keep_reserve=True)
    files.faults = [Fault("open", IO_ERROR)]
    assert disk.admit(1, START_MS)


def test_nothing_is_reserved_on_a_disk_that_is_nearly_full(tmp_path: Path) -> None:
    disk, _ = space(tmp_path, free=(1 << 30) // 50 + 1, keep_reserve=True)
    assert disk.admit(1, START_MS)
    assert not (tmp_path / RESERVE_FILE).exists()
