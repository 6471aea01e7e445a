"""A small file system in memory (tmpfs) that tests fill: each new page needs space.

Needs the privilege to mount, hence `why_not`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Final, Self

UNMOUNT_DEADLINE: Final = 20.0


class TmpfsDisk:
    """Mounted at `path` while it is in use."""

    def __init__(self, folder: Path, *, megabytes: int) -> None:
        self.path = folder / "mnt"
        self.path.mkdir(parents=True)
        _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(self.path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        deadline = time.monotonic() + UNMOUNT_DEADLINE
        while True:
            try:
                _run("umount", str(self.path))
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return


@cache
def why_not() -> str | None:
    """The reason why this machine cannot have such a disk; None if it can."""
    if sys.platform != "linux":
        return f"tmpfs needs Linux, this is {sys.platform}"
    folder = Path(tempfile.mkdtemp(prefix="kafkapy-tmpfs-"))
    try:
        with TmpfsDisk(folder, megabytes=1):
            pass
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", "") or str(error)
        return f"a full tmpfs needs the right to mount one: {detail.strip()}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
