"""kcat comes from the package manager; as root on a Debian system the first run installs it."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    if shutil.which("kcat"):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.skip("kcat is not installed (Debian: apt-get install kcat)")
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", "kcat"]):
        run = subprocess.run(["apt-get", *arguments], capture_output=True, text=True, check=False)
        if run.returncode:
            pytest.skip(f"kcat is not installed, and apt-get could not: {run.stderr.strip()[-200:]}")
