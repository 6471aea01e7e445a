"""The directories that an export or import makes: first `<target>.partial`, then renamed.

A run that is killed leaves `<target>.partial`. The next run with this target removes it, if the text in its
`.lock` shows that an export or import wrote it. So a target is complete or does not exist. Several targets
are all written before the first is renamed; the one with the metadata is renamed last.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kafkapy.storage.disk.files import File, FileSystem, release_all
from kafkapy.storage.disk.log_directory import LOCK_FILE
from kafkapy.tools.migrate.migration_error import MigrationError
from kafkapy.tools.migrate.source import PARTIAL_SUFFIX

_MARK: Final = b"written by kafkapy export or import\n"
"""The text in `.lock`; brokers do not read it."""


class Target:
    """New directories, for a `with` block; if it ends without `commit`, they are removed."""

    def __init__(self, paths: Sequence[Path], files: FileSystem) -> None:
        """Make the partial directories.

        Raises:
            MigrationError: a target exists, or cannot be made.
        """
        self.final = [str(path.absolute()) for path in paths]
        self._files = files
        self._locks: list[File] = []
        for path in self.final:
            if not self._is_free(path):
                raise MigrationError(f"{path} exists: name a directory that does not exist yet.")
        self.paths = [path + PARTIAL_SUFFIX for path in self.final]
        """The partial directories, to write into."""
        try:
            for path in self.paths:
                self._make(path)
        except OSError as error:
            self._discard()
            raise MigrationError(f"{error.filename} cannot be made: {error.strerror}.") from None
        except BaseException:
            self._discard()
            raise

    def commit(self) -> None:
        """Rename the directories; their files must be on disk.

        Raises:
            OSError: the disk failed.
        """
        for path, final in reversed(list(zip(self.paths, self.final, strict=True))):
            self._files.sync_directory(path)
            self._files.rename(path, final)
            self._files.sync_directory(os.path.dirname(final))
        with contextlib.suppress(OSError):  # the text does no harm
            for lock in self._locks:
                self._files.truncate(lock, 0)
        release_all(self._locks)
        self._locks.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._discard()

    def _is_free(self, path: str) -> bool:
        """Return whether nothing, or an empty directory, has the path."""
        try:
            return not self._files.scan(path)
        except FileNotFoundError:
            return True
        except NotADirectoryError:
            return False
        except OSError as error:
            raise MigrationError(f"{path} cannot be made: {error.strerror}.") from None

    def _make(self, path: str) -> None:
        parent = os.path.dirname(path)
        self._files.make_directories(parent)
        if self._files.exists(path):
            if not self._is_ours(path):
                raise MigrationError(f"{path} is in the way, and no earlier run wrote it: move it away.")
            self._lock(path)
            self._files.remove(path)
            release_all([self._locks.pop()])
        self._files.make_directory(path)
        self._lock(path)
        self._files.write_at(self._locks[-1], [_MARK], 0)

    def _is_ours(self, path: str) -> bool:
        """Return whether an earlier run made it; a killed run may have written nothing into it."""
        try:
            names = {entry.name for entry in self._files.scan(path)}
        except NotADirectoryError:
            return False
        mark = self._files.read(f"{path}/{LOCK_FILE}") if LOCK_FILE in names else b""
        return mark == _MARK or (not mark and names <= {LOCK_FILE})

    def _lock(self, path: str) -> None:
        try:
            self._locks.append(self._files.lock(f"{path}/{LOCK_FILE}"))
        except BlockingIOError:
            raise MigrationError(f"Another run is writing {path}: wait until it ends.") from None

    def _discard(self) -> None:
        """Remove what was not committed."""
        if self._locks:
            for path in self.paths[: len(self._locks)]:
                self._files.remove(path)
            release_all(self._locks)
            self._locks.clear()
