"""A segment of a log: a `.log` file of record batches, and its indexes.

All are named by the segment's base offset:

    00000000000000000000.log         record batches, one after another, nothing else
    00000000000000000000.index       offset_index.py
    00000000000000000000.timeindex   time_index.py
    00000000000000000000.txnindex    txn_index.py, only if a transaction was aborted

The base offset is at or below the first offset in the file, and above every offset of the previous segment.
Offsets in the indexes are relative to it in 32 bits, so a segment ends before an offset that does not fit.
Only the last segment of a log is written. Its index files are preallocated, those of the others are trimmed.

The offset index and the time index are `indexes` (segment_indexes.py). They are built from the batches, so
the segment rebuilds them.

Crash story: the `.log` file is the truth. After a crash, batches that were not synced may be missing or torn.
recovery.py keeps the good batches before them and rebuilds the indexes. An index entry that could not be
written (a full disk, no descriptor) is left out: indexes are sparse, and a search then scans further. See
Apache Kafka's LogSegment.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NoReturn

from kafkapy.protocol.records import LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader
from kafkapy.storage.damage.damage import DamagedRange, good_runs
from kafkapy.storage.damage.survey import starts_at
from kafkapy.storage.disk.errors import NotReadyError, is_disk_full, is_exhausted
from kafkapy.storage.disk.file_names import (
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TXN_INDEX_SUFFIX,
    path_stem,
)
from kafkapy.storage.disk.files import (
    Buffer,
    File,
    FileSlice,
    FileSystem,
    release_all,
)
from kafkapy.storage.log.batches import BadBatchError, BatchPlace, iter_batches, iter_places
from kafkapy.storage.log.index_file import CorruptIndexError
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.offset_index import MAX_RELATIVE_OFFSET
from kafkapy.storage.log.segment_indexes import UNKNOWN_TIMESTAMP, SegmentIndexes
from kafkapy.storage.log.txn_index import TransactionIndex
from kafkapy.storage.log.unchecked import Unchecked

logger = logging.getLogger(__name__)


class IndexesNotReadyError(NotReadyError):
    """The indexes of a segment have to be checked or rebuilt first, in another thread.

    See index_repair.py. `reason` says why they have to be rebuilt; without one, they are rebuilt if they are
    damaged.
    """

    def __init__(self, segment: Segment, reason: str = "") -> None:
        super().__init__()
        self.segment = segment
        self.reason = reason
        self.changes = segment.indexes.changes
        """Those of the indexes, when this was raised."""


class Segment:
    """One segment, whose files open on first use."""

    __slots__ = (
        "_file",
        "_files",
        "_txn_index",
        "base_offset",
        "config",
        "created_ms",
        "damage",
        "dirty",
        "indexes",
        "roll_jitter_ms",
        "size",
        "stem",
        "unchecked",
        "used",
    )

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        size: int,
        now_ms: int,
        new: bool,
    ) -> None:
        self._files = files
        self._file: File | None = None
        self.stem = stem = path_stem(directory, base_offset)
        self.base_offset = base_offset
        self.size = size
        """Bytes of batches in the file; a preallocated file is longer."""
        self.config = config
        """The settings of the log when the segment was opened."""
        self.indexes = SegmentIndexes(files, stem, base_offset, config, new=new)
        self.created_ms = now_ms
        self.dirty = False
        """Whether it was written since it was opened, so that a close has to finish and trim the indexes."""
        self.roll_jitter_ms = config.random_segment_jitter()
        self._txn_index: TransactionIndex | None = None
        self.damage: tuple[DamagedRange, ...] = ()
        """The damaged ranges of the file, in order. Every walk skips them."""
        self.unchecked: Unchecked | None = None
        """The bytes that were on disk when the log was loaded and are not checked yet; None without any."""
        self.used = False
        """Whether the `.log` file was used lately (open_files.py)."""

    @classmethod
    def create(
        cls,
        files: FileSystem,
        directory: str,
        base_offset: int,
        config: LogConfig,
        now_ms: int,
    ) -> Segment:
        """Create an empty segment; existing files with its names are removed (as in LocalLog.roll)."""
        segment = cls(files, directory, base_offset, config, size=0, now_ms=now_ms, new=True)
        stem = segment.stem
        try:
            for suffix in INDEX_SUFFIXES:
                files.unlink(stem + suffix)
            files.create(stem + LOG_SUFFIX)
            if config.preallocate:
                segment.dirty = True
                files.truncate(segment.file, config.segment_bytes)
        except OSError:
            # After a restart, an empty segment that the log does not know would hide later records.
            segment.close_files()
            for suffix in SEGMENT_SUFFIXES:
                files.unlink(stem + suffix)
            raise
        return segment

    @property
    def file(self) -> File:
        """The open `.log` file."""
        file = self._file
        if file is None:
            file = self._file = self._files.open(self.stem + LOG_SUFFIX)
            self._files.open_files.opened(self)
        self.used = True
        return file

    @property
    def txn_index(self) -> TransactionIndex:
        """The aborted transactions whose marker lies here."""
        txn_index = self._txn_index
        if txn_index is None:
            txn_index = TransactionIndex(self._files, self.stem + TXN_INDEX_SUFFIX, self.base_offset)
            self._txn_index = txn_index
        return txn_index

    @property
    def files(self) -> FileSystem:
        """The disk."""
        return self._files

    @property
    def path(self) -> str:
        return self.stem + LOG_SUFFIX

    def __repr__(self) -> str:
        return f"Segment({self.path}, size={self.size})"

    # --- writing --------------------------------------------------------------------------------------------

    def append(self, headers: Sequence[BatchHeader], buffers: list[Buffer], nbytes: int) -> None:
        """Write batches after the last one, and the index entries that are due.

        Raises:
            OSError, MemoryError: no batch was added to the segment. The file may have a part of them
                (`remove_failed_append`).
        """
        position = self.size
        self.dirty = self.used = True
        self._files.write_at(self._file or self.file, buffers, position)
        indexes = self.indexes
        try:
            if indexes.max_timestamp == UNKNOWN_TIMESTAMP:
                self.read_max_timestamp()
            end, is_indexed = position, False
            for header in headers:
                last_offset = header.base_offset + header.last_offset_delta
                if indexes.note_batch(end, last_offset, header.max_timestamp):
                    self._load_indexes()
                    is_indexed |= indexes.add_entry(end, last_offset)
                end += header.batch_length + LOG_OVERHEAD
            if is_indexed:
                indexes.write()
        except (OSError, MemoryError) as error:
            indexes.take_back()
            if not is_exhausted(error) and not is_disk_full(error):
                self._reread_timestamps()
                raise
            # Indexing may have stopped before any of the headers.
            if position == 0:
                indexes.learn_rolling_timestamp(headers[0].max_timestamp)
            for header in headers:
                if header.max_timestamp > self.max_timestamp:
                    indexes.learn_max_timestamp(header.max_timestamp, header.last_offset)
        self.size = position + nbytes

    def remove_failed_append(self) -> None:
        """Truncate the file after the last batch, where a failed append may have left bytes."""
        self._files.truncate(self.file, self.size)

    def should_roll(
        self, config: LogConfig, nbytes: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> bool:
        """Whether these batches belong in a new segment.

        They do if this one is too large or too old, if its index is full, or if the last offset does not fit
        in 32 bits after the base offset.
        """
        size = self.size
        if size == 0:
            return last_offset - self.base_offset > MAX_RELATIVE_OFFSET
        if size > config.segment_bytes - nbytes or last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        indexes = self.indexes
        offset_index, time_index = indexes.offset_index, indexes.time_index
        if offset_index.entries < 0:
            self._load_indexes()
        if (
            offset_index.entries >= offset_index.max_entries
            or time_index.entries >= time_index.max_entries - 1
        ):
            return True
        started = indexes.rolling_timestamp
        if started == UNKNOWN_TIMESTAMP:
            started = self.rolling_timestamp
        age = max_timestamp - started if started >= 0 else now_ms - self.created_ms
        return age > config.max_segment_ms - self.roll_jitter_ms

    def finish(self) -> None:
        """Write the last entry of the time index.

        This is done before a segment is closed, or is no longer the active one.
        """
        indexes = self.indexes
        if indexes.knows_max_timestamp and indexes.time_index.entries < 0:
            self._load_indexes()
        indexes.finish()

    def trim(self) -> None:
        """Trim the preallocated space of the files."""
        self.indexes.trim()
        if self._files.size(self.path) != self.size:
            self._files.truncate(self.file, self.size)

    def truncate_to(self, offset: int) -> bool:
        """Remove the batches that hold `offset` or anything above; return whether there were any."""
        self.unshare()
        indexes = self.indexes
        indexes.stop_repair()
        self._load_indexes(thoroughly=True)
        lost = (each.position for each in self.damage if not each.ends_below(offset))
        end = min(lost, default=self.size)
        _, start = self.lookup(offset)
        walk = (place.position for place in self.places(start, end) if place.last_offset >= offset)
        position = next(walk, end)
        self.damage = tuple(each for each in self.damage if each.ends_below(offset))
        self.dirty = True
        indexes.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        indexes.truncate_files()  # after a crash, the preallocated bytes must not be taken for entries
        if position == self.size:
            return False
        self._files.truncate(self.file, position)
        self.size = position
        if self.unchecked is not None:
            self.unchecked = Unchecked(self.size)
        self._reread_timestamps()
        return True

    # --- reading --------------------------------------------------------------------------------------------

    def find(self, offset: int) -> BatchPlace | None:
        """The batch that holds `offset`, or the first one above it; None at the end of the segment.

        Raises:
            BadBatchError: the file is damaged there.
        """
        if self.size == 0:
            return None
        _, start = self.lookup(offset)
        for place in self.places(start):
            if place.last_offset >= offset:
                return place
        return None

    def lookup(self, offset: int) -> tuple[int, int]:
        """The offset and position of the last index entry at or below `offset`."""
        indexes = self.indexes
        if not indexes.rises or indexes.offset_index.entries < 0:
            self._load_indexes()
        found = indexes.offset_index.lookup(offset)
        if found[1] and not indexes.are_built and not self._leads_to(found[1], found[0]):
            # A wrong entry would make a search miss records.
            self._mend_indexes(f"no batch begins at byte {found[1]}")
            found = indexes.offset_index.lookup(offset)
        return found

    def position_for_timestamp(self, timestamp: int, start_offset: int) -> int:
        """The position from which to look for a record at least as new as `timestamp`.

        Records below `start_offset` are not looked for.
        """
        indexes = self.indexes
        if not indexes.rises or indexes.time_index.entries < 0:
            self._load_indexes()
        found, offset = indexes.time_index.lookup(timestamp)
        if found != NO_TIMESTAMP and not self._confirms(found, offset):
            _, offset = indexes.time_index.lookup(timestamp)
        return self.lookup(max(offset, start_offset))[1]

    def find_read_end(self, position: int, max_bytes: int, limit: int) -> tuple[int, int | None]:
        """Find the end of a read of at most `max_bytes` from the batch at `position`.

        Returns its position and the offset there. The offset is None if the first batch alone is larger than
        `max_bytes`; then the end is `position` itself.
        """
        indexes = self.indexes
        if not indexes.rises or indexes.offset_index.entries < 0:
            self._load_indexes()
        target = position + max_bytes
        start = indexes.offset_index.last_position_up_to(target)
        if not self._leads_to(start, self.base_offset + MAX_RELATIVE_OFFSET):
            start = position
        if start > position and start - position >= max_bytes * 3 // 4:
            # Close enough. A batch starts there, and its first 8 bytes are its base offset.
            head = self._files.read_at(self.file, 8, start)
            return start, int.from_bytes(head, "big", signed=True)
        end, next_offset = position, None
        for place in iter_places(self._files, self.file, max(start, position), limit):
            end = place.position
            if end > position:
                next_offset = place.base_offset
            if end + place.size > target:
                break
        return end, next_offset

    def slice(self, position: int, nbytes: int) -> FileSlice:
        """A part of the file, to be sent.

        Raises:
            OSError: the file cannot be opened, or unsent answers already hold too many files open.
        """
        if self._files.open_files.crowded:
            raise OSError(errno.EMFILE, "unsent answers hold too many files open", self.path)
        self.used = True
        return FileSlice(self._file or self.file, position, nbytes)

    def batches(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, memoryview]]:
        """The position and bytes of each batch between two positions.

        The bytes are valid until the next step.
        """
        end = self.size if end is None else end
        runs = good_runs(self.damage, start, end) if self.damage else ((start, end),)
        return chain.from_iterable(iter_batches(self._files, self.file, *run) for run in runs)

    def places(self, start: int = 0, end: int | None = None) -> Iterator[BatchPlace]:
        """The batches between two positions, by their headers."""
        end = self.size if end is None else end
        runs = good_runs(self.damage, start, end) if self.damage else ((start, end),)
        return chain.from_iterable(iter_places(self._files, self.file, *run) for run in runs)

    def read_next_offset(self) -> int:
        """The offset after the last batch, or after damage that follows it.

        It is found by a scan from the last index entry.
        """
        next_offset = max((damaged.end_offset for damaged in self.damage), default=self.base_offset)
        if self.size:
            self._load_indexes(thoroughly=True)
            offset_index = self.indexes.offset_index
            _, start = offset_index.lookup(offset_index.last_offset)
            for place in self.places(start):
                next_offset = max(next_offset, place.last_offset + 1)
        return next_offset

    def _leads_to(self, position: int, offset: int) -> bool:
        """Whether a good batch begins at `position`, with a base offset at or below `offset`.

        Otherwise the index entry that says so is wrong. The batch of a segment that was checked is not read.
        """
        if not 0 <= position < self.size:
            return False
        return self.unchecked is None or starts_at(
            self._files, self.file, position, self.size, self.base_offset, offset
        )

    # --- timestamps -----------------------------------------------------------------------------------------

    @property
    def max_timestamp(self) -> int:
        """The highest timestamp in the segment; NO_TIMESTAMP if there is none."""
        indexes = self.indexes
        if indexes.max_timestamp == UNKNOWN_TIMESTAMP:
            self.read_max_timestamp()
        return indexes.max_timestamp

    @property
    def offset_of_max_timestamp(self) -> int:
        """The last offset of the first batch that holds the highest timestamp."""
        indexes = self.indexes
        if indexes.max_timestamp == UNKNOWN_TIMESTAMP:
            self.read_max_timestamp()
        return indexes.max_timestamp_offset

    def read_max_timestamp(self) -> None:
        """Find the highest timestamp.

        It is that of the last entry of the time index, or of a record after it.
        """
        self._load_indexes()
        indexes = self.indexes
        time_index = indexes.time_index
        if time_index.entries:
            self._confirms(time_index.last_timestamp, time_index.last_offset)
        timestamp, offset = time_index.last_timestamp, time_index.last_offset
        if self.size:
            _, start = indexes.offset_index.lookup(offset)
            for place in self.places(start):
                if place.max_timestamp > timestamp:
                    timestamp, offset = place.max_timestamp, place.last_offset
        indexes.learn_max_timestamp(timestamp, offset)

    def _reread_timestamps(self) -> None:
        """Find the timestamps again, after batches were removed at the end."""
        if self.size == 0:
            self.indexes.learn_rolling_timestamp(NO_TIMESTAMP)
        self.read_max_timestamp()

    @property
    def rolling_timestamp(self) -> int:
        """The timestamp of the first batch.

        NO_TIMESTAMP while the segment is empty, or if the batch has none.
        """
        indexes = self.indexes
        if indexes.rolling_timestamp == UNKNOWN_TIMESTAMP:
            indexes.learn_rolling_timestamp(NO_TIMESTAMP)
            try:
                for place in self.places():
                    indexes.learn_rolling_timestamp(place.max_timestamp)
                    break
            except OSError:
                indexes.learn_rolling_timestamp(UNKNOWN_TIMESTAMP)
                raise
        return indexes.rolling_timestamp

    @property
    def largest_timestamp(self) -> int:
        """The timestamp for retention by time.

        It is the highest timestamp, or the time when the file was last written if there is none.
        """
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self.modified_ms

    @property
    def modified_ms(self) -> int:
        """When the `.log` file was last written, in milliseconds since 1970."""
        return self._files.modified_ms(self.path)

    # --- indexes --------------------------------------------------------------------------------------------

    def _load_indexes(self, *, thoroughly: bool = False) -> None:
        if not self.indexes.are_checked:
            try:
                self.check_indexes(thoroughly=thoroughly)
            except (CorruptIndexError, FileNotFoundError) as error:
                self._mend_indexes(str(error))

    def _mend_indexes(self, reason: str) -> None:
        """Rebuild indexes that cannot be searched; inside of `cached_only`, another thread has to.

        Raises:
            IndexesNotReadyError: it has to.
            OSError, MemoryError: the disk failed, also when another thread tried it.
        """
        if self._files.is_hurried:
            self._ask_for_repair(reason)
        logger.warning("Rebuilding the indexes of %s: %s", self.path, reason)
        self.rebuild_indexes()

    def _ask_for_repair(self, reason: str = "") -> NoReturn:
        raise self.indexes.take_repair_error() or IndexesNotReadyError(self, reason)

    def renew_indexes(self) -> None:
        """Rebuild the indexes, since other batches than before can be read.

        Raises:
            IndexesNotReadyError: another thread has to, inside of `cached_only`.
            OSError: the disk failed.
        """
        self.indexes.stop_repair()
        if self._files.is_hurried:
            self._ask_for_repair("damage was found")
        self.rebuild_indexes()

    def rebuild_indexes(self) -> None:
        """Rebuild the indexes from the batch headers, up to the first that cannot be read.

        Raises:
            OSError: the disk failed.
        """
        try:
            self.indexes.reset()
            with self._files.waiting_for_disk():
                self.index_batches()
            self.indexes.complete()
        except BaseException:
            self.indexes.forget()  # an incomplete index would be taken for a complete one
            raise

    def index_batches(self, start: int = 0) -> None:
        """Index the batches from byte `start` on, up to the first whose header cannot be read.

        The indexes were emptied, or taken from a repair.

        Raises:
            OSError: the disk failed.
        """
        indexes = self.indexes
        lowest, highest = self.base_offset, self.base_offset + MAX_RELATIVE_OFFSET
        try:
            for place in self.places(start):
                position, last_offset = place.position, place.last_offset
                if not lowest <= place.base_offset <= last_offset <= highest:
                    continue  # damaged
                if indexes.note_batch(position, last_offset, place.max_timestamp):
                    indexes.add_entry(position, last_offset)
        except BadBatchError as error:
            logger.warning("%s is indexed up to damage: %s", self.path, error)

    def check_indexes(self, *, thoroughly: bool = False) -> None:
        """Load the indexes from their files, if they are not, and check that their entries rise.

        In large indexes the entries are checked only `thoroughly`, or if a read of `cached_only` needs them.

        Raises:
            CorruptIndexError: an index is damaged.
            FileNotFoundError: an index is missing.
            IndexesNotReadyError: another thread has to check them, inside of `cached_only`.
        """
        is_large = self.indexes.take_long_to_check
        if is_large and self._files.is_hurried:
            self._ask_for_repair()
        self.indexes.check(self.size, with_order=thoroughly or not is_large)

    def take_indexes(self, built: Segment) -> None:
        """Take the index files that another thread has built, and index what came since.

        Raises:
            OSError: the disk failed. The indexes are rebuilt on use.
        """
        try:
            self.indexes.take(built.indexes)
            if built.size < self.size:
                self.index_batches(built.size)
            self.indexes.complete()
        except BaseException:
            self.indexes.forget()
            raise

    def _confirms(self, timestamp: int, offset: int) -> bool:
        """Whether the segment has the batch of this entry of the time index.

        If not, the indexes are rebuilt: a wrong timestamp would make retention delete records too early.
        """
        if self.unchecked is None or self.indexes.are_built:
            return True
        place = self.find(offset)
        if place is not None and place.base_offset <= offset and place.max_timestamp == timestamp:
            return True
        self._mend_indexes(f"no batch ends with time {timestamp}")
        return False

    # --- files ----------------------------------------------------------------------------------------------

    def flush_handles(self, *, with_indexes: bool) -> list[File]:
        """The files to sync, each with a reference that the caller releases.

        Raises:
            OSError: a file cannot be opened. No reference is left.
        """
        handles = [self.file.acquire()]
        try:
            if with_indexes:
                handles.append(self.indexes.offset_index.flush_handle())
                handles.append(self.indexes.time_index.flush_handle())
                if self.txn_index.file is not None:
                    handles.append(self.txn_index.file.acquire())
        except BaseException:
            release_all(handles)
            raise
        return handles

    def close_files(self) -> None:
        """Close the files; they open again on use."""
        self.indexes.close()
        if self._txn_index is not None:
            self._txn_index.close()
            self._txn_index = None
        if self._file is not None:
            self._files.open_files.closed(self)
            self.close_file()

    def close_file(self) -> File | None:
        """Release the open `.log` file, and return it (open_files.py)."""
        file = self._file
        if file is not None:
            self._file = None
            file.release()
        return file

    def moved_to(self, directory: str) -> None:
        """Note that the partition's directory was renamed."""
        self.close_files()
        self.stem = path_stem(directory, self.base_offset)
        self.indexes.moved_to(self.stem)

    def unshare(self) -> None:
        """Give the files content of their own: they are about to be written in place.

        A closed segment is not written, so snapshots share its files. A truncation makes it active again.

        Raises:
            OSError: the disk failed.
        """
        shared = [path for suffix in SEGMENT_SUFFIXES if self._files.is_shared(path := self.stem + suffix)]
        if shared:
            self.close_files()
            for path in shared:
                self._files.unshare(path)

    def mark_deleted(self) -> list[str]:
        """Rename the files to `.deleted`, and return their new paths.

        A restart removes those that are not deleted yet.
        """
        self.close_files()
        renamed = []
        for suffix in SEGMENT_SUFFIXES:
            path = self.stem + suffix
            if self._files.exists(path):
                self._files.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
        return renamed
