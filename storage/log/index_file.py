"""The index files of a segment: sorted entries of a fixed size, found by binary search.

This is the base of the offset index and the time index.

The file of the active segment is preallocated (a hole) to the largest multiple of the entry size within
`segment.index.bytes`, on the first append. It is trimmed to its entries when the segment is rolled or closed,
as Apache Kafka's AbstractIndex does. So the length of a file that was not closed cleanly says nothing about
its entries: the index is then rebuilt from the segment. There is no checksum. Damage is noticed by the size
of the file, by entries that do not rise, or when an entry is followed (`Segment.lookup`).

Entries are collected and written together, by `write` or before any other use of the file.

The file is opened on first use, and may be closed at any time between two uses. The file of a new segment is
created on first use too, or when the segment is closed: creating files is the main cost of a new partition,
and many partitions are never written.
"""

from __future__ import annotations

from operator import le, lt
from struct import Struct
from typing import Final

from kafkapy.storage.disk.files import PAGE, File, FileSystem

"""A search reads the rest of its range at once when it has at most this many bytes."""

_WARM = 8192
"""The bytes at the end of the index that a search tries first.

Consumers near the end of the log find their entries there.
"""


_CHECKED_AT_ONCE: Final = 4096
"""The entries whose order is checked at once: other threads get their turn in between."""


class CorruptIndexError(ValueError):
    """The index file is damaged.

    Rebuild it from the segment.
    """


