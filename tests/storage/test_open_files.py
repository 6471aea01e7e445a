"""A broker with more segments than it may open files: the longest unused are closed, and nobody notices."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkapy.storage.files import StorageError
from kafkapy.storage.log import PartitionLog
from kafkapy.storage.log_config import LogConfig
from kafkapy.storage.open_files import OpenFiles, default_limit
from tests.storage.log_harness import TOPIC_ID, TP, Fault, Logs, append, batch, fill, offsets


class User:
    """Has a file."""

    def __init__(self) -> None:
        self.used = False
        self.is_open = True

    def close_file(self) -> None:
        self.is_open = False


def open_descriptors(root: Path) -> int:
    """How many files below a directory this process has open."""
    count = 0
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(f"/proc/self/fd/{fd}").startswith(str(root))
    return count


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    logs = Logs(tmp_path, config=LogConfig(index_interval_bytes=100))
    yield logs
    logs.crash()


def serve(logs: Logs, limit: int) -> None:
    """Let at most `limit` files be open from now on."""
    logs.manager.files.open_files = OpenFiles(limit)
    logs.manager.files.open_files.serve_this_thread()


def partitions(logs: Logs, count: int) -> list[PartitionLog]:
    return [
        logs.manager.create(TP._replace(partition=index), TOPIC_ID, logs.config, new=True)
        for index in range(count)
    ]


def test_the_longest_unused_file_is_closed_first() -> None:
    files = OpenFiles(3)
    files.serve_this_thread()
    users = [User() for _ in range(6)]
    for user in users[:3]:
        files.opened(user)
    files.opened(users[3])
    assert [user.is_open for user in users[:4]] == [False, True, True, True]
    users[1].used = True
    files.opened(users[4])
    assert [user.is_open for user in users[:5]] == [False, True, False, True, True]
    assert len(files) == 3


def test_a_file_that_its_user_closed_is_not_counted() -> None:
    files = OpenFiles(1)
    files.serve_this_thread()
    first, second = User(), User()
    files.opened(first)
    files.closed(first)
    files.opened(second)
    assert first.is_open
    assert second.is_open


def test_files_that_other_threads_open_are_theirs() -> None:
    files = OpenFiles(1)
    files.serve_this_thread()
    users = [User() for _ in range(3)]
    for user in users:
        thread = threading.Thread(target=files.opened, args=[user])
        thread.start()
        thread.join()
    assert all(user.is_open for user in users)
    assert len(files) == 0


def test_half_of_the_descriptors_are_for_logs() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert default_limit() == max((soft - 256) // 2, 64)


def test_more_partitions_than_open_files_are_written_and_read(logs: Logs, tmp_path: Path) -> None:
    serve(logs, 8)
    for log in partitions(logs, 30):
        fill(log, 12)
    assert open_descriptors(tmp_path / "data" / "events-") <= 8
    for log in logs.manager.logs.values():
        fill(log, 3)
        log.flush()
        assert offsets(log) == list(range(15))
        assert offsets(log, 7) == list(range(7, 15))
        log.check()
    assert open_descriptors(tmp_path / "data" / "events-") <= 8
    log = logs.restart()
    assert offsets(log) == list(range(15))


def test_what_is_being_read_stays_open(logs: Logs) -> None:
    serve(logs, 1)
    first, second = partitions(logs, 2)
    fill(first, 30)
    read = first.read(0, 1 << 20, upper_bound=30)
    assert read is not None
    places = first.segments.active.places()
    next(places)
    fill(second, 30)
    assert len(list(places)) == 29
    assert len(read.slice.read()) == first.size
    read.slice.release()


def test_without_descriptors_others_are_closed_first(logs: Logs) -> None:
    serve(logs, 100)
    for log in partitions(logs, 9):
        append(log, batch(b"x"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = open_descriptors(logs.root)
    held = [os.open("/dev/null", os.O_RDONLY)]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (held[0] + 10, hard))
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        logs.manager.files.open(str(logs.root / "data" / ".lock")).release()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in held:
            os.close(fd)
    assert open_descriptors(logs.root) < before


def test_a_lack_of_descriptors_takes_no_directory_offline(logs: Logs) -> None:
    (log,) = partitions(logs, 1)
    logs.files.faults = [Fault("open", errno.EMFILE, ".log", times=1)]
    with pytest.raises(StorageError, match="open files"):
        append(log, batch(b"x"))
    assert logs.manager.offline_dirs == []
    append(log, batch(b"x"))
    assert offsets(log) == [0]
