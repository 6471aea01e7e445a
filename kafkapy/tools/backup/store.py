"""Where backups are: a directory, or an object store by fsspec."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol

from kafkapy.errors import UserError
from kafkapy.storage.disk.files import FileSystem

FILES: Final = "files"
"""The folder of a store that has the content of files."""


class BackupError(UserError):
    """A backup cannot be made or restored; the message says why, in one line."""


class Store(Protocol):
    """Files by their names, which have slashes."""

    def has(self, name: str, size: int) -> bool:
        """Whether there is a file of this size; of an interrupted `put` there may be less."""

    def put(self, name: str, source: Path) -> None:
        """Bring a file, so that it is there in full or not at all."""

    def get(self, name: str, target: Path) -> None:
        """Fetch a file."""

    def write(self, name: str, data: bytes) -> None:
        """Bring a small file, so that it is there in full or not at all."""

    def read(self, name: str) -> bytes:
        """Fetch a small file."""

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, without it, in order."""

    def remove(self, name: str) -> None:
        """Remove a file; it is no error if it is gone already."""

    def contents(self) -> Iterator[tuple[str, int]]:
        """The names and sizes of all files in FILES, with what an interrupted `put` has left."""

    def sync(self) -> None:
        """Have all that is there on disk, so that a power cut does not undo it."""


def open_store(place: str) -> Store:
    """The store at a path or a URL.

    Raises:
        BackupError: the place is empty; fsspec is not installed, or does not know the URL.
    """
    if not place:
        raise BackupError("the place of the backups is empty: name a directory or the URL of an object store")
    folder = folder_of(place)
    return _Objects(place) if folder is None else _Folder(folder)


def folder_of(place: str) -> Path | None:
    """The directory at a path or a URL; None if an object store is there."""
    place = place.removeprefix("file://")
    return None if "://" in place else Path(place)


class _Folder:
    """A directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def has(self, name: str, size: int) -> bool:
        path = self._path / name
        return path.is_file() and path.stat().st_size == size

    def put(self, name: str, source: Path) -> None:
        with source.open("rb") as reading:
            self._place(name, lambda writing: shutil.copyfileobj(reading, writing, 1 << 20))

    def get(self, name: str, target: Path) -> None:
        shutil.copyfile(self._path / name, target)

    def write(self, name: str, data: bytes) -> None:
        self._place(name, lambda writing: writing.write(data))

    def read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()

    def names(self, folder: str) -> list[str]:
        path = self._path / folder
        return sorted(os.listdir(path)) if path.is_dir() else []

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)

    def contents(self) -> Iterator[tuple[str, int]]:
        for path in sorted((self._path / FILES).glob("*/*")):
            if path.is_file():
                yield str(path.relative_to(self._path)), path.stat().st_size

    def sync(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        FileSystem().sync_all(str(self._path))

    def _place(self, name: str, fill: Any) -> None:
        path = self._path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.tmp-{os.urandom(8).hex()}")
        try:
            with temporary.open("wb") as writing:
                fill(writing)
                writing.flush()
                os.fsync(writing.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


class _Objects:
    """An object store, which shows an object when all of it was written."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ModuleNotFoundError:
            raise BackupError(
                f"{url}: fsspec is not installed: pip install '.[backup]' in a checkout"
            ) from None
        self._url = url
        with self._asked():
            self._files, root = fsspec.core.url_to_fs(url)
        self._root = root.rstrip("/")

    def has(self, name: str, size: int) -> bool:
        try:
            with self._asked():
                return bool(self._files.size(self._of(name)) == size)
        except FileNotFoundError:
            return False

    def put(self, name: str, source: Path) -> None:
        with self._asked():
            self._files.makedirs(self._of(name).rpartition("/")[0], exist_ok=True)
            self._files.put_file(str(source), self._of(name))

    def get(self, name: str, target: Path) -> None:
        with self._asked():
            self._files.get_file(self._of(name), str(target))

    def write(self, name: str, data: bytes) -> None:
        with self._asked():
            self._files.makedirs(self._of(name).rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(self._of(name), data)

    def read(self, name: str) -> bytes:
        with self._asked():
            data: bytes = self._files.cat_file(self._of(name))
        return data

    def names(self, folder: str) -> list[str]:
        try:
            with self._asked():
                self._files.invalidate_cache()  # others write to it too
                found = self._files.ls(self._of(folder), detail=False)
        except FileNotFoundError:
            return []
        return sorted(each.rstrip("/").rpartition("/")[2] for each in found)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._asked():
            self._files.rm_file(self._of(name))

    def contents(self) -> Iterator[tuple[str, int]]:
        with self._asked():
            self._files.invalidate_cache()
            contents = self._files.find(self._of(FILES), detail=True)
        for path, found in contents.items():
            yield f"{FILES}/{path.rpartition(f'/{FILES}/')[2]}", int(found["size"])

    def sync(self) -> None:
        """What an object store has acknowledged is kept."""

    def _of(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextlib.contextmanager
    def _asked(self) -> Iterator[None]:
        """Failures of stores' libraries are of any type: missing credentials of S3 are no OSError."""
        try:
            yield
        except OSError:
            raise
        except Exception as error:
            why = " ".join(str(error).split()) or repr(error)
            raise BackupError(f"{self._url} cannot be used: {why}") from error
