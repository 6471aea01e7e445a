"""A directory that many flushes sync at once."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from kafkapy.storage.disk.shared_sync import SharedSync
from tests.storage.log_harness import Fault, FaultyFiles

DEADLINE = 60.0


class CountingFiles(FaultyFiles):
    """Counts the syncs of directories, and lets each wait for the test."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)

    def sync_directory(self, path: str) -> None:
        self.begun.release()
        assert self.go_on.acquire(timeout=DEADLINE)
        super().sync_directory(path)


def test_one_sync_serves_all_that_asked_before_it_began(tmp_path: Path) -> None:
    files = CountingFiles()
    shared = SharedSync(files, str(tmp_path))
    numbers = [shared.ask() for _ in range(20)]
    files.go_on.release()
    threads = [threading.Thread(target=shared.sync, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert files.synced == [str(tmp_path)]


def test_a_sync_that_has_begun_does_not_serve_who_asks_then(tmp_path: Path) -> None:
    files = CountingFiles()
    shared = SharedSync(files, str(tmp_path))
    first = threading.Thread(target=shared.sync, args=(shared.ask(),))
    first.start()
    assert files.begun.acquire(timeout=DEADLINE)
    number = shared.ask()
    files.go_on.release(2)
    first.join(DEADLINE)
    shared.sync(number)
    assert files.synced == [str(tmp_path)] * 2


def test_a_failed_sync_is_not_tried_again(tmp_path: Path) -> None:
    files = FaultyFiles()
    files.faults.append(Fault("sync", errno.EIO, times=1))
    shared = SharedSync(files, str(tmp_path))
    for why in ("Input/output", "failed"):
        with pytest.raises(OSError, match=why):
            shared.sync(shared.ask())
    assert files.synced == []


def test_a_sync_that_could_not_be_begun_is_tried_again(tmp_path: Path) -> None:
    files = FaultyFiles()
    files.faults.append(Fault("sync", errno.EMFILE, times=1))
    shared = SharedSync(files, str(tmp_path))
    number = shared.ask()
    with pytest.raises(OSError, match="Too many open files"):
        shared.sync(number)
    shared.sync(number)
    assert files.synced == [str(tmp_path)]
