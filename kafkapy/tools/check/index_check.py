"""The indexes of a segment, compared with its batches while these are read.

An offset index is right if a search for any offset starts at or before the batch that has it. So each entry
must point to the start of a batch whose first offset is at most the entry's. A time index is right if the
timestamp of each entry is that of the newest record up to the entry's offset. Indexes may be sparse.

A broker writes a batch before its index entries. So the indexes are read before their segment, and entries
that a running broker adds meanwhile cannot contradict it.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import ClassVar

from kafkapy.protocol.records import NO_TIMESTAMP
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.index_file import CorruptIndexError
from kafkapy.storage.log.offset_index import OffsetIndex
from kafkapy.storage.log.time_index import TimeIndex


class IndexCheck:
    """The entries of an index, and the problems found so far."""

    index_type: ClassVar[type[OffsetIndex | TimeIndex]]

    def __init__(self, files: FileSystem, path: str, base_offset: int, *, being_written: bool) -> None:
        """Read the entries; if `being_written`, zeros after them are free space."""
        self.path = path
        self.missing = False
        self.problems: list[tuple[str, int | None]] = []
        """Each problem, and the byte of the index file where its entry begins."""
        self.seen_by_broker = False
        """Whether a broker notices one of the problems, and rebuilds the index."""
        self._entries: list[tuple[int, int]] = []
        """The fields of each entry; none if the file is missing or a broker would rebuild it."""
        index = self.index_type(files, path, base_offset, 0, new=False)
        try:
            (index.load_while_written if being_written else index.load)()
            index.check_order()
            data = memoryview(files.read(path))
            entries = min(index.entries, len(data) // index.entry_size)
            self._entries += index.layout.iter_unpack(data[: entries * index.entry_size])
        except FileNotFoundError:
            self.missing = True
        except CorruptIndexError as error:
            self._add(str(error).removeprefix(f"{path} "), seen_by_broker=True)
        finally:
            index.close()

    def _add(self, what: str, slot: int | None = None, *, seen_by_broker: bool = False) -> None:
        self.problems.append((what, None if slot is None else slot * self.index_type.entry_size))
        self.seen_by_broker |= seen_by_broker

    def batch(self, position: int, first_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Compare the index with the next good batch, which begins at byte `position`."""
        raise NotImplementedError

    def hole(self, start: int, end: int) -> None:
        """Ignore what the index says of the bytes from `start` to `end`, which cannot be read."""
        raise NotImplementedError

    def finish(self, size: int, next_offset: int) -> None:
        """Compare the index with the end of the segment: byte `size` and offset `next_offset`."""
        raise NotImplementedError


class OffsetIndexCheck(IndexCheck):
    """Compares the entries of an offset index with the batches."""

    index_type = OffsetIndex

    def __init__(self, files: FileSystem, path: str, base_offset: int, *, being_written: bool) -> None:
        super().__init__(files, path, base_offset, being_written=being_written)
        self._positions = [position for _, position in self._entries]
        self._left = {position: base_offset + relative for relative, position in self._entries}
        """The offsets of the entries that no batch has confirmed, by position."""
        self._begins: dict[int, int] = {}
        """The first offset of the batch at a position whose entry has a lower one."""
        self._last = self._left[self._positions[-1]] if self._entries else None
        """The offset of the last entry, unless it points to bytes that cannot be read."""

    def batch(self, position: int, first_offset: int, last_offset: int, max_timestamp: int) -> None:
        offset = self._left.get(position)
        if offset is not None:
            if offset < first_offset:
                self._begins[position] = first_offset
            else:
                del self._left[position]

    def hole(self, start: int, end: int) -> None:
        positions = self._positions
        for position in positions[bisect_left(positions, start) : bisect_left(positions, end)]:
            self._left.pop(position, None)
            if position == positions[-1]:
                self._last = None

    def finish(self, size: int, next_offset: int) -> None:
        for position, offset in self._left.items():
            slot, beyond = self._positions.index(position), position >= size
            what = f"entry {slot} (offset {offset}) points to byte {position}, "
            if position in self._begins:
                what += f"where offset {self._begins[position]} begins"
            else:
                what += "after the end of the segment" if beyond else "where no batch begins"
            self._add(what, slot, seen_by_broker=beyond and slot == len(self._entries) - 1)
        if not self._left and self._last is not None and self._last >= next_offset:
            self._add(f"the last entry has offset {self._last}, the segment ends at offset {next_offset}")


class TimeIndexCheck(IndexCheck):
    """Compares the entries of a time index with the batches up to their offsets."""

    index_type = TimeIndex

    def __init__(self, files: FileSystem, path: str, base_offset: int, *, being_written: bool) -> None:
        super().__init__(files, path, base_offset, being_written=being_written)
        self._offsets = [base_offset + relative for _, relative in self._entries]
        self._at = 0
        self._newest = NO_TIMESTAMP
        self._known = True
        """Whether the timestamps of all batches up to here are known."""

    def batch(self, position: int, first_offset: int, last_offset: int, max_timestamp: int) -> None:
        while self._at < len(self._offsets) and self._offsets[self._at] <= last_offset:
            timestamp, offset = self._entries[self._at][0], self._offsets[self._at]
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

    def hole(self, start: int, end: int) -> None:
        self._known = False

    def finish(self, size: int, next_offset: int) -> None:
        if self._known and self._at < len(self._offsets) and self._offsets[self._at] >= next_offset:
            said = f"entry {self._at} has offset {self._offsets[self._at]}"
            self._add(f"{said}, the segment ends at offset {next_offset}", self._at)
