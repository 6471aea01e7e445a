"""A file system that calls a hook before and after each change: to fail there, or to die."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kafkapy.storage.disk.files import Buffer, File
from kafkapy.virtual.disk_trace import TracingFiles

Hook = Callable[[str], None]
"""Called with the operation.

It is open, create, write, truncate, allocate, sync, sync_directory, rename, unlink or make.
"""


def _nothing(_: str) -> None:
    pass


class HookedFiles(TracingFiles):
    """The file system below `root`, with hooks.

    A call of the storage layer is divided into the steps between which a process may die or a disk may fail.
    """

    def __init__(self, root: Path, *, before: Hook = _nothing, after: Hook = _nothing) -> None:
        super().__init__(root)
        self._before = before
        self._after = after

    def open(self, path: str, *, create: bool = False) -> File:
        self._before("open")
        file = super().open(path, create=create)
        self._after("open")
        return file

    def create(self, path: str) -> None:
        self._before("create")
        super().create(path)
        self._after("create")

    def write_at(self, file: File, buffers: Sequence[Buffer], position: int) -> int:
        self._before("write")
        written = super().write_at(file, buffers, position)
        self._after("write")
        return written

    def truncate(self, file: File, size: int) -> None:
        self._before("truncate")
        super().truncate(file, size)
        self._after("truncate")

    def allocate(self, file: File, size: int) -> None:
        self._before("allocate")
        super().allocate(file, size)
        self._after("allocate")

    def sync_data(self, file: File) -> None:
        self._before("sync")
        super().sync_data(file)
        self._after("sync")

    def sync_file_system(self, path: str) -> None:
        self._before("sync")
        super().sync_file_system(path)
        self._after("sync")

    def sync_directory(self, path: str) -> None:
        self._before("sync_directory")
        super().sync_directory(path)
        self._after("sync_directory")

    def rename(self, source: str, target: str) -> None:
        self._before("rename")
        super().rename(source, target)
        self._after("rename")

    def unlink(self, path: str) -> None:
        self._before("unlink")
        super().unlink(path)
        self._after("unlink")

    def make_directory(self, path: str) -> None:
        self._before("make")
        super().make_directory(path)
        self._after("make")