class IndexFile:
    """Entries of `entry_size` bytes.

    `entries` is -1 until the file is loaded (`load`).
    """

    __slots__ = (
        "_before",
        "_file",
        "_files",
        "_missing",
        "_preallocated",
        "_unwritten",
        "base_offset",
        "entries",
        "max_entries",
        "path",
        "used",
    )

    layout: Struct
    """The two fields of an entry."""
    entry_size: int
    below_all: tuple[int, int]
    """Fields from which those of every entry rise."""
    second_may_stay: bool
    """Whether two entries may have the same second field."""

    def __init__(self, files: FileSystem, path: str, base_offset: int, max_bytes: int, *, new: bool) -> None:
        self._files = files
        self._file: File | None = None
        self._missing = new
        self._preallocated = False
        self._unwritten = bytearray()
        """The last entries, which are not written yet."""
        self._before: tuple[int, int, int] | None = None
        """The number of entries, and the fields of the last one, at the last `keep`."""
        self.used = False
        self.path = path
        self.base_offset = base_offset
        self.max_entries = max_bytes // self.entry_size
        self.entries = 0 if new else -1

    def _open(self) -> File:
        if self._unwritten:
            self._write_unwritten()
        return self._handle()

    def _handle(self) -> File:
        file = self._file
        if file is None:
            file = self._file = self._files.open(self.path, create=self._missing)
            self._missing = False
            self._files.open_files.opened(self)
        self.used = True
        return file

    def make(self) -> None:
        """Create the file, if it does not exist yet."""
        if self._missing:
            self._files.create(self.path)
            self._missing = False

    @property
    def file_size(self) -> int:
        """The bytes of the file, also those that are no entries yet."""
        return self._files.size(self.path)

    def load(self) -> None:
        """Read the number of entries and the last of them from the file.

        Raises:
            CorruptIndexError: the file cannot be right.
            FileNotFoundError: it is missing.
        """
        size = self.file_size
        if size % self.entry_size:
            raise CorruptIndexError(f"{self.path} has {size} bytes, no multiple of {self.entry_size}")
        self.entries = size // self.entry_size
        try:
            self._loaded()
        except BaseException:
            self.entries = -1  # it is not loaded
            raise

    def load_while_written(self) -> None:
        """Load a file that is preallocated and may be written meanwhile; zeros are not entries.

        Raises:
            CorruptIndexError: the file cannot be right.
            FileNotFoundError: it is missing.
        """
        low, high = 0, self.file_size // self.entry_size
        while low < high:
            middle = (low + high) // 2
            if any(self._read(middle)):
                low = middle + 1
            else:
                high = middle
        self.entries = low
        self._loaded()

    def check_order(self) -> None:
        """Check that the entries of a loaded file rise; otherwise a search finds any of them.

        This reads the file, and takes some 20 ms for a megabyte.

        Raises:
            CorruptIndexError: they do not rise.
        """
        last, second_rises = self.below_all, le if self.second_may_stay else lt
        for slot in range(0, self.entries, _CHECKED_AT_ONCE):
            data = self._read(slot, min(_CHECKED_AT_ONCE, self.entries - slot))
            first, second = zip(last, *self.layout.iter_unpack(data), strict=True)
            if not (all(map(lt, first, first[1:])) and all(map(second_rises, second, second[1:]))):
                rises = zip(map(lt, first, first[1:]), map(second_rises, second, second[1:]), strict=True)
                wrong = slot + [all(both) for both in rises].index(False)
                raise CorruptIndexError(f"{self.path} has an entry ({wrong}) that does not rise")
            last = first[-1], second[-1]

    def learn(self, other: IndexFile) -> None:
        """Learn from `other`, which has loaded the same file, what is in it."""
        self.entries = other.entries
        self._set_last(*other._last())

    def take(self, other: IndexFile) -> None:
        """Put the file of `other`, which is closed, in the place of this one."""
        self.forget_unwritten()
        self.close()
        self._files.rename(other.path, self.path)
        self._missing = self._preallocated = False
        self.learn(other)

    def do_without(self) -> None:
        """Treat the file as if it had no entries."""
        self.entries = 0
        self._loaded()

    def _loaded(self) -> None:
        """Remember the last entry; it must fit the index."""
        raise NotImplementedError

    def _last(self) -> tuple[int, int]:
        """The remembered fields of the last entry."""
        raise NotImplementedError

    def _set_last(self, one: int, other: int) -> None:
        """Remember the fields of the last entry."""
        raise NotImplementedError

    def _read(self, slot: int, count: int = 1) -> bytes:
        size = self.entry_size
        data = self._files.read_at(self._open(), count * size, slot * size)
        if len(data) != count * size:
            raise CorruptIndexError(f"{self.path} ends before entry {slot + count}")
        return data

    def _write_unwritten(self) -> None:
        at = self.entries * self.entry_size - len(self._unwritten)
        self._files.write_at(self._handle(), [self._unwritten], at)
        self._unwritten = bytearray()

    def _append(self, entry: bytes) -> None:
        """Add an entry after the last."""
        if self._before is None:
            self._before = (self.entries, *self._last())
        self._unwritten += entry
        self.entries += 1

    def write(self) -> None:
        """Write the appended entries; preallocate the file first, if it is not."""
        if self._unwritten:
            if not self._preallocated:
                self._files.truncate(self._handle(), self.max_entries * self.entry_size)
                self._preallocated = True
            self._write_unwritten()

    def keep(self) -> None:
        """Keep the appended entries: `take_back` no longer removes them."""
        self._before = None

    def take_back(self) -> None:
        """Remove the entries appended since the last `keep`, written or not, without a read."""
        if self._before is not None:
            self.entries, *last = self._before
            self._set_last(*last)
            self.forget_unwritten()

    def _floor(self, target: int, start: int, end: int) -> int:
        """The last slot whose field in bytes `start` to `end` is at most `target`; -1 if none is."""
        size = self.entry_size
        low, high = 0, self.entries
        middle = max(high - _WARM // size, high // 2)
        while (high - low) * size > PAGE:
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
        self.keep()
        self.entries = entries
        self._loaded()

    def reset(self) -> None:
        """Remove all entries, to collect them again; create the file if it is missing."""
        self.forget_unwritten()
        self.close()
        self._files.create(self.path)
        self._missing = self._preallocated = False
        self.entries = 0
        self._loaded()

    def forget_unwritten(self) -> None:
        """Drop the entries that are not written.

        `entries` still counts them.
        """
        self._unwritten = bytearray()
        self._before = None

    def forget(self) -> None:
        """Delete the file and forget the entries: the index has to be rebuilt."""
        self.forget_unwritten()
        self.close()
        self._files.unlink(self.path)
        self._preallocated = False
        self.entries = -1

    def trim(self) -> None:
        """Write pending entries, and trim the preallocated space."""
        if self._unwritten or self._preallocated:
            self._files.truncate(self._open(), self.entries * self.entry_size)
            self._preallocated = False
            self.keep()

    def truncate_file(self) -> None:
        """Truncate the file after its last entry, even if it is not preallocated."""
        self._files.truncate(self._open(), self.entries * self.entry_size)
        self._preallocated = False
        self.keep()

    def flush_handle(self) -> File:
        """The file, with a reference that the caller releases after syncing it."""
        return self._open().acquire()

    def close(self) -> None:
        """Close the file; it opens again on use."""
        if self._unwritten:
            self._write_unwritten()
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
