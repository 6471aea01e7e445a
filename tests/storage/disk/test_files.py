"""The operations that touch the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkapy.storage.disk.files import FileSlice, FileSystem

FILES = FileSystem()


def test_many_buffers_are_written_in_order(tmp_path: Path) -> None:
    file = FILES.open(str(tmp_path / "file"), create=True)
    buffers = [b"%d," % number for number in range(3000)]
    assert FILES.write_at(file, buffers, 5) == sum(map(len, buffers))
    file.release()
    assert (tmp_path / "file").read_bytes() == bytes(5) + b"".join(buffers)


def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, writes = os.pwritev, os.pwrite
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, at: write(fd, [b"".join(buffers)[:3]], at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: writes(fd, bytes(data)[:2], at))
    file = FILES.open(str(tmp_path / "file"), create=True)
    assert FILES.write_at(file, [b"abcd", memoryview(b"efgh")], 0) == 8
    file.release()
    assert (tmp_path / "file").read_bytes() == b"abcdefgh"


def test_a_file_closes_with_its_last_user(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    file = FILES.open(str(tmp_path / "file"))
    piece = FileSlice(file, 2, 5)
    file.release()
    assert piece.read() == b"23456"
    assert os.fstat(piece.fileno).st_size == 10
    piece.release()
    assert piece.fileno == -1


def test_a_slice_of_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123")
    file = FILES.open(str(tmp_path / "file"))
    piece = FileSlice(file, 0, 10)
    with pytest.raises(OSError, match="ended inside"):
        piece.read()
    piece.release()
    file.release()


@pytest.mark.parametrize("durable", [True, False])
def test_an_atomic_write_replaces_the_file_and_leaves_no_other(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "checkpoint"
    FILES.write_atomically(str(path), b"old", durable=durable)
    FILES.write_atomically(str(path), b"new", durable=durable)
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]


def test_an_atomic_write_that_fails_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "checkpoint"
    FILES.write_atomically(str(path), b"old")

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        FILES.write_atomically(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]


def test_a_lock_excludes_this_process_and_others(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    first = FILES.lock(path)
    with pytest.raises(BlockingIOError):
        FILES.lock(path)
    child = os.fork()
    if child == 0:
        try:
            FILES.lock(path)
        except BlockingIOError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    first.release()
    FILES.lock(path).release()


def test_removing_what_is_gone_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "dir" / "sub").mkdir(parents=True)
    FILES.remove(str(tmp_path / "dir"))
    FILES.remove(str(tmp_path / "dir"))
    FILES.unlink(str(tmp_path / "file"))
    assert list(tmp_path.iterdir()) == []


def test_a_copy_has_the_bytes_and_the_holes(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    content = os.urandom(3_000_000)
    source.write_bytes(content)
    os.truncate(source, 20_000_000)
    with source.open("r+b") as file:
        file.seek(19_000_000)
        file.write(b"end")
    written = FILES.copy(str(source), str(target))
    assert target.read_bytes() == source.read_bytes()
    assert written is None or written < 4_000_000
    assert target.stat().st_blocks * 512 < 5_000_000


def test_a_copy_of_a_file_without_data_is_as_long(tmp_path: Path) -> None:
    for size in (0, 1_000_000):
        source, target = tmp_path / f"source{size}", tmp_path / f"target{size}"
        source.touch()
        os.truncate(source, size)
        FILES.copy(str(source), str(target))
        assert target.read_bytes() == bytes(size)


def test_a_copy_replaces_nothing(tmp_path: Path) -> None:
    for name in ("source", "target"):
        (tmp_path / name).write_text(name)
    with pytest.raises(FileExistsError):
        FILES.copy(str(tmp_path / "source"), str(tmp_path / "target"))
    assert (tmp_path / "target").read_text() == "target"
