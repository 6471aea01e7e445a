"""Gives a copy its name when all of it is there, and on disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafkapy.storage.disk.files import FileSystem


@contextmanager
def placed(new: Path) -> Iterator[Path]:
    """A path for a file or a directory, which is `new` after the block.

    It is in a folder of its own beside `new`, which may be used too, and goes however the block ends. After a
    crash or a power cut `new` is complete, or is not there: a directory says that its broker was stopped in
    order, so nobody would look for what it lacks.

    Raises:
        OSError: the disk failed, or is full; `new` has appeared meanwhile, and is not empty.
    """
    files = FileSystem()
    parent = new.absolute().parent
    folder = Path(tempfile.mkdtemp(prefix=f".{new.name}-", dir=parent))
    try:
        path = folder / new.name
        yield path
        files.sync_all(str(folder))
        path.rename(new)
        files.sync_directory(str(parent))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
