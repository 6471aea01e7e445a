"""The transaction index of a segment: the aborted transactions whose marker lies in it.

Format of `<20-digit base offset>.txnindex`: entries of 34 bytes, big-endian, in order of their last offset.

    version             int16   0
    producer id         int64
    first offset        int64   of the transaction's first record, in this segment or an earlier one
    last offset         int64   of its abort marker
    last stable offset  int64   when the marker was written

A read_committed fetch lists the aborted transactions of the range that it returns, so that the consumer can
drop their records. An entry whose last stable offset is at or above the range's end ends the search: later
aborted transactions begin above the range.

The file does not exist until a transaction is aborted.

Crash story: the index is synced with its segment. If it is missing or damaged, recovery of the segment
rebuilds it from the markers in the log.

Source: TransactionIndex, AbortedTxn.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from kafkapy.storage.disk.files import File, FileSystem

_ENTRY = struct.Struct("!hqqqq")
ENTRY_SIZE: Final = 34
assert _ENTRY.size == ENTRY_SIZE
_VERSION = 0
_UNKNOWN = -1
"""A size that was not looked up yet."""


class CorruptTransactionIndexError(ValueError):
    """The index is damaged.

    Recover the segment to rebuild it.
    """


class AbortedTxn(NamedTuple):
    """A transaction whose records must not be read by read_committed consumers."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions of one segment.

    The file is opened on first use. Methods raise OSError if the disk fails.
    """

    __slots__ = ("_file", "_files", "_size", "base_offset", "path", "used")

    def __init__(self, files: FileSystem, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._files = files
        self._file: File | None = None
        self._size = _UNKNOWN
        self.used = False

    @property
    def file(self) -> File | None:
        """The open file; None if it does not exist."""
        if self._size == _UNKNOWN:
            try:
                size = self._files.size(self.path)
            except FileNotFoundError:
                size = 0
            else:
                self._opened(self._files.open(self.path))
            self._size = size  # last: with a size and no file the index would seem empty
        self.used = True
        return self._file

    def _opened(self, file: File) -> File:
        self._file = file
        self._files.open_files.opened(self)
        return file

    def __iter__(self) -> Iterator[AbortedTxn]:
        """Every complete entry in file order.

        Raises:
            CorruptTransactionIndexError: an entry has an unknown version.
        """
        file = self.file
        if file is None:
            return
        data = self._files.read_at(file, self._size, 0)
        for version, *fields in _ENTRY.iter_unpack(data[: len(data) - len(data) % ENTRY_SIZE]):
            if version != _VERSION:
                raise CorruptTransactionIndexError(f"{self.path}: unknown version {version}")
            yield AbortedTxn(*fields)

    def make(self) -> bool:
        """Open the file, so that the next `append` needs no descriptor; return whether it is new.

        The directory of a new file has to be synced too. If nothing is appended after all, the file stays
        empty, and the next start recovers the segment.
        """
        new = self.file is None
        if new:
            self._opened(self._files.open(self.path, create=True))
        return new

    def append(self, txn: AbortedTxn) -> None:
        """Add a transaction whose abort marker was just written."""
        self.make()
        assert self._file is not None
        self._files.write_at(self._file, [_ENTRY.pack(_VERSION, *txn)], self._size)
        self._size += ENTRY_SIZE

    def collect(self, first: int, end: int, into: list[AbortedTxn]) -> bool:
        """Add the transactions that have records in offsets `first` to `end` (exclusive) to `into`.

        Returns whether the search ends here: the indexes of later segments have no more of them.
        """
        for txn in self:
            if txn.last_offset >= first and txn.first_offset < end:
                into.append(txn)
            if txn.last_stable_offset >= end:
                return True
        return False

    def check(self) -> None:
        """Check the entries.

        Raises:
            CorruptTransactionIndexError: an entry is incomplete, or contradicts the segment or another entry.
        """
        last_offset = -1
        for txn in self:
            in_order = max(self.base_offset, last_offset + 1) <= txn.last_offset
            possible = 0 <= txn.first_offset <= txn.last_offset and txn.producer_id >= 0
            # An open transaction begins before the marker, or the last stable offset is the one after it.
            if not in_order or not possible or txn.last_stable_offset > txn.last_offset + 1:
                raise CorruptTransactionIndexError(f"{self.path}: {txn} is impossible")
            last_offset = txn.last_offset
        if self._file is not None and (self._size == 0 or self._size % ENTRY_SIZE):
            raise CorruptTransactionIndexError(f"{self.path}: {self._size} bytes are not complete entries")

    def truncate_to(self, offset: int) -> None:
        """Remove the transactions whose marker is at or above `offset`."""
        kept = 0
        for txn in self:
            if txn.last_offset >= offset:
                break
            kept += ENTRY_SIZE
        self._truncate_file(kept)

    def reset(self) -> None:
        """Remove every entry, to write them again."""
        self._truncate_file(0)

    def close(self) -> None:
        """Release the file; it opens again on use."""
        self._files.open_files.closed(self)
        self.close_file()

    def close_file(self) -> File | None:
        """Release the open file, and return it (open_files.py)."""
        file, self._file = self._file, None
        self._size = _UNKNOWN
        if file is not None:
            file.release()
        return file

    def _truncate_file(self, size: int) -> None:
        if self._files.is_shared(self.path):
            self.close()
            self._files.unshare(self.path)
        file = self.file
        if file is not None and self._size != size:
            self._files.truncate(file, size)
            self._size = size
