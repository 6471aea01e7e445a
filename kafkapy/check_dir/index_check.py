"""The indexes of a segment, held against its batches while those are read.

An offset index is right when a search for any offset starts at or before the batch that has it: each entry
points to where a batch begins whose first offset is at most the entry's, and both rise. A time index is right
when no record up to an entry's offset is newer than its timestamp, and one is that new. They may be sparse.

Indexes are read before the segment, whose batches are written first: so what a running broker adds meanwhile
is no contradiction.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from dataclasses import dataclass

from kafkapy.log_source.read_only_files import ReadOnlyFiles
from kafkapy.storage.index_file import CorruptIndexError, IndexFile
from kafkapy.storage.offset_index import OffsetIndex
from kafkapy.storage.time_index import NO_TIMESTAMP, TimeIndex


@dataclass(frozen=True, slots=True)
class IndexProblem:
    """What is wrong with an index. `seen_by_broker`: it notices, and writes the index anew."""

    what: str
    position: int | None = None
    """Of the entry."""
    seen_by_broker: bool = False
    target: int | None = None
    """The byte of the segment that the entry points to."""


_ATTEMPTS = 3
"""At an index that a broker may trim just then."""

_OFFSET_ENTRY = struct.Struct("!ii")
_TIME_ENTRY = struct.Struct("!qi")


def _entries(
    files: ReadOnlyFiles, index: IndexFile, layout: struct.Struct, *, being_written: bool
) -> list[tuple[int, int]]:
    """The fields of each entry, read at once.

    Raises:
        CorruptIndexError: the broker that opens the file would write it anew.
        FileNotFoundError: it is missing.
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
    files: ReadOnlyFiles,
    index: IndexFile,
    layout: struct.Struct,
    problems: list[IndexProblem],
    *,
    being_written: bool,
) -> list[tuple[int, int]] | None:
    """The entries; of a file that cannot be read none, and one of `problems` more; None without a file."""
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
    """The entries of an offset index, each met by its batch or not."""

    def __init__(self, files: ReadOnlyFiles, path: str, base_offset: int, *, being_written: bool) -> None:
        """Read the entries. `being_written`: zeros behind them are room for more."""
        self.problems: list[IndexProblem] = []
        self._base_offset = base_offset
        self._offsets: dict[int, int] = {}
        self._positions: list[int] = []
        index = OffsetIndex(files, path, base_offset, 0, new=False)
        entries = _readable(files, index, _OFFSET_ENTRY, self.problems, being_written=being_written)
        self.missing = entries is None
        self._take(entries or [])
        self._left = dict(self._offsets)

    def _take(self, entries: list[tuple[int, int]]) -> None:
        last_offset, last_position = self._base_offset - 1, 0
        for slot, (relative, position) in enumerate(entries):
            offset = self._base_offset + relative
            if offset <= last_offset or position <= last_position:
                what = (
                    f"entry {slot} (offset {offset}, byte {position}) does not rise above the one before it"
                )
                self.problems.append(IndexProblem(what, slot * OffsetIndex.entry_size))
                return
            self._offsets[position] = offset
            self._positions.append(position)
            last_offset, last_position = offset, position

    def batch(self, position: int, first_offset: int, last_offset: int) -> None:
        """A good batch begins at `position`."""
        offset = self._left.pop(position, None)
        if offset is not None and offset < first_offset:
            slot = self._positions.index(position)
            what = (
                f"entry {slot} says offset {offset} for byte {position}, where offset {first_offset} begins"
            )
            self.problems.append(IndexProblem(what, slot * OffsetIndex.entry_size, target=position))

    def hole(self, start: int, end: int) -> None:
        """What lies from byte `start` to `end` is no batch: nothing can be said against entries for it."""
        for position in self._positions[
            bisect_left(self._positions, start) : bisect_left(self._positions, end)
        ]:
            self._left.pop(position, None)
        self.problems = [
            each for each in self.problems if each.target is None or not start <= each.target < end
        ]

    def finish(self, size: int, next_offset: int) -> list[IndexProblem]:
        """What is wrong, when the segment was read to byte `size` and offset `next_offset`."""
        for position, offset in self._left.items():
            slot = self._positions.index(position)
            last = slot == len(self._positions) - 1
            beyond = position >= size
            where = "behind the end of the segment" if beyond else "where no batch begins"
            self.problems.append(
                IndexProblem(
                    f"entry {slot} (offset {offset}) points to byte {position}, {where}",
                    slot * OffsetIndex.entry_size,
                    seen_by_broker=beyond and last,
                )
            )
        if not self._left and self._positions and (end := self._offsets[self._positions[-1]]) >= next_offset:
            what = f"the last entry has offset {end}, the segment ends at offset {next_offset}"
            self.problems.append(IndexProblem(what))
        return self.problems


class TimeIndexCheck:
    """The entries of a time index, each met by the batches up to its offset or not."""

    def __init__(self, files: ReadOnlyFiles, path: str, base_offset: int, *, being_written: bool) -> None:
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
                self.problems.append(IndexProblem(what, slot * TimeIndex.entry_size))
                return
            self._entries.append((timestamp, offset))
            last_timestamp, last_offset = timestamp, offset

    def batch(self, first_offset: int, last_offset: int, max_timestamp: int) -> None:
        """The next good batch."""
        if self._at < len(self._entries):
            self._meet(first_offset, last_offset, max_timestamp)
        if max_timestamp > self._newest:
            self._newest = max_timestamp

    def _meet(self, first_offset: int, last_offset: int, max_timestamp: int) -> None:
        entries = self._entries
        while self._at < len(entries) and entries[self._at][1] <= last_offset:
            timestamp, offset = entries[self._at]
            # An entry may name a record inside a batch: those behind it may be newer.
            below = max(self._newest, max_timestamp if last_offset <= offset else NO_TIMESTAMP)
            including = max(self._newest, max_timestamp if first_offset <= offset else NO_TIMESTAMP)
            if self._known and not below <= timestamp <= including:
                newest = below if below > timestamp else including
                said = f"timestamp {timestamp} is the newest up to offset {offset}"
                what = f"entry {self._at} says that {said}: it is {newest}"
                self.problems.append(IndexProblem(what, self._at * TimeIndex.entry_size))
            self._at += 1

    def bad_batch(self) -> None:
        """Timestamps of a batch are not known: nothing can be said of entries behind it."""
        self._known = False

    def finish(self, next_offset: int) -> list[IndexProblem]:
        """What is wrong, when the segment was read to offset `next_offset`."""
        if self._known and self._at < len(self._entries):
            _, offset = self._entries[self._at]
            if offset >= next_offset:
                what = f"entry {self._at} has offset {offset}, the segment ends at offset {next_offset}"
                self.problems.append(IndexProblem(what, self._at * TimeIndex.entry_size))
        return self.problems
