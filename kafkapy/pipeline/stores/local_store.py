"""A folder on a local disk, or on one that is mounted like it.

A file is replaced by a rename, with syncs before and after it. A lock is a file that the process has locked
(flock) and that contains its id: however the process ends, the operating system releases it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafkapy.pipeline.pipeline_error import PipelineError
from kafkapy.pipeline.stores.store import Entry, Store

_PATIENCE: Final = 1.0  # seconds; `holder` takes a lock for an instant to test it


class LocalStore(Store):
    """The folder at an absolute path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, path: str) -> bytes | None:
        try:
            return (self.folder / path).read_bytes()
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return None
            raise

    def replace(self, path: str, content: bytes) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        following = target.with_name(f"{target.name}.tmp")
        with following.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        following.replace(target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def entries(self, path: str = "") -> list[Entry]:
        try:
            with os.scandir(self.folder / path) as found:
                return [Entry(one.name, one.is_dir()) for one in found]
        except FileNotFoundError:
            return []

    def delete_folder(self, path: str) -> None:
        shutil.rmtree(self.folder / path)

    def is_file(self) -> bool:
        return self.folder.is_file()

    @contextlib.contextmanager
    def lock(self, path: str, held: str) -> Iterator[None]:
        try:
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.folder / path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise PipelineError(f"{self.folder}: cannot be written: {error}; name another folder") from None
        try:
            deadline = time.monotonic() + _PATIENCE
            while not _try_lock(descriptor, fcntl.LOCK_EX):
                if time.monotonic() >= deadline:
                    owner = os.pread(descriptor, 20, 0).decode() or "unknown"
                    raise PipelineError(f"{self.folder}: {held} (process {owner}); stop that first")
                time.sleep(0.02)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def check_locks(self) -> None:
        """Nothing takes a lock from a process that lives."""

    def holder(self, path: str) -> int | None:
        try:
            descriptor = os.open(self.folder / path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            if _try_lock(descriptor, fcntl.LOCK_SH):
                return None
            return int(os.pread(descriptor, 20, 0) or 0)
        finally:
            os.close(descriptor)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
