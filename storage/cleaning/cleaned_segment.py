"""The files of a segment that compaction writes: `<base offset>.log.cleaned` and indexes.

One thread writes them once, in order, and syncs them at the end. Then swap.py makes them files of the log.
They are also synced as they grow, in smaller steps while the broker is busy: a single sync at the end would
delay the syncs that acknowledgements wait for.

Crash story: recovery removes `.cleaned` files.

Source: UnifiedLog.createNewCleanedSegment, LogCleaner.cleanSegments.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from kafkapy.storage.cleaning.task import CleaningTask
from kafkapy.storage.disk.file_names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from kafkapy.storage.disk.files import Buffer, File, FileSystem
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from kafkapy.storage.log.time_index import TimeIndex
from kafkapy.storage.log.txn_index import AbortedTxn, TransactionIndex

_SYNC_BYTES = 8 << 20
"""The bytes that are written between two syncs."""

_SYNC_BYTES_WHEN_BUSY = 512 << 10

_TIME_ENTRY = struct.Struct(">qi")


@dataclass(frozen=True, slots=True)
class CleanedSegment:
    """A segment that compaction has finished."""

    base_offset: int
    size: int
    suffixes: tuple[str, ...]
    """The suffixes of its files, `.log` first."""


class CleanedSegmentWriter:
    """Writes the batches and then the indexes.

    Methods raise OSError if the disk fails.
    """

    __slots__ = (
        "_aborted_txns",
        "_config",
        "_file",
        "_files",
        "_is_busy",
        "_open",
        "_position",
        "_stem",
        "_suffixes",
        "_synced",
        "_task",
        "base_offset",
    )

    def __init__(
        self,
        files: FileSystem,
        task: CleaningTask,
        stem: str,
        base_offset: int,
        config: LogConfig,
        is_busy: Callable[[], bool],
    ) -> None:
        """Create the `.log` file; `stem` is its path without suffix.

        Raises CleaningAbortedError.
        """
        self._is_busy = is_busy
        self._files = files
        self._task = task
        self._stem = stem
        self._config = config
        self.base_offset = base_offset
        self._open: list[File] = []
        self._suffixes: list[str] = []
        self._position = self._synced = 0
        self._aborted_txns: list[AbortedTxn] = []
        self._file = self._create(LOG_SUFFIX)

    def _create(self, suffix: str) -> File:
        path = self._stem + suffix + CLEANED_SUFFIX
        with self._task.paths() as paths:
            paths.insert(0, path)
            self._files.create(path)
            file = self._files.open(path)
        self._open.append(file)
        self._suffixes.append(suffix)
        return file

    def write(self, batches: Buffer) -> None:
        """Write complete batches after the last one."""
        self._files.write_at(self._file, [batches], self._position)
        self._position += len(batches)
        unsynced = self._position - self._synced
        if unsynced >= _SYNC_BYTES or (unsynced >= _SYNC_BYTES_WHEN_BUSY and self._is_busy()):
            self._files.sync_data(self._file)
            self._synced = self._position

    def add_aborted(self, txn: AbortedTxn) -> None:
        """Add an aborted transaction, whose marker is kept in the segment, to the index."""
        self._aborted_txns.append(txn)

    def finish(
        self, *, offset_entries: bytes, time_entries: bytes, newest: tuple[int, int], modified_ms: int
    ) -> CleanedSegment:
        """Write the indexes and sync all files.

        Args:
            newest: the highest timestamp and its offset.
            modified_ms: when the last of the replaced segments was written. Retention uses it if records have
                no timestamps.

        Raises:
            ValueError: the segment is too large for its indexes.
            CleaningAbortedError
        """
        if self._position > MAX_RELATIVE_OFFSET:
            raise ValueError(f"{self._stem}{LOG_SUFFIX} would have {self._position} bytes")
        index_bytes = self._config.segment_index_bytes
        self._write_index(
            INDEX_SUFFIX, offset_entries[: index_bytes // OffsetIndex.entry_size * OffsetIndex.entry_size]
        )
        self._write_index(TIME_INDEX_SUFFIX, self._complete_time_index(time_entries, newest))
        if self._aborted_txns:
            self._write_txn_index()
        self._files.set_modified_ms(self._file, modified_ms)
        for file in self._open:
            self._files.sync_data(file)
        return CleanedSegment(self.base_offset, self._position, tuple(self._suffixes))

    def _complete_time_index(self, entries: bytes, newest: tuple[int, int]) -> bytes:
        """Add the last entry, which has the highest timestamp.

        One slot is kept for it.
        """
        timestamp, offset = newest
        size = TimeIndex.entry_size
        entries = entries[: (self._config.segment_index_bytes // size - 1) * size]
        last = _TIME_ENTRY.unpack(entries[-size:])[0] if entries else -1
        if timestamp > last:
            entries += _TIME_ENTRY.pack(timestamp, offset - self.base_offset)
        return entries

    def _write_index(self, suffix: str, entries: bytes) -> None:
        file = self._create(suffix)
        if entries:
            self._files.write_at(file, [entries], 0)

    def _write_txn_index(self) -> None:
        path = self._stem + TXN_INDEX_SUFFIX + CLEANED_SUFFIX
        txn_index = TransactionIndex(self._files, path, self.base_offset)
        try:
            with self._task.paths() as paths:
                paths.insert(0, path)
                for txn in self._aborted_txns:
                    txn_index.append(txn)
            if txn_index.file is not None:
                self._files.sync_data(txn_index.file)
        finally:
            txn_index.close()
        self._suffixes.append(TXN_INDEX_SUFFIX)

    def close(self) -> None:
        """Close the files."""
        for file in self._open:
            file.release()
        self._open.clear()
