"""A broker with more segments than it may open files.

The longest unused are closed, and nobody notices.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkapy.storage.disk.files import File
from kafkapy.storage.disk.open_files import OpenFiles, share_descriptors
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from tests.storage.descriptors import no_descriptors_left, open_files_limit
from tests.storage.log_harness import TOPIC_ID, TP, Logs, append, batch, fill, offsets


class User:
    """Has a file."""

    def __init__(self) -> None:
        self.used = False
        self.is_open = True

    def close_file(self) -> None:
        self.is_open = False


class Held(User):
    """Has a file that somebody else holds too."""

    def __init__(self) -> None:
        super().__init__()
        self.file = File(os.open(os.devnull, os.O_RDONLY)).acquire()

    def close_file(self) -> File:  # type: ignore[override]
        self.is_open = False
        self.file.release()
        return self.file


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


@pytest.mark.parametrize(
    ("limit", "setting", "logs", "connections"),
    [
        (20_000, None, 9872, 9872),
        (1024, None, 384, 384),
        (400, None, 150, 150),
        (64, None, 24, 24),
        (1024, 100, 100, 668),
        (1024, 5000, 576, 192),
    ],
)
def test_logs_and_connections_share_the_descriptors_that_the_broker_does_not_need(
    limit: int, setting: int | None, logs: int, connections: int
) -> None:
    with open_files_limit(limit):
        assert share_descriptors(setting) == (logs, connections)


def test_files_that_unread_answers_hold_leave_room_for_fewer_others() -> None:
    files = OpenFiles(20)
    files.serve_this_thread()
    held, others = [Held() for _ in range(20)], [User() for _ in range(60)]
    for user in held[:4]:
        files.opened(user)
    for other in others[:20]:
        files.opened(other)
    assert len(files) == 16
    assert not files.crowded
    for user in held[4:]:
        files.opened(user)
    for other in others[20:]:
        files.opened(other)
    assert files.crowded, "as many files are held as may be open"
    for user in held:
        user.file.release()
    assert not files.crowded


def test_a_thread_that_finds_no_descriptor_takes_one_of_the_reserve(logs: Logs) -> None:
    path = str(logs.root / "data" / "small")
    with no_descriptors_left():
        with pytest.raises(OSError, match="Too many"):
            os.open(os.devnull, os.O_RDONLY)
        logs.manager.files.write_atomically(path, b"whole")
        assert logs.manager.files.read(path) == b"whole"
        names = [entry.name for entry in logs.manager.files.scan(os.path.dirname(path))]
    assert "small" in names


def test_the_reserve_is_full_again_when_there_are_descriptors(logs: Logs) -> None:
    files = logs.manager.files
    with no_descriptors_left():
        held = [files.open(os.devnull) for _ in range(16)]
        with pytest.raises(OSError, match="Too many"):
            files.open(os.devnull)
        for file in held:
            file.release()
        assert files.scan(str(logs.root))
        for _ in range(2):  # what was released is the reserve's again
            held = [files.open(os.devnull) for _ in range(16)]
            for file in held:
                file.release()
            files.open_files.refill()


def test_a_broker_that_stops_gives_up_its_reserve(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    logs = Logs(tmp_path)
    assert len(os.listdir("/proc/self/fd")) >= before + 16
    logs.crash()
    assert len(os.listdir("/proc/self/fd")) == before


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
    before = open_descriptors(logs.root)
    with no_descriptors_left():
        logs.manager.files.open(str(logs.root / "data" / ".lock")).release()
    assert open_descriptors(logs.root) < before
