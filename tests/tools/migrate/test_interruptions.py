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

from kafkapy.storage.disk.files import File, FileSystem
from kafkapy.tools.migrate.exporting import export_copy, export_in_place
from kafkapy.tools.migrate.importing import MetadataPlace, import_copy, import_in_place
from kafkapy.tools.migrate.migration_error import MigrationError
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


class KilledFiles(Interrupted):
    """The process is killed at one operation.

    It does nothing after it, and the system closes its files.
    """

    def __init__(self, left: int) -> None:
        super().__init__(left, Killed)
        self.locks: list[File] = []

    def lock(self, path: str) -> File:
        self.locks.append(super().lock(path))
        return self.locks[-1]

    def remove(self, path: str) -> None:
        if self.left < 0:
            raise Killed
        super().remove(path)

    def close(self) -> None:
        for lock in self.locks:
            if lock.fd >= 0:
                lock.release()


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    home = tmp_path_factory.mktemp("home")
    return home, write_directory(home)


def moments(run: Callable[[FileSystem], object]) -> range:
    """The operations of a run."""
    files = Interrupted(1_000_000, disk_full)
    run(files)
    return range(1_000_000 - files.left)


def test_a_failing_disk_leaves_nothing_of_an_export(
    before: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    home, _ = before
    contents = files_of(home)

    def run(files: FileSystem, name: str = "counted") -> None:
        export_copy([home], [tmp_path / name], None, lambda *_: None, files=files)

    for left in moments(run)[:-1]:
        with pytest.raises(MigrationError):
            run(Interrupted(left, disk_full), "target")
        assert [path.name for path in tmp_path.iterdir()] == ["counted"]
    assert files_of(home) == contents


def test_a_killed_export_and_import_are_run_again(
    before: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    home, shown = before

    def there(files: FileSystem, name: str = "there") -> None:
        export_copy([home], [tmp_path / name], None, lambda *_: None, files=files)

    def back(files: FileSystem, name: str = "back") -> None:
        place = MetadataPlace()
        import_copy([tmp_path / "there"], [tmp_path / name], place, lambda *_: None, files=files)

    for run, name in ((there, "there"), (back, "back")):
        operations = moments(lambda files, run=run: run(files, "counted"))  # type: ignore[misc]
        for left in operations[:-3:5]:
            files = KilledFiles(left)
            with pytest.raises(Killed):
                run(files)
            files.close()
            assert not (tmp_path / name).exists()
        run(FileSystem())
        (tmp_path / "counted").rename(tmp_path / f"counted {name}")
    assert open_directory(tmp_path / "back") == shown


def test_a_killed_run_in_place_is_run_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shown = write_directory(home)
    for left in range(40):
        try:
            export_in_place([home], None, files=Interrupted(left, Killed))
        except Killed:
            if not (home / "metadata.db").exists():
                break
    if (home / "metadata.db").exists():
        export_in_place([home], None)
    import_in_place([home], MetadataPlace())
    assert open_directory(home) == shown
