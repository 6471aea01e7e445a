"""The offset index of a segment: the position in the file from which to look for an offset.

    relative offset   int32   last offset of the batch at this position, minus the segment's base offset
    position          int32   byte in the .log file where that batch starts

Entries are sparse and strictly rise in both fields. There is one for the first batch that starts more than
`index.interval.bytes` after the batch of the previous entry, or after the start of the segment. No entry has
position 0, so a zeroed entry is damage, and so are entries that do not rise. After a crash the index is
rebuilt from the segment. See Apache Kafka's OffsetIndex.
"""

from __future__ import annotations

import struct

from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.index_file import CorruptIndexError, IndexFile

_ENTRY = struct.Struct("!ii")

MAX_RELATIVE_OFFSET = 2**31 - 1


class OffsetIndex(IndexFile):
    """Maps offsets of one segment to file positions."""

    __slots__ = ("last_offset", "last_position")

    layout = _ENTRY
    entry_size = _ENTRY.size
    below_all = (-1, 0)
    second_may_stay = False

    def __init__(self, files: FileSystem, path: str, base_offset: int, max_bytes: int, *, new: bool) -> None:
        super().__init__(files, path, base_offset, max_bytes, new=new)
        self.last_offset = base_offset
        """The offset of the last entry, or the base offset of an empty index."""
        self.last_position = 0
        """The position of the last entry; 0 for an empty index."""

    @property
    def is_full(self) -> bool:
        return self.entries >= self.max_entries

    def _loaded(self) -> None:
        if self.entries == 0:
            self.last_offset, self.last_position = self.base_offset, 0
            return
        relative, position = _ENTRY.unpack(self._read(self.entries - 1))
        if relative < 0 or position <= 0:
            raise CorruptIndexError(f"{self.path} ends with the entry ({relative}, {position})")
        self.last_offset, self.last_position = self.base_offset + relative, position

    def _last(self) -> tuple[int, int]:
        return self.last_offset, self.last_position

    def _set_last(self, one: int, other: int) -> None:
        self.last_offset, self.last_position = one, other

    def entry(self, slot: int) -> tuple[int, int]:
        """Offset and position of an entry."""
        relative, position = _ENTRY.unpack(self._read(slot))
        return self.base_offset + relative, position

    def append(self, offset: int, position: int) -> None:
        """Add an entry; both fields are above those of the last one, and the index is not full."""
        self._append(_ENTRY.pack(offset - self.base_offset, position))
        self.last_offset, self.last_position = offset, position

    def lookup(self, offset: int) -> tuple[int, int]:
        """The last entry at or below `offset`; (base offset, 0) if there is none."""
        slot = self._floor(offset - self.base_offset, 0, 4)
        return (self.base_offset, 0) if slot < 0 else self.entry(slot)

    def last_position_up_to(self, position: int) -> int:
        """The highest indexed position that is at most `position`; 0 if there is none.

        A batch starts there.
        """
        slot = self._floor(position, 4, 8)
        return 0 if slot < 0 else self.entry(slot)[1]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        self._truncate_entries(self._floor(offset - self.base_offset - 1, 0, 4) + 1)
