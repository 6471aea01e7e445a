"""Which files are shared, and which are copied."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kafkapy.storage.disk.files import FileSystem
from kafkapy.tools.migrate.source import Source
from kafkapy.tools.migrate.transfer import Transfer, bring_partitions
from tests.tools.migrate.test_import_plan import ID, make_directory


class NoLinks(FileSystem):
    """A target on another file system."""

    def link(self, source: str, target: str) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source)


def log_directory(root: Path, recovery_point: int) -> Path:
    """A partition with segments at 0, 100 and 200."""
    make_directory(root, t_0=ID)
    for offset in (0, 100, 200):
        (root / "t-0" / f"{offset:020d}.log").write_bytes(b"%d" % offset * 1000)
        (root / "t-0" / f"{offset:020d}.index").write_bytes(b"i" * 80)
    (root / "recovery-point-offset-checkpoint").write_text(f"0\n1\nt 0 {recovery_point}\n")
    return root


def bring(root: Path, target: Path, files: FileSystem) -> Transfer:
    target.mkdir()
    with Source([root]) as source:
        return bring_partitions(source, source.folders.values(), [str(target)], files, lambda *_: None)


@pytest.mark.parametrize(("recovery_point", "shared"), [(0, []), (99, []), (100, []), (200, [0]), (300, [0])])
def test_only_segments_that_recovery_will_not_write_are_shared(
    tmp_path: Path, recovery_point: int, shared: list[int]
) -> None:
    root = log_directory(tmp_path / "root", recovery_point)
    bring(root, tmp_path / "target", FileSystem())
    same = [
        int(path.stem)
        for path in sorted((root / "t-0").iterdir())
        if path.samefile(tmp_path / "target" / "t-0" / path.name)
    ]
    assert same == shared


def test_on_another_file_system_everything_is_copied(tmp_path: Path) -> None:
    root = log_directory(tmp_path / "root", 300)
    transfer = bring(root, tmp_path / "target", NoLinks())
    assert transfer.shared == 0
    for path in (root / "t-0").iterdir():
        assert (tmp_path / "target" / "t-0" / path.name).read_bytes() == path.read_bytes()


def test_what_a_compaction_was_about_to_put_in_place_comes_along(tmp_path: Path) -> None:
    root = log_directory(tmp_path / "root", 0)
    for name in (f"{0:020d}.log.swap", f"{100:020d}.log.cleaned", f"{0:020d}.log.deleted", "notes.txt"):
        (root / "t-0" / name).touch()
    bring(root, tmp_path / "target", FileSystem())
    names = {path.name for path in (tmp_path / "target" / "t-0").iterdir()}
    assert {f"{0:020d}.log.swap", f"{100:020d}.log.cleaned"} <= names
    assert not {f"{0:020d}.log.deleted", "notes.txt"} & names
