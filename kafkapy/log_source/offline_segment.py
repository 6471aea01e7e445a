"""A segment of a log that somebody else may be writing: read as it lies there, never repaired.

Differences from the segment of a broker (storage/segment.py), whose walks and searches are these:

- Indexes are hints. That of the active segment is preallocated with zeros, which are no entries; one that is
  missing, torn or wrong is done without, by a scan from the start of the segment. None is built anew.
- The `.log` file may get another name at any time: retention and compaction rename what they remove to
  `.deleted`, and what compaction wrote is a `.swap` for a moment. Whichever is there is opened.
"""

from __future__ import annotations

import contextlib
from typing import Final

from kafkapy.log_source.damage import check_batch, damaged
from kafkapy.log_source.log_source_error import LogSourceError
from kafkapy.log_source.read_only_files import ReadOnlyFiles
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import HEADER_SIZE, MAGIC, read_header
from kafkapy.storage.batches import BadBatchError, BatchPlace
from kafkapy.storage.files import File
from kafkapy.storage.index_file import CorruptIndexError
from kafkapy.storage.log_config import LogConfig
from kafkapy.storage.segment import DELETED_SUFFIX, TXN_INDEX_SUFFIX, Segment
from kafkapy.storage.txn_index import TransactionIndex

SWAP_SUFFIX: Final = ".swap"

_CONFIG = LogConfig()
_ZEROS_LOOKED_AT = 1 << 16
"""So many zeros in a row are space that was allocated and not written yet."""


class OfflineSegment(Segment):
    """A segment that is only read. Files open on first use; `close_files` closes them."""

    __slots__ = ("_reader", "suffix")

    def __init__(
        self, files: ReadOnlyFiles, directory: str, base_offset: int, *, size: int, suffix: str = ""
    ) -> None:
        """`suffix`: what the names of its files had behind them when the directory was listed."""
        super().__init__(files, directory, base_offset, _CONFIG, size=size, now_ms=0, new=False)
        self._reader = files
        self.suffix = suffix
        self.offset_index.path += suffix
        self.time_index.path += suffix

    @property
    def file(self) -> File:
        """The open `.log` file, under whichever name it has by now; `size` becomes its size.

        Raises:
            FileNotFoundError: it is gone.
        """
        if self._file is None:
            self._file = self._open()
            self.size = self._reader.size_of(self._file)
        return self._file

    def _open(self) -> File:
        for suffix in (self.suffix, "", SWAP_SUFFIX, DELETED_SUFFIX):
            with contextlib.suppress(FileNotFoundError):
                return self._files.open(self.path + suffix)
        # The swap ended between the first look and the second.
        return self._files.open(self.path)

    @property
    def txn_index(self) -> TransactionIndex:
        """The aborted transactions whose marker lies here."""
        return TransactionIndex(self._files, self.stem + TXN_INDEX_SUFFIX + self.suffix, self.base_offset)

    def find_end(self, promised: int) -> int:
        """The offset behind the last whole batch; `size` becomes where that ends.

        What a writer has begun, or a crash has torn, is not there yet. Damage is what lies below `promised`,
        which some checkpoint says is on disk, and what has whole batches behind it.

        Raises:
            LogSourceError: the segment is damaged, or of an old message format.
        """
        self.size = self._reader.size_of(self.file)
        last: BatchPlace | None = None
        next_offset, end = self.base_offset, self._last_indexed_position()
        try:
            for place in self.places(end):
                last, next_offset, end = place, place.last_offset + 1, place.position + place.size
        except BadBatchError as error:
            unwritten = self._is_unwritten(error.position)
            if unwritten and self._reader.size_of(self.file) != self.size:
                # It is being written, whatever a checkpoint says of a topic that had its name before.
                return self.find_end(promised)
            if next_offset < promised or not unwritten:
                raise self._not_a_batch(error, next_offset) from None
        if last is not None and next_offset > promised and not self._is_sound(last):
            next_offset, end = last.base_offset, last.position
        self.size = end
        return next_offset

    def _last_indexed_position(self) -> int:
        self._load_indexes()
        position = self.offset_index.last_position_up_to(self.size - 1)
        return position if self._begins_batch(position) else 0

    def _is_unwritten(self, position: int) -> bool:
        """Whether a batch that was begun there may end later: it is cut short by the end of the file, or
        nothing but zeros follows."""
        head = self.read(position, _ZEROS_LOOKED_AT)
        if not any(head):
            return True
        try:
            header = read_header(head)
        except DecodeError:
            return len(head) < HEADER_SIZE
        return header.magic in (0, 1, MAGIC) and header.size > self.size - position

    def _not_a_batch(self, error: BadBatchError, offset: int) -> LogSourceError:
        data = self.read(error.position, self.size - error.position)
        try:
            header = read_header(data)
            if header.size <= len(data):
                check_batch(self.path, error.position, data, 0, header)
        except LogSourceError as found:
            return found
        except DecodeError:
            pass
        return damaged(self.path, error.position, error.reason, offset)

    def _is_sound(self, place: BatchPlace) -> bool:
        """Whether the CRC is right of a batch that nothing follows."""
        data = self.read(place.position, place.size)
        try:
            check_batch(self.path, place.position, data, 0, read_header(data))
        except LogSourceError:
            return False
        return True

    def read(self, position: int, nbytes: int) -> bytes:
        """Bytes of the file; fewer only at its end."""
        return self._files.read_at(self.file, nbytes, position)

    # --- indexes --------------------------------------------------------------------------------------------

    def lookup(self, offset: int) -> tuple[int, int]:
        """The last index entry at or below `offset` behind which there is a batch, as offset and position."""
        found, position = super().lookup(offset)
        return (found, position) if self._begins_batch(position, found) else (self.base_offset, 0)

    def batch_near(self, position: int) -> BatchPlace | None:
        """The batch that the last index entry at or below byte `position` stands for; None without any."""
        self._load_indexes()
        found = self.offset_index.last_position_up_to(position)
        if not found or not self._begins_batch(found):
            return None
        return next(self.places(found))

    def _begins_batch(self, position: int, last_offset: int | None = None) -> bool:
        if not position:
            return True
        try:
            header = read_header(self.read(position, HEADER_SIZE))
        except DecodeError:
            return False
        fits = header.base_offset >= self.base_offset and header.size <= self.size - position
        return header.magic == MAGIC and fits and (last_offset is None or header.base_offset <= last_offset)

    def _load_indexes(self) -> None:
        for index in (self.offset_index, self.time_index):
            if index.entries < 0:
                try:
                    index.load_while_written()
                except (CorruptIndexError, FileNotFoundError):
                    index.do_without()
