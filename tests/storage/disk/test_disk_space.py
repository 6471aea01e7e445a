"""Room on the disk: the free-space limit for clients and the reserve of the broker."""

from __future__ import annotations

from pathlib import Path

from kafkapy.storage.disk.disk_space import RESERVE_FILE, DiskSpace
from tests.storage.log_harness import IO_ERROR, NO_SPACE, START_MS, Fault, FaultyFiles


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
    assert reserve.stat().st_blocks == 0
    assert not disk.release_reserve()
    disk.look(START_MS)
    assert disk.reserved


def test_the_reserve_of_the_run_before_is_still_there(tmp_path: Path) -> None:
    space(tmp_path, free=1 << 29, keep_reserve=True)[0].look(START_MS)
    disk, _ = space(tmp_path, free=0, keep_reserve=True)
    assert disk.release_reserve()
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
