"""A segment of a log that a broker may be writing: it is read as it is, and never repaired.

It reads and searches as a broker's segment does (storage/log/segment.py), with these differences:

- Indexes may be wrong. The index of the active segment is preallocated with zeros, which are not entries. If
  an index is missing, torn or wrong, the segment is scanned from its start. No index is rebuilt.
- The `.log` file may be renamed at any time: retention and compaction rename the files that they remove to
  `.deleted`, and a file that compaction wrote is a `.swap` for a moment. The one that exists is opened.
"""

from __future__ import annotations

import contextlib

from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import HEADER_SIZE, MAGIC, read_header
from kafkapy.storage.disk.file_names import DELETED_SUFFIX, SWAP_SUFFIX, TXN_INDEX_SUFFIX
from kafkapy.storage.disk.files import File, FileSystem
from kafkapy.storage.log.batches import BadBatchError, BatchPlace, is_unfinished
from kafkapy.storage.log.index_file import CorruptIndexError
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.segment import Segment
from kafkapy.storage.log.txn_index import TransactionIndex
from kafkapy.storage.offline.damage import check_batch, damaged
from kafkapy.storage.offline.offline_error import LogSourceError

_CONFIG = LogConfig()
_ZEROS_LOOKED_AT = 1 << 16
"""If so many bytes are zeros, they count as space that was allocated and not yet written."""


class OfflineSegment(Segment):
    """A segment that is only read; its files open on first use, and `close_files` closes them."""

    __slots__ = ("_reader", "suffix")

    def __init__(
        self, files: FileSystem, directory: str, base_offset: int, *, size: int, suffix: str = ""
    ) -> None:
        """Make a segment whose file names ended with `suffix` when the directory was listed."""
        super().__init__(files, directory, base_offset, _CONFIG, size=size, now_ms=0, new=False)
        self._reader = files
        self.suffix = suffix
        for index in self.indexes.both:
            index.path += suffix

    @property
    def file(self) -> File:
        """Open the `.log` file under the name that it has now, and set `size` to its size.

        Raises:
            FileNotFoundError: the file is gone.
        """
        if self._file is None:
            self._file = self._open()
            self.size = self._reader.size_of(self._file)
        return self._file

    def _open(self) -> File:
        for suffix in (self.suffix, "", SWAP_SUFFIX, DELETED_SUFFIX):
            with contextlib.suppress(FileNotFoundError):
                return self._files.open(self.path + suffix)
        # The swap ended after the name without a suffix was tried.
        return self._files.open(self.path)

    @property
    def txn_index(self) -> TransactionIndex:
        """The index of the aborted transactions whose marker is in this segment."""
        return TransactionIndex(self._files, self.stem + TXN_INDEX_SUFFIX + self.suffix, self.base_offset)

    def find_end(self, promised: int) -> int:
        """Return the offset after the last whole batch, and set `size` to where that batch ends.

        A torn batch, or one that is being written, does not count. Bytes that cannot be read are damage if
        they are below `promised`, the offset up to which everything was on disk, or if whole batches follow.

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
            unwritten = is_unfinished(self._reader, self.file, error.position, self.size, _ZEROS_LOOKED_AT)
            if unwritten and self._reader.size_of(self.file) != self.size:
                # It is being written. The checkpoint may be that of an earlier topic with the same name.
                return self.find_end(promised)
            if next_offset < promised or not unwritten:
                raise self._not_a_batch(error, next_offset) from None
        if last is not None and next_offset > promised and not self._is_sound(last):
            next_offset, end = last.base_offset, last.position
        self.size = end
        return next_offset

    def _last_indexed_position(self) -> int:
        self._load_indexes()
        position = self.indexes.offset_index.last_position_up_to(self.size - 1)
        return position if self._begins_batch(position) else 0

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
        """Return whether the last batch has the right CRC."""
        data = self.read(place.position, place.size)
        try:
            check_batch(self.path, place.position, data, 0, read_header(data))
        except LogSourceError:
            return False
        return True

    def read(self, position: int, nbytes: int) -> bytes:
        """Read `nbytes` bytes of the file, or fewer at its end."""
        return self._files.read_at(self.file, nbytes, position)

    # --- indexes --------------------------------------------------------------------------------------------

    def lookup(self, offset: int) -> tuple[int, int]:
        """Return offset and position of the last index entry up to `offset`, if a batch is there."""
        found, position = super().lookup(offset)
        return (found, position) if self._begins_batch(position, found) else (self.base_offset, 0)

    def batch_near(self, position: int) -> BatchPlace | None:
        """Return the batch of the last index entry at or below byte `position`, or None."""
        self._load_indexes()
        found = self.indexes.offset_index.last_position_up_to(position)
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

    def _load_indexes(self, *, thoroughly: bool = False) -> None:
        for index in self.indexes.both:
            if index.entries < 0:
                try:
                    index.load_while_written()
                except (CorruptIndexError, FileNotFoundError):
                    index.do_without()
