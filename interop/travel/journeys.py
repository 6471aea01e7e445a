"""Running the commands, and a directory's reference: what its own broker shows after it was stopped."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[2]


def run_kafkapy(*arguments: object) -> str:
    """Run `kafkapy ARGUMENTS`; what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "kafkapy", *map(str, arguments)],
        cwd=_CHECKOUT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr, done.stderr
    return done.stdout


def copy_directory(source: Path, target: Path) -> Path:
    """A copy as it lies there."""
    return Path(shutil.copytree(source, target))


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file of a directory and what it holds, to see that nothing changes it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
