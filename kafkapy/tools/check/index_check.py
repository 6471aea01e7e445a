"""The indexes of a segment, compared with its batches while these are read.

An offset index is right if a search for any offset starts at or before the batch that has it. So each entry
must point to the start of a batch whose first offset is at most the entry's, and offsets and positions must
rise. A time index is right if the timestamp of each entry is that of the newest record up to the entry's
offset. Indexes may be sparse.

A broker writes a batch before its index entries. So the indexes are read before their segment, and entries
that a running broker adds meanwhile cannot contradict it.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from dataclasses import dataclass

from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.index_file import CorruptIndexError, IndexFile
from kafkapy.storage.log.offset_index import OffsetIndex
from kafkapy.storage.log.time_index import NO_TIMESTAMP, TimeIndex


@dataclass(frozen=True, slots=True)
class IndexProblem:
    """A problem of an index.

    If `seen_by_broker`, a broker notices the problem and rebuilds the index.
    """

    what: str
    position: int | None = None
    """The byte of the index file where the entry begins."""
    seen_by_broker: bool = False
    target: int | None = None
    """The byte of the segment to which the entry points."""


_ATTEMPTS = 3
"""How often an index is read at most, since a broker may be trimming it."""

_OFFSET_ENTRY = struct.Struct("!ii")
_TIME_ENTRY = struct.Struct("!qi")


def _entries(
    files: FileSystem, index: IndexFile, layout: struct.Struct, *, being_written: bool
) -> list[tuple[int, int]]:
    """Return the fields of each entry, in one read.

    Raises:
        CorruptIndexError: a broker that opens the file would rebuild it.
        FileNotFoundError: the file is missing.
    """
    attempt = 1
    while True:
        try:
            if being_written:
                index.load_while_written()
            else:
                index.load()
            break
        except CorruptIndexError:
            if attempt == _ATTEMPTS or not being_written:
                raise
            attempt += 1
    data = memoryview(files.read(index.path))
    return list(layout.iter_unpack(data[: min(index.entries, len(data) // layout.size) * layout.size]))


def _readable(
    files: FileSystem,
    index: IndexFile,
    layout: struct.Struct,
    problems: list[IndexProblem],
    *,
    being_written: bool,
) -> list[tuple[int, int]] | None:
    """Return the entries, or None if there is no file.

    If the index is corrupt, return no entries and add a problem to `problems`.
    """
    try:
        return _entries(files, index, layout, being_written=being_written)
    except FileNotFoundError:
        return None
    except CorruptIndexError as error:
        problems.append(IndexProblem(str(error).removeprefix(f"{index.path} "), seen_by_broker=True))
        return []
    finally:
        index.close()


class OffsetIndexCheck:
    """Compares the entries of an offset index with the batches."""

    def __init__(self, files: FileSystem, path: str, base_offset: int, *, being_written: bool) -> None:
        """Read the entries; if `being_written`, zeros after them are free space."""
        self.problems: list[IndexProblem] = []
        self._base_offset = base_offset
        self._offsets: dict[int, int] = {}
        self._positions: list[int] = []
        index = OffsetIndex(files, path, base_offset, 0, new=False)
        entries = _readable(files, index, _OFFSET_ENTRY, self.problems, being_written=being_written)
        self.missing = entries is None
        self._last_slot = len(entries or []) - 1
        self._take(entries or [])
        self._left = dict(self._offsets)
        self._last_is_known = bool(self._positions)

    def _take(self, entries: list[tuple[int, int]]) -> None:
        last_offset, last_position = self._base_offset - 1, 0
        for slot, (relative, position) in enumerate(entries):
            offset = self._base_offset + relative
            if offset <= last_offset or position <= last_position:
                what = (
                    f"entry {slot} (offset {offset}, byte {position}) does not rise above the one before it"
                )
                self.problems.append(IndexProblem(what, slot * OffsetIndex.entry_size, seen_by_broker=True))
                return
            self._offsets[position] = offset
            self._positions.append(position)
            last_offset, last_position = offset, position

    def batch(self, position: int, first_offset: int, last_offset: int) -> None:
        """Compare the index with the next good batch, which begins at `position`."""
        offset = self._left.pop(position, None)
        if offset is not None and offset < first_offset:
            slot = self._positions.index(position)
            what = (
                f"entry {slot} says offset {offset} for byte {position}, where offset {first_offset} begins"
            )
            self.problems.append(IndexProblem(what, slot * OffsetIndex.entry_size, target=position))

    def hole(self, start: int, end: int) -> None:
        """Ignore entries that point from byte `start` to `end`, which cannot be read."""
        for position in self._positions[
            bisect_left(self._positions, start) : bisect_left(self._positions, end)
        ]:
            self._left.pop(position, None)
            self._last_is_known &= position != self._positions[-1]
        self.problems = [
            each for each in self.problems if each.target is None or not start <= each.target < end
        ]

    def finish(self, size: int, next_offset: int) -> list[IndexProblem]:
        """Return what is wrong after the segment was read to byte `size` and offset `next_offset`."""
        for position, offset in self._left.items():
            slot = self._positions.index(position)
            last = slot == self._last_slot
            beyond = position >= size
            where = "after the end of the segment" if beyond else "where no batch begins"
            self.problems.append(
                IndexProblem(
                    f"entry {slot} (offset {offset}) points to byte {position}, {where}",
                    slot * OffsetIndex.entry_size,
                    seen_by_broker=beyond and last,
                )
            )
        if (
            not self._left
            and self._last_is_known
            and (end := self._offsets[self._positions[-1]]) >= next_offset
        ):
            what = f"the last entry has offset {end}, the segment ends at offset {next_offset}"
            self.problems.append(IndexProblem(what))
        return self.problems


class TimeIndexCheck:
    """Compares the entries of a time index with the batches up to their offsets."""

    def __init__(self, files: FileSystem, path: str, base_offset: int, *, being_written: bool) -> None:
        self.problems: list[IndexProblem] = []
        self._base_offset = base_offset
        self._entries: list[tuple[int, int]] = []
        self._at = 0
        self._newest = NO_TIMESTAMP
        self._known = True
        index = TimeIndex(files, path, base_offset, 0, new=False)
        entries = _readable(files, index, _TIME_ENTRY, self.problems, being_written=being_written)
        self.missing = entries is None
        self._take(entries or [])

    def _take(self, entries: list[tuple[int, int]]) -> None:
        last_timestamp, last_offset = NO_TIMESTAMP, self._base_offset
        for slot, (timestamp, relative) in enumerate(entries):
            offset = self._base_offset + relative
            if (timestamp <= last_timestamp and slot) or offset < last_offset:
                what = (
                    f"entry {slot} (timestamp {timestamp}, offset {offset}) does not rise above the last one"
                )
                self.problems.append(IndexProblem(what, slot * TimeIndex.entry_size, seen_by_broker=True))
                return
            self._entries.append((timestamp, offset))
            last_timestamp, last_offset = timestamp, offset

    def batch(self, first_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Compare the index with the next good batch."""
        if self._at < len(self._entries):
            self._meet(first_offset, last_offset, max_timestamp)
        if max_timestamp > self._newest:
            self._newest = max_timestamp

    def _meet(self, first_offset: int, last_offset: int, max_timestamp: int) -> None:
        entries = self._entries
        while self._at < len(entries) and entries[self._at][1] <= last_offset:
            timestamp, offset = entries[self._at]
            # An entry may name a record inside a batch: the records after that one may be newer.
            below = max(self._newest, max_timestamp if last_offset <= offset else NO_TIMESTAMP)
            including = max(self._newest, max_timestamp if first_offset <= offset else NO_TIMESTAMP)
            if self._known and not below <= timestamp <= including:
                newest = below if below > timestamp else including
                said = f"timestamp {timestamp} is the newest up to offset {offset}"
                what = f"entry {self._at} says that {said}: it is {newest}"
                self.problems.append(IndexProblem(what, self._at * TimeIndex.entry_size))
            self._at += 1

    def bad_batch(self) -> None:
        """Ignore entries from here on, because the timestamps of a batch are unknown."""
        self._known = False

    def finish(self, next_offset: int) -> list[IndexProblem]:
        """Return what is wrong after the segment was read to offset `next_offset`."""
        if self._known and self._at < len(self._entries):
            _, offset = self._entries[self._at]
            if offset >= next_offset:
                what = f"entry {self._at} has offset {offset}, the segment ends at offset {next_offset}"
                self.problems.append(IndexProblem(what, self._at * TimeIndex.entry_size))
        return self.problems
