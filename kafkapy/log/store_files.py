"""The files of data directories in object stores, by fsspec.

    StoreFiles(["s3://bucket/kafkapy-data"], {"endpoint_url": "http://127.0.0.1:9000"})

A directory that no broker writes is meant: a copy, or one whose broker has stopped. Stores have neither
locks nor renames, so nothing says whether it is so. A directory is listed once, and again when the partitions
are looked for anew, or when a file turns out to be gone; files have the sizes of that listing. Only what is
asked for is fetched: a small read fetches a block around it, which grows while reads follow one another, and
a small file is fetched whole.

Crash story: a batch has a CRC, and a file that became shorter, another one, or none, is an error. What nobody
can notice is a copy whose files are of different moments: records that one file does not have yet, and the
next one no longer.

Failures of stores' libraries are of any type: missing credentials of S3 are no OSError. Here they become one,
in one line that has no secret of the storage options.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kafkapy.storage.disk.files import DirectoryEntry, File
from kafkapy.storage.offline.offline_error import LogSourceError
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles

_BLOCK: Final = 64 << 10
"""The least that is fetched of a large file."""
_LARGEST_BLOCK: Final = 4 << 20
_WHOLE: Final = 512 << 10
"""A file of at most so many bytes is fetched at once, as it takes hardly longer than a part of it."""
_HIDDEN: Final = "[hidden]"


class _Size(NamedTuple):
    st_size: int


class _Entry(NamedTuple):
    """A name in a directory of a store."""

    name: str
    path: str
    size: int
    directory: bool

    def is_dir(self) -> bool:
        return self.directory

    def is_file(self) -> bool:
        return not self.directory

    def stat(self) -> _Size:
        return _Size(self.size)


class _Root(NamedTuple):
    """A data directory: its URL, and where its store has it."""

    url: str
    store: Any
    path: str


class _StoredFile(File):
    """A file that was listed, and the block of it that was fetched last."""

    __slots__ = ("_block", "_start", "files", "path", "size")

    def __init__(self, files: StoreFiles, path: str, size: int) -> None:
        super().__init__(-1)
        self.files = files
        self.path = path
        self.size = size
        self._block = b""
        self._start = 0

    def _close(self) -> None:
        self._block = b""

    def read(self, position: int, nbytes: int) -> memoryview:
        """Return `nbytes` bytes from `position`, fewer only at the end of the file."""
        end = min(position + nbytes, self.size)
        if position >= end:
            return memoryview(b"")
        if not self._start <= position <= end <= self._start + len(self._block):
            self._fetch(position, end)
        return memoryview(self._block)[position - self._start : end - self._start]

    def _fetch(self, position: int, end: int) -> None:
        """Make the block one that has the bytes from `position` to `end`."""
        if self.size <= _WHOLE:
            start, end = 0, self.size
        elif end - position < _LARGEST_BLOCK:
            before = self._start + len(self._block)
            follows = self._block and before - _BLOCK <= position <= before + _BLOCK
            least = min(4 * len(self._block), _LARGEST_BLOCK) if follows else _BLOCK
            # Searches in an index come closer from both sides; so the block begins before the place.
            start = position if follows else position - position % _BLOCK
            end = min(max(end, start + least), self.size)
        else:
            start = position
        self._block = self.files.fetch(self.path, start, end)
        self._start = start
        if len(self._block) < end - start:
            raise OSError(errno.EIO, "it became shorter while it was read; read it again", self.path)


class StoreFiles(ReadOnlyFiles):
    """Reads files of object stores; every other operation raises OSError (EROFS).

    It may be used by several threads.
    """

    def __init__(self, urls: Iterable[str], storage_options: Mapping[str, Any]) -> None:
        """Reach the stores of data directories.

        Args:
            storage_options: what fsspec's file system of the store takes, as pandas and Polars pass it on.

        Raises:
            LogSourceError: fsspec or the package of the store is missing, or does not take these options.
        """
        self._secrets = sorted(_texts(storage_options), key=len, reverse=True)
        self._roots = [self._root(url, storage_options) for url in urls]
        self._listings: dict[str, dict[str, _Entry]] = {}

    def _root(self, url: str, storage_options: Mapping[str, Any]) -> _Root:
        try:
            import fsspec
        except ModuleNotFoundError:
            raise LogSourceError(
                f"{url}: fsspec is not installed: pip install '.[backup]' in a checkout, and the package of "
                f"the store, such as s3fs."
            ) from None
        try:
            store, path = fsspec.core.url_to_fs(url, **storage_options)
        except ImportError as error:
            raise LogSourceError(f"{url}: a package is missing: {self._line(error)}.") from None
        except Exception as error:
            raise LogSourceError(
                f"{url} cannot be opened: {self._line(error)}. Name a URL that fsspec knows, and the storage "
                f"options of its file system."
            ) from None
        return _Root(url, store, path.rstrip("/"))

    def _placed(self, path: str) -> tuple[_Root, str]:
        """Return the root that a path is below, and where its store has it."""
        for root in self._roots:
            rest = path.removeprefix(root.url)
            if len(rest) < len(path) and (not rest or rest[0] == "/"):
                rest = rest.strip("/")
                return root, f"{root.path}/{rest}" if rest else root.path
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    # --- names ----------------------------------------------------------------------------------------------

    def scan(self, path: str) -> Sequence[DirectoryEntry]:
        if path in {root.url for root in self._roots}:
            for known in [each for each in self._listings if each.startswith(path)]:
                self._listings.pop(known, None)
        return list(self._listing(path).values())

    def _listing(self, path: str) -> dict[str, _Entry]:
        found = self._listings.get(path)
        if found is None:
            try:
                found = self._listings[path] = self._list(path)
            except FileNotFoundError:
                self._forget(path)
                raise
        return found

    def _forget(self, path: str) -> None:
        """Have the directory listed again of what is not there any more."""
        self._listings.pop(path.rpartition("/")[0], None)

    def _list(self, path: str) -> dict[str, _Entry]:
        root, place = self._placed(path)
        with self._asked(path):
            root.store.invalidate_cache(place)
            listed = root.store.ls(place or "/", detail=True)
        entries = {}
        for each in listed:
            where = each["name"].rstrip("/")
            if where.strip("/") == place.strip("/"):
                if each["type"] == "file" and len(listed) == 1:
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
                continue  # the mark that some tools leave for a directory
            name = where.rpartition("/")[2]
            size = int(each.get("size") or 0)
            entries[name] = _Entry(name, f"{path}/{name}", size, each["type"] == "directory")
        return entries

    def _entry(self, path: str) -> _Entry:
        folder, _, name = path.rpartition("/")
        entry = self._listing(folder).get(name)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return entry

    def exists(self, path: str) -> bool:
        try:
            self._entry(path)
        except FileNotFoundError:
            return False
        return True

    def size(self, path: str) -> int:
        """Return the size of a file; of a directory, only whether it is there."""
        if path in self._listings:
            return 0
        return self._entry(path).size

    # --- content --------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file that was listed; `create` is ignored."""
        try:
            return _StoredFile(self, path, self._entry(path).size)
        except FileNotFoundError:
            self._forget(path)
            raise

    def size_of(self, file: File) -> int:
        return _stored(file).size

    def read(self, path: str) -> bytes:
        return bytes(_StoredFile(self, path, size := self._entry(path).size).read(0, size))

    def read_at(self, file: File, nbytes: int, position: int) -> bytes:
        return bytes(_stored(file).read(position, nbytes))

    def read_into(self, file: File, buffer: memoryview, position: int) -> int:
        data = _stored(file).read(position, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def fetch(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes of a file from `start` to `end`.

        Raises:
            FileNotFoundError: it is gone; its directory will be listed again.
        """
        root, place = self._placed(path)
        try:
            with self._asked(path):
                data: bytes = root.store.cat_file(place, start=start, end=end)
        except FileNotFoundError:
            self._forget(path)
            raise
        return data

    # --- failures -------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _asked(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
        except NotADirectoryError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None
        except Exception as error:
            why = self._line(error)
            if isinstance(error, PermissionError) or "credential" in why.lower():
                why += (
                    "; give credentials that may list and read it, as storage options or in the environment"
                )
            code = error.errno if isinstance(error, OSError) else None
            raise OSError(code or errno.EIO, why, path) from None

    def _line(self, error: Exception) -> str:
        """Return what an error says, in one line and without a secret."""
        text = str(error.strerror or error) if isinstance(error, OSError) else str(error)
        why = " ".join(text.split()) or type(error).__name__
        for secret in self._secrets:
            why = why.replace(secret, _HIDDEN)
        return why.rstrip(".")


def _stored(file: File) -> _StoredFile:
    assert isinstance(file, _StoredFile)
    return file


def _texts(options: object) -> Iterator[str]:
    """Yield the texts in storage options that a message must not show; addresses may be shown."""
    if isinstance(options, Mapping):
        for each in options.values():
            yield from _texts(each)
    elif isinstance(options, str) and len(options) > 3 and "://" not in options:
        yield options
