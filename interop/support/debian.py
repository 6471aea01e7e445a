"""Commands of Debian packages, which the suites need and install if they run as root."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache


@cache
def installed(command: str, package: str) -> str:
    """Install `package` unless its command is there; why that is not possible, or nothing."""
    if shutil.which(command):
        return ""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return f"{command} is not installed (Debian: apt-get install {package})"
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", package]):
        run = subprocess.run(["apt-get", *arguments], capture_output=True, text=True, check=False)
        if run.returncode:
            return f"{command} is not installed, and apt-get could not: {run.stderr.strip()[-200:]}"
    return ""
