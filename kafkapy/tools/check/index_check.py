"""The indexes of a segment, compared with its batches while these are read.

An offset index is right if a search for any offset starts at or before the batch that has it. So each entry
must point to the start of a batch whose first offset is at most the entry's, and offsets and positions must
rise. A time index is right if the timestamp of each entry is that of the newest record up to the entry's
offset. Indexes may be sparse.

A broker writes a batch before its index entries. So the indexes are read before their segment, and entries
that a running broker adds meanwhile cannot contradict it.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from dataclasses import dataclass
from operator import le, lt
from typing import ClassVar

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


class _IndexCheck:
    """The entries of an index, and the problems found so far."""

    index_type: ClassVar[type[OffsetIndex | TimeIndex]]

    def __init__(self, files: FileSystem, path: str, base_offset: int, *, being_written: bool) -> None:
        """Read the entries; if `being_written`, zeros after them are free space."""
        self.problems: list[IndexProblem] = []
        self.missing = False
        self._base_offset = base_offset
        self._read: list[tuple[int, int]] = []
        """The fields of each entry; none if the file is missing or a broker would rebuild it."""
        index = self.index_type(files, path, base_offset, 0, new=False)
        try:
            _load(index, being_written=being_written)
            data = memoryview(files.read(path))
            size = index.entry_size
            self._read += index.layout.iter_unpack(data[: min(index.entries, len(data) // size) * size])
        except FileNotFoundError:
            self.missing = True
        except CorruptIndexError as error:
            self._add(str(error).removeprefix(f"{path} "), seen_by_broker=True)
        finally:
            index.close()

    def _rising(self) -> list[tuple[int, int]]:
        """The entries up to the first that does not rise (`IndexFile.check_order`).

        That one is a problem.
        """
        last, second_rises = self.index_type.below_all, le if self.index_type.second_may_stay else lt
        for slot, entry in enumerate(self._read):
            if not (last[0] < entry[0] and second_rises(last[1], entry[1])):
                self._add(f"entry {slot} does not rise above the one before it", slot, seen_by_broker=True)
                return self._read[:slot]
            last = entry
        return self._read

    def _add(
        self, what: str, slot: int | None = None, *, seen_by_broker: bool = False, target: int | None = None
    ) -> None:
        position = None if slot is None else slot * self.index_type.entry_size
        self.problems.append(IndexProblem(what, position, seen_by_broker, target))


def _load(index: IndexFile, *, being_written: bool) -> None:
    """Load an index.

    Raises:
        CorruptIndexError: a broker that opens the file would rebuild it.
        FileNotFoundError: the file is missing.
    """
    if not being_written:
        index.load()
        return
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(CorruptIndexError):
            index.load_while_written()
            return
    index.load_while_written()


class OffsetIndexCheck(_IndexCheck):
    """Compares the entries of an offset index with the batches."""

    index_type = OffsetIndex

    def __init__(self, files: FileSystem, path: str, base_offset: int, *, being_written: bool) -> None:
        super().__init__(files, path, base_offset, being_written=being_written)
        self._left = {position: base_offset + relative for relative, position in self._rising()}
        """The offsets of the entries that no batch has met, by position."""
        self._positions = list(self._left)
        self._end = max(self._left.values(), default=base_offset - 1)
        self._last_is_known = bool(self._left)

    def batch(self, position: int, first_offset: int) -> None:
        """Compare the index with the next good batch, which begins at `position`."""
        offset = self._left.pop(position, None)
        if offset is not None and offset < first_offset:
            slot = self._positions.index(position)
            what = f"says offset {offset} for byte {position}, where offset {first_offset} begins"
            self._add(f"entry {slot} {what}", slot, target=position)

    def hole(self, start: int, end: int) -> None:
        """Ignore entries that point from byte `start` to `end`, which cannot be read."""
        positions = self._positions
        for position in positions[bisect_left(positions, start) : bisect_left(positions, end)]:
            self._left.pop(position, None)
            self._last_is_known &= position != positions[-1]
        self.problems = [
            each for each in self.problems if each.target is None or not start <= each.target < end
        ]

    def finish(self, size: int, next_offset: int) -> list[IndexProblem]:
        """Return what is wrong after the segment was read to byte `size` and offset `next_offset`."""
        for position, offset in self._left.items():
            slot = self._positions.index(position)
            beyond = position >= size
            where = "after the end of the segment" if beyond else "where no batch begins"
            what = f"entry {slot} (offset {offset}) points to byte {position}, {where}"
            self._add(what, slot, seen_by_broker=beyond and slot == len(self._read) - 1)
        if not self._left and self._last_is_known and self._end >= next_offset:
            self._add(f"the last entry has offset {self._end}, the segment ends at offset {next_offset}")
        return self.problems


class TimeIndexCheck(_IndexCheck):
    """Compares the entries of a time index with the batches up to their offsets."""

    index_type = TimeIndex

    def __init__(self, files: FileSystem, path: str, base_offset: int, *, being_written: bool) -> None:
        super().__init__(files, path, base_offset, being_written=being_written)
        self._entries = [(timestamp, base_offset + relative) for timestamp, relative in self._rising()]
        self._at = 0
        self._newest = NO_TIMESTAMP
        self._known = True

    def batch(self, first_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Compare the index with the next good batch."""
        entries = self._entries
        while self._at < len(entries) and entries[self._at][1] <= last_offset:
            timestamp, offset = entries[self._at]
            # An entry may name a record inside a batch: the records after that one may be newer.
            below = max(self._newest, max_timestamp if last_offset <= offset else NO_TIMESTAMP)
            including = max(self._newest, max_timestamp if first_offset <= offset else NO_TIMESTAMP)
            if self._known and not below <= timestamp <= including:
                newest = below if below > timestamp else including
                said = f"timestamp {timestamp} is the newest up to offset {offset}"
                self._add(f"entry {self._at} says that {said}: it is {newest}", self._at)
            self._at += 1
        if max_timestamp > self._newest:
            self._newest = max_timestamp

    def bad_batch(self) -> None:
        """Ignore entries from here on, because the timestamps of a batch are unknown."""
        self._known = False

    def finish(self, next_offset: int) -> list[IndexProblem]:
        """Return what is wrong after the segment was read to offset `next_offset`."""
        if self._known and self._at < len(self._entries):
            _, offset = self._entries[self._at]
            if offset >= next_offset:
                what = f"entry {self._at} has offset {offset}, the segment ends at offset {next_offset}"
                self._add(what, self._at)
        return self.problems
