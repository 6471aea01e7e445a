"""A run that fails or is killed at any of its file operations changes nothing.

There is no target, and the next run works.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkapy.storage.disk.files import FileSystem
from kafkapy.tools.migrate import exporting, importing
from kafkapy.tools.migrate.exporting import export_copy, export_in_place
from kafkapy.tools.migrate.importing import MetadataPlace, import_copy, import_in_place
from kafkapy.tools.migrate.migration_error import MigrationError
from kafkapy.tools.migrate.target import Target
from tests.tools.migrate.harness import files_of, open_directory, write_directory

CHANGING = ("link", "copy", "rename", "make_directory", "write_atomically", "sync_directory")


class Killed(BaseException):
    """What SIGKILL is to the code: nothing handles it."""


class Interrupted(FileSystem):
    """Fails at one operation, and at all that follow."""

    __slots__ = ("calls", "failure", "left")

    def __init__(self, left: int, failure: Callable[[], BaseException]) -> None:
        self.left = left
        self.failure = failure

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise self.failure()


def _interrupting(name: str) -> Callable[..., Any]:
    def call(self: Interrupted, *args: Any, **kwargs: Any) -> Any:
        self._count()
        return getattr(FileSystem, name)(self, *args, **kwargs)

    return call


for _name in CHANGING:
    setattr(Interrupted, _name, _interrupting(_name))


def disk_full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/the/disk")


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    home = tmp_path_factory.mktemp("home")
    return home, write_directory(home)


def interrupt(
    monkeypatch: pytest.MonkeyPatch, left: int, failure: Callable[[], BaseException]
) -> Interrupted:
    """Let operations fail after so many; return the files that count them."""
    files = Interrupted(left, failure)
    for module in (exporting, importing):
        monkeypatch.setattr(module, "FileSystem", lambda: files)
    return files


def moments(run: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> range:
    """The operations of a run, some of them: each at the ends, every third between."""
    files = interrupt(monkeypatch, 1_000_000, disk_full)
    run()
    return range(1_000_000 - files.left)


def test_a_failing_disk_leaves_nothing_of_an_export(
    before: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, _ = before
    files = files_of(home)

    def run(name: str = "counted") -> None:
        export_copy([home], [tmp_path / name], None, lambda *_: None)

    for left in moments(run, monkeypatch)[:-1]:
        interrupt(monkeypatch, left, disk_full)
        with pytest.raises(MigrationError):
            run("target")
        assert [path.name for path in tmp_path.iterdir()] == ["counted"]
    assert files_of(home) == files


def test_a_killed_export_and_import_are_run_again(
    before: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, shown = before

    def there(name: str = "there") -> None:
        export_copy([home], [tmp_path / name], None, lambda *_: None)

    def back(name: str = "back") -> None:
        import_copy([tmp_path / "there"], [tmp_path / name], MetadataPlace(), lambda *_: None)

    for run, name in ((there, "there"), (back, "back")):
        operations = moments(lambda run=run: run("counted"), monkeypatch)  # type: ignore[misc]
        with monkeypatch.context() as killing:
            killing.setattr(Target, "_discard", _only_unlock)
            for left in operations[:-3:5]:
                interrupt(killing, left, Killed)
                with pytest.raises(Killed):
                    run()
                assert not (tmp_path / name).exists()
        interrupt(monkeypatch, 1_000_000, Killed)
        run()
        monkeypatch.undo()
        (tmp_path / "counted").rename(tmp_path / f"counted {name}")
    assert open_directory(tmp_path / "back") == shown


def test_a_killed_run_in_place_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    shown = write_directory(home)
    for left in range(40):
        interrupt(monkeypatch, left, Killed)
        try:
            export_in_place([home], None)
        except Killed:
            if not (home / "metadata.db").exists():
                break
    monkeypatch.undo()
    if (home / "metadata.db").exists():
        export_in_place([home], None)
    import_in_place([home], MetadataPlace())
    assert open_directory(home) == shown


def _only_unlock(target: Target) -> None:
    """What the system does for a killed process."""
    for lock in target._locks:
        lock.release()
    target._locks.clear()
