"""What the two index files of a segment have in common: sorted entries of one fixed size, found by binary
search.

The file of the active segment is preallocated (a hole) to the largest multiple of the entry size within
`segment.index.bytes`, on the first append, and trimmed to its entries when the segment is rolled or closed,
as Apache Kafka's AbstractIndex does. So the length of a file that was not closed cleanly says nothing about
its entries; it is then rebuilt from the segment, never trusted. There is no checksum.

The file is opened on first use, and may be closed at any time between two uses. That of a new segment is made
on first use too, or when the segment is closed: making files is what creating a partition costs, and many
partitions are never written.
"""

from __future__ import annotations

from kafkapy.storage.files import File, FileSystem

_PAGE = 4096
"""Below this many bytes the rest of a search is one read."""

_WARM = 8192
"""The end of the index in which a search is tried first: consumers near the end of the log look there."""


class CorruptIndexError(ValueError):
    """The index file cannot be what was written; rebuild it from the segment."""


class IndexFile:
    """Entries of `entry_size` bytes. `entries` is -1 until the file was looked at (`load`)."""

    __slots__ = (
        "_file",
        "_files",
        "_missing",
        "_pending",
        "_preallocated",
        "base_offset",
        "entries",
        "max_entries",
        "path",
        "used",
    )

    entry_size: int

    def __init__(self, files: FileSystem, path: str, base_offset: int, max_bytes: int, *, new: bool) -> None:
        self._files = files
        self._file: File | None = None
        self._missing = new
        self._preallocated = False
        self._pending: bytearray | None = None
        """Entries of an index that is being rebuilt, to be written in one go."""
        self.used = False
        self.path = path
        self.base_offset = base_offset
        self.max_entries = max_bytes // self.entry_size
        self.entries = 0 if new else -1

    def _open(self) -> File:
        if self._pending is not None:
            self._write_pending()
        file = self._file
        if file is None:
            file = self._file = self._files.open(self.path, create=self._missing)
            self._missing = False
            self._files.open_files.opened(self)
        self.used = True
        return file

    def make(self) -> None:
        """Make the file if that was put off."""
        if self._missing:
            self._files.create(self.path)
            self._missing = False

    def load(self) -> None:
        """Learn the number of entries and the last of them from the file.

        Raises:
            CorruptIndexError: the file cannot be right.
            FileNotFoundError: it is missing.
        """
        size = self._files.size(self.path)
        if size % self.entry_size:
            raise CorruptIndexError(f"{self.path} has {size} bytes, no multiple of {self.entry_size}")
        self.entries = size // self.entry_size
        self._loaded()

    def load_while_written(self) -> None:
        """As `load`, of a file that another process may be writing: the zeros behind its entries are none.

        Raises:
            CorruptIndexError: the file cannot be right.
            FileNotFoundError: it is missing.
        """
        low, high = 0, self._files.size(self.path) // self.entry_size
        while low < high:
            middle = (low + high) // 2
            if any(self._read(middle)):
                low = middle + 1
            else:
                high = middle
        self.entries = low
        self._loaded()

    def do_without(self) -> None:
        """Take the file for one without entries."""
        self.entries = 0
        self._loaded()

    def _loaded(self) -> None:
        """Remember the last entry; it must fit the index."""
        raise NotImplementedError

    def _read(self, slot: int, count: int = 1) -> bytes:
        size = self.entry_size
        data = self._files.read_at(self._open(), count * size, slot * size)
        if len(data) != count * size:
            raise CorruptIndexError(f"{self.path} ends before entry {slot + count}")
        return data

    def _write_pending(self) -> None:
        pending, self._pending = self._pending, None
        if pending:
            at = self.entries * self.entry_size - len(pending)
            self._files.write_at(self._open(), [pending], at)

    def _append(self, entry: bytes) -> None:
        """Write one entry behind the last."""
        if self._pending is not None:
            self._pending += entry
            self.entries += 1
            return
        file = self._open()
        if not self._preallocated:
            self._files.truncate(file, self.max_entries * self.entry_size)
            self._preallocated = True
        self._files.write_at(file, [entry], self.entries * self.entry_size)
        self.entries += 1

    def _floor(self, target: int, start: int, end: int) -> int:
        """The last slot whose field in bytes `start` to `end` of the entry is at most `target`; -1 without
        any."""
        size = self.entry_size
        low, high = 0, self.entries
        middle = max(high - _WARM // size, high // 2)
        while (high - low) * size > _PAGE:
            if int.from_bytes(self._read(middle)[start:end], "big", signed=True) <= target:
                low = middle
            else:
                high = middle
            middle = (low + high) // 2
        data = self._read(low, high - low) if high > low else b""
        first = low
        while low < high:
            middle = (low + high) // 2
            at = (middle - first) * size
            if int.from_bytes(data[at + start : at + end], "big", signed=True) <= target:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _truncate_entries(self, entries: int) -> None:
        """Keep the first `entries`."""
        self.entries = entries
        self._loaded()

    def reset(self) -> None:
        """Forget all entries, to be collected anew; make the file if it is missing.

        What is appended from now on is written when the file is next needed for anything else.
        """
        self._pending = None
        self.close()
        self._files.create(self.path)
        self._missing = self._preallocated = False
        self.entries = 0
        self._loaded()
        self._pending = bytearray()

    def forget(self) -> None:
        """Have no file, and no entries that are known: it is to be rebuilt."""
        self._pending = None
        self.close()
        self._files.unlink(self.path)
        self._preallocated = False
        self.entries = -1

    def trim(self) -> None:
        """Cut the file behind its last entry."""
        if self._preallocated:
            self._files.truncate(self._open(), self.entries * self.entry_size)
            self._preallocated = False

    def truncate_file(self) -> None:
        """Cut the file behind its last entry, whatever its length is."""
        self._files.truncate(self._open(), self.entries * self.entry_size)
        self._preallocated = False

    def flush_handle(self) -> File:
        """The file, with a reference that the caller releases after syncing it."""
        return self._open().acquire()

    def close(self) -> None:
        """Close the file; it opens again on use."""
        if self._pending is not None:
            self._write_pending()
        if self._file is not None:
            self._files.open_files.closed(self)
            self.close_file()

    def close_file(self) -> File | None:
        """Release the open file, and return it (open_files.py)."""
        file = self._file
        if file is not None:
            self._file = None
            file.release()
        return file
