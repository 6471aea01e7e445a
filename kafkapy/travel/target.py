"""The directories that are made: written beside their place under a name of their own, then renamed.

A run that is killed leaves `<target>.partial` behind, which the next run with this target removes; the target
itself is there whole or not at all. With several, all are written before the first is renamed, and the one
with the metadata comes last.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kafkapy.storage.files import File, FileSystem, release_all
from kafkapy.storage.log_directory import LOCK_FILE
from kafkapy.travel.source import PARTIAL_SUFFIX
from kafkapy.travel.travel_error import TravelError


class Target:
    """New directories; in a `with` block, whose failure removes what was written."""

    def __init__(self, paths: Sequence[Path], files: FileSystem) -> None:
        """Make the directories to write into.

        Raises:
            TravelError: a target exists, or cannot be made.
        """
        self.final = [str(path.absolute()) for path in paths]
        self._files = files
        self._locks: list[File] = []
        for path in self.final:
            if not self._is_free(path):
                raise TravelError(f"{path} exists: name a directory that is yet to be made.")
        self.paths = [path + PARTIAL_SUFFIX for path in self.final]
        """Where to write."""
        try:
            for path in self.paths:
                self._make(path)
        except OSError as error:
            self._discard()
            raise TravelError(f"{error.filename} cannot be made: {error.strerror}.") from None
        except BaseException:
            self._discard()
            raise

    def commit(self) -> None:
        """Give the directories, whose files are on disk, their names.

        Raises:
            OSError: the disk failed.
        """
        for path, final in reversed(list(zip(self.paths, self.final, strict=True))):
            self._files.sync_directory(path)
            self._files.rename(path, final)
            self._files.sync_directory(os.path.dirname(final))
        release_all(self._locks)
        self._locks.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._discard()

    def _is_free(self, path: str) -> bool:
        """Nothing is there, or an empty directory."""
        try:
            return not self._files.scan(path)
        except FileNotFoundError:
            return True
        except NotADirectoryError:
            return False

    def _make(self, path: str) -> None:
        parent = os.path.dirname(path)
        self._files.make_directories(parent)
        if self._files.exists(path):
            self._lock(path)
            self._files.remove(path)
            release_all([self._locks.pop()])
        self._files.make_directory(path)
        self._lock(path)

    def _lock(self, path: str) -> None:
        try:
            self._locks.append(self._files.lock(f"{path}/{LOCK_FILE}"))
        except BlockingIOError:
            raise TravelError(f"{path} is being written by another run: wait for that.") from None

    def _discard(self) -> None:
        """Remove what was not committed."""
        if self._locks:
            for path in self.paths[: len(self._locks)]:
                self._files.remove(path)
            release_all(self._locks)
            self._locks.clear()
