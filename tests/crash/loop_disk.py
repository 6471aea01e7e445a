"""A file system in an image file, whose power can be cut while a broker uses it.

The cut is EXT4_IOC_SHUTDOWN with NOLOGFLUSH (XFS has the same ioctl): from that moment nothing reaches the
image any more, neither file contents that only the page cache has nor the journal's open transaction, and
every further write of the broker fails. Unmounting drops the page cache, mounting replays the journal: what
is then there is what a machine would find after its power came back. Needs the privilege to mount, hence
`why_not`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, Self

_SHUTDOWN: Final = 0x8004587D
"""EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN, _IOR('X', 125, __u32)."""
_FREEZE: Final = 0xC0045877
"""FIFREEZE, _IOWR('X', 119, int)."""
_THAW: Final = 0xC0045878
_NO_LOG_FLUSH: Final = struct.pack("I", 2)
_MAKE: Final = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-K"),
}
_LEAST_MEGABYTES: Final = {"ext4": 24, "xfs": 320}
UNMOUNT_DEADLINE: Final = 20.0


class LoopDisk:
    """An image `disk.img` in `folder`, mounted at `path` while the disk is in use."""

    def __init__(self, folder: Path, *, megabytes: int = 512, file_system: str = "ext4") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._image = folder / "disk.img"
        self.path = folder / "mnt"
        self.path.mkdir()
        with self._image.open("wb") as image:
            image.truncate(max(megabytes, _LEAST_MEGABYTES[file_system]) << 20)
        _run(*_MAKE[file_system], str(self._image))
        self._mounted = False
        self.mount()

    def mount(self) -> None:
        """Mount: the journal of a disk that lost its power is replayed."""
        _run("mount", "-o", "loop", str(self._image), str(self.path))
        self._mounted = True

    def cut_power(self) -> None:
        """Let no further write reach the disk."""
        self._control(_SHUTDOWN, _NO_LOG_FLUSH)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Let every write wait for the end of the block, as while a snapshot is taken."""
        self._control(_FREEZE, 0)
        try:
            yield
        finally:
            self._control(_THAW, 0)

    def _control(self, request: int, argument: bytes | int) -> None:
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, request, argument)
        finally:
            os.close(fd)

    def restore_power(self) -> None:
        """Bring the disk back as it is found after a power cut.

        Nobody may have a file of it open.
        """
        self.unmount()
        self.mount()

    def unmount(self) -> None:
        """Take the disk away; a process that was killed may hold it for a moment more."""
        deadline = time.monotonic() + UNMOUNT_DEADLINE
        while self._mounted:
            try:
                _run("umount", str(self.path))
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                self._mounted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unmount()
        self._image.unlink()


@cache
def why_not(file_system: str = "ext4") -> str | None:
    """The reason why this machine cannot have such a disk; None if it can."""
    if sys.platform != "linux":
        return f"power cuts need Linux's {file_system}, this is {sys.platform}"
    for program in (_MAKE[file_system][0], "mount", "umount", "losetup"):
        if shutil.which(program) is None:
            return f"power cuts need {program}, which is not installed"
    if os.geteuid() != 0:
        return "power cuts need root, to mount a disk image"
    folder = Path(tempfile.mkdtemp(prefix="kafkapy-power-"))
    try:
        with LoopDisk(folder, megabytes=24, file_system=file_system) as disk:
            disk.cut_power()
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", "") or str(error)
        return f"power cuts need a mounted {file_system} image, which failed: {detail.strip()}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
