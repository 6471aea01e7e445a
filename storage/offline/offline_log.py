"""The part of a partition's log that may be read, according to its files at one moment.

    log start offset    the first segment's base offset, or the checkpointed one if that is higher
    end offset          the end of the last whole batch, or the checkpointed high watermark if there may be
                        other replicas (data_directory.py)
    last stable offset  the offset at which read_committed readers stop (transactions.py)

Crash story: only the last segment can end in a torn batch. The batch is not read, since recovery would
truncate it. If something was on disk according to a checkpoint, and is missing or cannot be read, that is
damage and an error. A broker may append, roll, delete and compact meanwhile. The end offset does not move, so
later appends are not read. If a segment was renamed before it was opened, `read_log` tries again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kafkapy.protocol.errors import DecodeError
from kafkapy.storage.log.batches import BadBatchError
from kafkapy.storage.log.index_file import CorruptIndexError
from kafkapy.storage.log.timestamp_search import first_at
from kafkapy.storage.log.txn_index import AbortedTxn, CorruptTransactionIndexError
from kafkapy.storage.offline.damage import damaged
from kafkapy.storage.offline.data_directory import PartitionDirectory
from kafkapy.storage.offline.offline_error import LogSourceError
from kafkapy.storage.offline.offline_segment import OfflineSegment
from kafkapy.storage.offline.partition_listing import Listing, list_partition
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.storage.offline.transactions import TransactionTracker

_ATTEMPTS = 20

T = TypeVar("T")


class OfflineLog:
    """The log of a partition at one moment; its files stay open until `close`."""

    __slots__ = ("_files", "_listing", "directory", "end_offset", "log_start_offset")

    def __init__(self, files: ReadOnlyFiles, directory: PartitionDirectory) -> None:
        self._files = files
        self.directory = directory
        self._listing: Listing = list_partition(files, directory.path)
        segments = self._listing.segments
        first = segments[0].base_offset if segments else 0
        self.log_start_offset = max(first, directory.log_start_offset)
        try:
            self.end_offset = max(self._find_end(), self.log_start_offset)
        except BaseException:
            self.close()
            raise

    def _find_end(self) -> int:
        directory, segments = self.directory, self._listing.segments
        log_end_offset = segments[-1].find_end(directory.promised) if segments else 0
        watermark = directory.high_watermark
        if directory.clean and log_end_offset < directory.promised:
            raise LogSourceError(
                f"{directory.path} ends at offset {log_end_offset}, but everything up to offset "
                f"{directory.promised - 1} was on disk when the broker stopped. Restore the directory from a "
                f"replica or a backup."
            )
        return log_end_offset if watermark is None else min(watermark, log_end_offset)

    def close(self) -> None:
        """Close the files that were opened."""
        self._listing.close()

    def segments_from(self, offset: int) -> list[OfflineSegment]:
        """Return the segments that have offsets at or above `offset`."""
        segments = self._listing.segments
        later = [each for each in segments if each.base_offset > offset]
        return segments[max(len(segments) - len(later) - 1, 0) :]

    def offset_for_timestamp(self, timestamp: int) -> int:
        """Return the offset of the first record that is at least as new as `timestamp`.

        The timestamp is in milliseconds. If no record is as new, the end offset is returned.

        Raises:
            LogSourceError: the part of the log that was searched is damaged.
        """
        try:
            segments = self.segments_from(self.log_start_offset)
            found = first_at(segments, timestamp, self.log_start_offset)
        except BadBatchError as error:
            raise damaged(self.directory.path, error.position, error.reason) from None
        except DecodeError as error:
            raise LogSourceError(f"{self.directory.path} is damaged: {error}.") from None
        return self.end_offset if found is None else min(found.offset, self.end_offset)

    # --- transactions ---------------------------------------------------------------------------------------

    def last_stable_offset(self, tracker: TransactionTracker) -> int:
        """Return the last stable offset; `tracker` may have followed a part of the log already."""
        end = self.end_offset
        if self.directory.clean and not self._listing.snapshots:
            # A clean stop writes a snapshot. Without one, no producer with an id ever wrote.
            return end
        tracker.begin(self._files, self.directory.path, self._listing.snapshots, self.log_start_offset, end)
        tracker.follow(self.segments_from(tracker.position), end)
        return max(tracker.last_stable_offset(end), self.log_start_offset)

    def aborted_transactions(self, tracker: TransactionTracker, start: int, end: int) -> list[AbortedTxn]:
        """Return the aborted transactions with records from `start` to `end`, exclusive.

        Raises:
            LogSourceError: an index is damaged.
        """
        found: list[AbortedTxn] = []
        try:
            for segment in self.segments_from(start):
                index = segment.txn_index
                try:
                    complete = index.collect(start, end, found)
                finally:
                    index.close()
                if complete:
                    break
        except CorruptTransactionIndexError as error:
            raise LogSourceError(
                f"{error}: start a broker on the directory; it rebuilds the index."
            ) from None
        followed = (txn for txn in tracker.aborted if txn.last_offset >= start and txn.first_offset < end)
        return sorted({*found, *followed})

    def keeps_its_files(self) -> bool:
        """Return whether the segments still have the names that were listed."""
        now = list_partition(self._files, self.directory.path)
        return self._listing.names <= now.names


def read_log(files: ReadOnlyFiles, directory: PartitionDirectory, look: Callable[[OfflineLog], T]) -> T:
    """Return what `look` finds in the log; try again if files were renamed meanwhile.

    Raises:
        LogSourceError: the log is damaged or cannot be read.
    """
    for _ in range(_ATTEMPTS):
        try:
            log = OfflineLog(files, directory)
            try:
                found = look(log)
                if log.keeps_its_files():
                    return found
            finally:
                log.close()
        except (FileNotFoundError, CorruptIndexError):
            continue  # renamed; or the index was trimmed when its segment was closed
        except OSError as error:
            raise LogSourceError(f"{directory.path} cannot be read: {error.strerror or error}.") from None
    raise LogSourceError(f"The files in {directory.path} keep changing; try again.")
