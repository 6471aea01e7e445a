"""Packages of npm, unpacked and not installed."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest


def unpacked(package: str, folder: Path) -> Path:
    """The files of a package, such as `axe-core@4`, below `folder`.

    Skips the test if it cannot be had.
    """
    if not shutil.which("npm"):
        pytest.skip(f"npm is not on the PATH: it is needed to fetch {package}")
    command = ["npm", "pack", "--silent", package]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip(f"npm could not fetch {package}: {(run.stderr.splitlines() or ['no message'])[-1]}")
    with tarfile.open(folder / run.stdout.strip()) as archive:
        archive.extractall(folder, filter="data")
    return folder / "package"
