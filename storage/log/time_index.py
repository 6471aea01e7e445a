"""The time index of a segment: timestamps, and the offsets up to which none is higher.

    timestamp         int64   highest timestamp seen so far, milliseconds since 1970
    relative offset   int32   last offset of the batch that holds it, minus the segment's base offset

An entry says that every record with a higher timestamp comes after its offset. Timestamps strictly rise,
offsets rise. One slot is kept free for the entry that a roll or close adds. So the last entry of a closed
segment has its highest timestamp, and retention by time relies on that. After a crash the index is rebuilt
from the segment. See Apache Kafka's TimeIndex.
"""

from __future__ import annotations

import struct

from kafkapy.protocol.records import NO_TIMESTAMP
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.index_file import CorruptIndexError, IndexFile

_ENTRY = struct.Struct("!qi")


class TimeIndex(IndexFile):
    """Maps timestamps of one segment to offsets."""

    __slots__ = ("last_offset", "last_timestamp")

    layout = _ENTRY
    entry_size = _ENTRY.size
    below_all = (-(2**63), 0)
    second_may_stay = True

    def __init__(self, files: FileSystem, path: str, base_offset: int, max_bytes: int, *, new: bool) -> None:
        super().__init__(files, path, base_offset, max_bytes, new=new)
        self.last_timestamp = NO_TIMESTAMP
        """The timestamp of the last entry; an empty index has NO_TIMESTAMP and the base offset."""
        self.last_offset = base_offset

    @property
    def is_full(self) -> bool:
        return self.entries >= self.max_entries - 1

    def _loaded(self) -> None:
        if self.entries == 0:
            self.last_timestamp, self.last_offset = NO_TIMESTAMP, self.base_offset
            return
        last_timestamp, relative = _ENTRY.unpack(self._read(self.entries - 1))
        first_timestamp, _ = _ENTRY.unpack(self._read(0))
        if relative < 0 or last_timestamp < first_timestamp:
            raise CorruptIndexError(f"{self.path} ends with the entry ({last_timestamp}, {relative})")
        self.last_timestamp, self.last_offset = last_timestamp, self.base_offset + relative

    def _last(self) -> tuple[int, int]:
        return self.last_timestamp, self.last_offset

    def _set_last(self, one: int, other: int) -> None:
        self.last_timestamp, self.last_offset = one, other

    def entry(self, slot: int) -> tuple[int, int]:
        """Timestamp and offset of an entry."""
        timestamp, relative = _ENTRY.unpack(self._read(slot))
        return timestamp, self.base_offset + relative

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if the timestamp is above the last one."""
        if timestamp > self.last_timestamp:
            self._append(_ENTRY.pack(timestamp, offset - self.base_offset))
            self.last_timestamp, self.last_offset = timestamp, offset

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The last entry at or below `timestamp`; (NO_TIMESTAMP, base offset) if there is none."""
        slot = self._floor(timestamp, 0, 8)
        return (NO_TIMESTAMP, self.base_offset) if slot < 0 else self.entry(slot)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose offset is at or above `offset`."""
        self._truncate_entries(self._floor(offset - self.base_offset - 1, 8, 12) + 1)
