"""Builds the tests of a published Go module, from a copy that is changed to use one broker.

The Go tool fetches the module from its proxy and keeps it, and what it has compiled, in its own caches.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop.support.locked import locked
from interop.support.maven import CACHE


@dataclass(frozen=True)
class GoModule:
    """A release of a client in Go, whose tests are in its module."""

    name: str
    path: str
    release: str
    sum: str
    """What `go.sum` has of it."""

    def built_tests(self, change: Callable[[Path], None], *flags: str) -> Path:
        """The path of a program with the tests of the module's main package.

        `change` changes the sources in the copy that it is given. Skips the test if Go or the module is not
        to be had.
        """
        program = CACHE / self.name / self.release / "own.test"
        with locked(program):
            if not program.exists():
                self._build(program, change, flags)
        return program

    def _build(self, program: Path, change: Callable[[Path], None], flags: tuple[str, ...]) -> None:
        if not shutil.which("go"):
            pytest.skip(f"the tests of {self.name} were not run: go is not on the PATH (Go 1.26 is needed)")
        with tempfile.TemporaryDirectory(dir=program.parent) as name:
            source = Path(name, "source")
            shutil.copytree(self._fetched(Path(name)), source, copy_function=shutil.copyfile)
            for folder in (source, *(path for path in source.rglob("*") if path.is_dir())):
                folder.chmod(0o755)
            change(source)
            made = _go(source, "test", *flags, "-c", "-o", str(source / program.name), ".")
            assert made.returncode == 0, made.stderr
            (source / program.name).rename(program)

    def _fetched(self, folder: Path) -> Path:
        module = f"{self.path}@{self.release}"
        fetched = _go(folder, "mod", "download", "-json", module)
        if fetched.returncode:
            last = (fetched.stderr.splitlines() or ["no message"])[-1]
            pytest.skip(f"the tests of {self.name} were not run: go could not fetch the module: {last}")
        found = json.loads(fetched.stdout)
        assert found["Sum"] == self.sum, f"{module} has another checksum: {found['Sum']}"
        return Path(found["Dir"])


def replace_in(path: Path, changes: dict[str, str]) -> None:
    """Replace text in a source file; each text must be there."""
    text = path.read_text()
    for before, after in changes.items():
        assert before in text, f"{path.name} has no {before!r}"
        text = text.replace(before, after)
    path.write_text(text)


def _go(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["go", *arguments], cwd=folder, capture_output=True, text=True, check=False)
