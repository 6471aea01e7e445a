"""An overlay does to real files what the real file system would.

It does it in memory alone.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.offline.overlay_files import OverlayFiles
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles

BLOCK = 4096
NAMES = ("a", "b", "c", "d/a", "d/b", "e/a")
PATHS = st.sampled_from((*NAMES, "d", "e", "missing/a"))
SIZES = st.sampled_from((0, 1, 10, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7))

Act = Callable[[FileSystem, str], object]
"""Something done below a directory; its result."""


def write(name: str, position: int, nbytes: int, fill: int) -> Act:
    def act(files: FileSystem, root: str) -> object:
        file = files.open(f"{root}/{name}", create=True)
        try:
            half = nbytes // 2
            return files.write_at(file, [bytes([fill]) * half, bytes([fill]) * (nbytes - half)], position)
        finally:
            file.release()

    return act


def resize(name: str, size: int, *, allocate: bool) -> Act:
    def act(files: FileSystem, root: str) -> object:
        file = files.open(f"{root}/{name}")
        try:
            if allocate:
                files.allocate(file, size + 1)
            else:
                files.truncate(file, size)
            return files.size_of(file)
        finally:
            file.release()

    return act


def read(name: str, position: int, nbytes: int) -> Act:
    def act(files: FileSystem, root: str) -> object:
        file = files.open(f"{root}/{name}")
        buffer = bytearray(nbytes)
        try:
            data = files.read_at(file, nbytes, position)
            assert files.read_into(file, memoryview(buffer), position) == len(data)
            assert buffer[: len(data)] == data
            return data
        finally:
            file.release()

    return act


def by_path(operation: str, name: str) -> Act:
    return lambda files, root: getattr(files, operation)(f"{root}/{name}")


def by_two_paths(operation: str, source: str, target: str) -> Act:
    return lambda files, root: getattr(files, operation)(f"{root}/{source}", f"{root}/{target}") and None


def replace(name: str, content: bytes) -> Act:
    return lambda files, root: files.write_atomically(f"{root}/{name}", content)


ACTS: st.SearchStrategy[Act] = st.one_of(
    st.builds(write, PATHS, SIZES, SIZES, st.integers(0, 255)),
    st.builds(resize, PATHS, SIZES, allocate=st.booleans()),
    st.builds(read, PATHS, SIZES, SIZES),
    st.builds(by_path, st.sampled_from(("create", "unlink", "remove", "exists")), PATHS),
    st.builds(
        by_path,
        st.sampled_from(("make_directory", "make_directories")),
        st.sampled_from(("d", "new", "new/one")),
    ),
    st.builds(
        by_two_paths, st.just("rename"), st.sampled_from(NAMES), st.sampled_from((*NAMES, "d", "missing/a"))
    ),
    st.builds(by_two_paths, st.just("rename"), st.sampled_from("de"), st.sampled_from(("e", "new"))),
    st.builds(by_two_paths, st.sampled_from(("link", "copy")), st.sampled_from(NAMES), PATHS),
    st.builds(replace, PATHS, SIZES.map(bytes)),
)


def tree(files: FileSystem, path: str) -> dict[str, object]:
    """All that is below a directory, as the file system shows it."""
    found: dict[str, object] = {}
    for entry in files.scan(path):
        assert entry.path == f"{path}/{entry.name}"
        if entry.is_dir():
            assert not entry.is_file()
            found[entry.name] = tree(files, entry.path)
        else:
            content = files.read(entry.path)
            assert entry.stat().st_size == files.size(entry.path) == len(content)
            found[entry.name] = content
    return found


def fill(root: Path) -> Path:
    for folder in (root, root / "d"):
        folder.mkdir()
        (folder / "a").write_bytes(b"0123456789" * 1000)
        (folder / "b").write_bytes(bytes(range(256)) * 16)
    (root / "e").mkdir()
    return root


def outcome(act: Act, files: FileSystem, root: Path) -> object:
    try:
        return act(files, str(root))
    except OSError:
        return OSError


@given(st.lists(ACTS, max_size=12))
def test_an_overlay_does_what_the_disk_does_and_leaves_the_disk(acts: list[Act]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        real, below = fill(Path(folder, "real")), fill(Path(folder, "below"))
        files, overlay = FileSystem(), OverlayFiles()
        before = tree(files, str(below))
        for act in acts:
            assert outcome(act, overlay, below) == outcome(act, files, real)
            assert tree(overlay, str(below)) == tree(files, str(real))
        assert tree(files, str(below)) == before


def test_every_operation_that_a_reader_must_not_use_is_the_overlays_own() -> None:
    refused = {name for name, each in vars(ReadOnlyFiles).items() if each is ReadOnlyFiles._refuse}
    of_the_disk = {name for name, _ in inspect.getmembers(FileSystem, inspect.isfunction) if name[0] != "_"}
    # They are made of others, only ask, or only say how long a read may take.
    of_the_disk -= {
        "write_atomically",
        "free_bytes",
        "total_bytes",
        "cached_only",
        "waiting_for_disk",
        "write_probe",
        "is_synced_at_once",
    }
    assert (refused - {"_refuse", "write_atomically"}) | of_the_disk <= vars(OverlayFiles).keys()


def test_a_file_that_was_written_again_as_it_was_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes(bytes(range(250)) * 100)
    overlay = OverlayFiles()
    overlay.create(str(path))
    assert overlay.is_changed(str(path))
    file = overlay.open(str(path))
    overlay.truncate(file, 1 << 20)
    overlay.write_at(file, [path.read_bytes()], 0)
    overlay.truncate(file, path.stat().st_size)
    file.release()
    assert not overlay.is_changed(str(path))
    assert overlay.read(str(path)) == path.read_bytes()


def test_a_large_file_that_is_truncated_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    overlay = OverlayFiles()
    opened = overlay.open(str(path))
    overlay.truncate(opened, (1 << 40) - 5)
    overlay.write_at(opened, [b"the end"], 1 << 39)
    assert overlay.size_of(opened) == (1 << 40) - 5
    assert overlay.read_at(opened, 20, (1 << 39) - 2) == b"\0\0the end" + bytes(11)
    opened.release()
    assert path.stat().st_size == 1 << 40


def test_what_is_forgotten_is_as_on_disk(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "a").write_bytes(b"a")
    overlay = OverlayFiles()
    overlay.rename(f"{tmp_path}/log/a", f"{tmp_path}/log/b")
    overlay.forget(f"{tmp_path}/log")
    assert tree(overlay, str(tmp_path / "log")) == {"a": b"a"}


@pytest.mark.parametrize("operation", ["open", "read", "size", "scan", "modified_ms"])
@pytest.mark.parametrize("removed", [False, True])
def test_what_is_not_there_is_not_found(tmp_path: Path, operation: str, removed: bool) -> None:
    overlay = OverlayFiles()
    if removed:
        (tmp_path / "a").write_bytes(b"a")
        overlay.unlink(f"{tmp_path}/a")
    with pytest.raises(FileNotFoundError):
        getattr(overlay, operation)(f"{tmp_path}/a")


@pytest.mark.parametrize("held", [False, True])
def test_a_lock_is_taken_from_nobody(tmp_path: Path, held: bool) -> None:
    path = str(tmp_path / ".lock")
    lock = FileSystem().lock(path) if held else None
    OverlayFiles().lock(path).release()
    assert held is (tmp_path / ".lock").exists()
    if lock is not None:
        with pytest.raises(BlockingIOError):
            FileSystem().lock(path)
        lock.release()
