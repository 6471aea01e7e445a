"""A disk that loses what was not synced when its power is cut.

It works on a directory (disk_trace.py): what the broker does there is done, and recorded. A power
cut may come at any of these operations. What the same callback does afterwards happens on nothing: it is not
recorded, and the directory is made anew from what may have survived.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from kafkapy.faults.disks import FaultyFiles
from kafkapy.storage.disk.files import Buffer, File
from kafkapy.virtual.disk_trace import Disk, TracingFiles
from kafkapy.virtual.network import hash_of
from kafkapy.virtual.world import World

PLAYED_AT: int = 2_000
"""The number of recorded operations that are played on the disk together."""

ENOUGH: int = 1 << 30
"""The free bytes of a disk that is not full."""

_NEVER_CLOSED = 1 << 40


class SimulatedDisk(TracingFiles):
    """The file system of one machine, from one power cut to the next."""

    def __init__(self, root: Path, world: World, name: str, cut: Callable[[], None]) -> None:
        """`cut` is called when the power fails."""
        super().__init__(root)
        self.has_power = True
        self.cut_after: int | None = None
        """The number of operations until the power fails."""
        self.room: int | None = None
        """The bytes that are free; None for enough."""
        self._disk = Disk(root)
        self._world = world
        self._name_of_machine = name
        self._power_fails = cut
        self._files: dict[int, File] = {}

    def open(self, path: str, *, create: bool = False) -> File:
        file = super().open(path, create=create)
        self._files[file.fd] = file
        return file

    def _require_cached(self, file: File, nbytes: int, position: int) -> None:
        """Everything is in the page cache."""

    def write_probe(self, file: File, fresh: float) -> None:
        """No write waits for this disk."""

    def begin_to_read(self, file: File, position: int, nbytes: int) -> bool:
        return True

    def modified_ms(self, path: str) -> int:
        super().modified_ms(path)
        return 0  # the real time, which it would be, differs from run to run

    def free_bytes(self, path: str) -> int:
        return ENOUGH if self.room is None else self.room

    def write_at(self, file: File, buffers: Sequence[Buffer], position: int) -> int:
        self._take(file, position + sum(map(len, buffers)), at_most=False)
        return super().write_at(file, buffers, position)

    def allocate(self, file: File, size: int) -> None:
        self._take(file, size, at_most=False)
        super().allocate(file, size)

    def truncate(self, file: File, size: int) -> None:
        self._take(file, size, at_most=True)
        super().truncate(file, size)

    def sync_directory(self, path: str) -> None:
        if not os.path.isdir(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        super().sync_directory(path)

    def unlink(self, path: str) -> None:
        if self.room is not None and os.path.exists(path):
            self.room += os.path.getsize(path)
        super().unlink(path)

    def _take(self, file: File, size: int, *, at_most: bool) -> None:
        """Let a file have `size` bytes, `at_most` or at least.

        Raises:
            OSError: the disk is full.
        """
        if self.room is None:
            return
        grows = size - os.fstat(file.fd).st_size
        if grows > 0 and at_most:
            return  # a hole
        if grows > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if grows > 0 or at_most:
            self.room -= grows

    def close_all(self) -> None:
        """Close the files of a process that is gone.

        What is left of it may release them, to no effect.
        """
        for fd, file in self._files.items():
            if file.fd == fd:
                os.close(fd)
                file.fd = -1
                file._references = _NEVER_CLOSED
        self._files.clear()
        self._open.clear()
        self.open_files.close()

    def lose_power(self, chance: random.Random) -> None:
        """Make the directory anew, as it may be found after the power cut."""
        self._play()
        found = Path(f"{self.root}.found")
        self._disk.lose_power(found, chance)
        shutil.rmtree(self.root)
        found.rename(self.root)

    def _note(self, *op: object) -> None:
        if not self.has_power:
            return
        self._world.note(self._name_of_machine, *(_short(each) for each in op))
        super()._note(*op)
        if len(self.trace) >= PLAYED_AT:
            self._play()
        if self.cut_after is not None:
            self.cut_after -= 1
            if self.cut_after <= 0:
                self.cut()

    def cut(self) -> None:
        """Cut the power."""
        self.cut_after = None
        self.has_power = False
        self._power_fails()

    def _play(self) -> None:
        self._disk.play(self.trace)
        self.trace.clear()


class FaultyDisk(FaultyFiles, SimulatedDisk):
    """Such a disk, with the faults of files that a test switches on."""

    def __init__(
        self, root: Path, world: World, name: str, cut: Callable[[], None], sleep: Callable[[float], None]
    ) -> None:
        """`sleep` is told how long a slow call takes."""
        super().__init__(root, world, name, cut)
        self.sleep = sleep


def _short(each: object) -> str:
    return f"{len(each)} {hash_of(each)}" if isinstance(each, bytes) else str(each)
