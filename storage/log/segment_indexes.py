"""The offset index and the time index of a segment, and what is known of them.

The highest timestamp of the segment and that of its first batch are kept with them: entries of the time index
are made of the highest one, and both are known or unknown as the indexes are.

Nothing here reads the `.log` file. The segment (segment.py) has the batches. It notes each one that it
appends, and rebuilds indexes that are missing or damaged: `reset`, `note_batch` and `add_entry` for each
batch in order, `complete`. There is no reference back to it: frozen objects in a cycle are never freed
(loop/collector.py).

Crash story: index files have no checksum, and after a crash they may be preallocated or torn. `check` notices
what makes a search go wrong, and the segment follows no entry that leads to no batch. An index that could not
be built to its end is deleted (`forget`): it would be taken for a complete one.
"""

from __future__ import annotations

from typing import Final, Protocol

from kafkapy.protocol.records import NO_TIMESTAMP
from kafkapy.storage.disk.file_names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.index_file import CorruptIndexError
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.offset_index import OffsetIndex
from kafkapy.storage.log.time_index import TimeIndex

UNKNOWN_TIMESTAMP: Final = -2
"""A timestamp that was not read from the files yet."""

_CHECKED_AT_ONCE: Final = 64 << 10
"""The most bytes of an index whose order is checked in a millisecond."""


class Repair(Protocol):
    """The repair of a segment's indexes that is under way (index_repair.py)."""

    def stop(self) -> None:
        """Have it end without effect, because the segment has changed."""


class SegmentIndexes:
    """The offset index and the time index of one segment, whose files open on first use."""

    __slots__ = (
        "_interval_bytes",
        "are_built",
        "changes",
        "ends_early",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_index",
        "repair",
        "repair_error",
        "rises",
        "rolling_timestamp",
        "time_index",
    )

    def __init__(
        self, files: FileSystem, stem: str, base_offset: int, config: LogConfig, *, new: bool
    ) -> None:
        """Make indexes whose paths begin with `stem`; those of a new segment are empty."""
        nbytes = config.segment_index_bytes
        self._interval_bytes = config.index_interval_bytes
        self.offset_index = OffsetIndex(files, stem + INDEX_SUFFIX, base_offset, nbytes, new=new)
        self.time_index = TimeIndex(files, stem + TIME_INDEX_SUFFIX, base_offset, nbytes, new=new)
        self.max_timestamp = self.rolling_timestamp = NO_TIMESTAMP if new else UNKNOWN_TIMESTAMP
        """The highest timestamp of the segment, and that of its first batch, from which segment.ms counts."""
        self.max_timestamp_offset = base_offset
        """The last offset of the first batch that holds the highest timestamp."""
        self.ends_early = False
        """Whether an index points past the end of the `.log` file."""
        self.rises = new
        """Whether the entries are known to rise."""
        self.are_built = False
        """Whether they were built from the batches here. Those of an earlier process may be wrong."""
        self.changes = 0
        """How often the files were closed, or changed other than by appends."""
        self.repair: Repair | None = None
        """The repair that is under way."""
        self.repair_error: Exception | None = None
        """Why the last repair failed, until a reader is told."""

    @property
    def both(self) -> tuple[OffsetIndex, TimeIndex]:
        return self.offset_index, self.time_index

    # --- appends --------------------------------------------------------------------------------------------

    def note_batch(self, position: int, last_offset: int, max_timestamp: int) -> bool:
        """Note the next batch, which starts at `position`; return whether `add_entry` is due.

        The highest timestamp before it must be known. The entries depend on the batches alone, not on how
        many were appended at once, nor on restarts.
        """
        if position == 0:
            self.rolling_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, last_offset
        return position - self.offset_index.last_position > self._interval_bytes

    def add_entry(self, position: int, last_offset: int) -> bool:
        """Add the entries of the batch that was noted last; return whether they are due.

        `note_batch` did not know that if the indexes were not loaded. Now they must be.
        """
        offset_index, time_index = self.offset_index, self.time_index
        if position - offset_index.last_position <= self._interval_bytes or offset_index.is_full:
            return False
        offset_index.append(last_offset, position)
        if not time_index.is_full:
            time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        return True

    def write(self) -> None:
        """Write the entries that were added, and keep them."""
        self.offset_index.write()
        self.time_index.write()
        self.offset_index.keep()
        self.time_index.keep()

    def take_back(self) -> None:
        """Remove the entries that were added since the last `write` that succeeded."""
        self.offset_index.take_back()
        self.time_index.take_back()

    def finish(self) -> None:
        """Add the highest timestamp to the time index, and create the files if they are missing.

        The time index must be loaded if that timestamp is known.
        """
        self.offset_index.make()
        self.time_index.make()
        if self.knows_max_timestamp:
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)

    def trim(self) -> None:
        """Trim the preallocated space of the files."""
        self.offset_index.trim()
        self.time_index.trim()

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`, but not yet from the files."""
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)

    def truncate_files(self) -> None:
        """Truncate the files after their last entries."""
        self.offset_index.truncate_file()
        self.time_index.truncate_file()

    # --- timestamps -----------------------------------------------------------------------------------------

    @property
    def knows_max_timestamp(self) -> bool:
        """Whether the highest timestamp is known without reading a file."""
        return self.max_timestamp != UNKNOWN_TIMESTAMP

    def learn_max_timestamp(self, timestamp: int, offset: int) -> None:
        """Set the highest timestamp, and the last offset of the first batch that holds it."""
        self.max_timestamp, self.max_timestamp_offset = timestamp, offset

    def learn_rolling_timestamp(self, timestamp: int) -> None:
        """Set the timestamp of the first batch."""
        self.rolling_timestamp = timestamp

    # --- building -------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Empty the indexes, to build them again.

        Then note each batch in order, and call `complete`.
        """
        self.stop_repair()
        self.offset_index.reset()
        self.time_index.reset()
        self.rises = True
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.offset_index.base_offset
        self.rolling_timestamp = NO_TIMESTAMP

    def complete(self) -> None:
        """Write the indexes after the last batch, and truncate their files after the last entries."""
        self.finish()
        self.truncate_files()
        self.rises = self.are_built = True

    def forget(self) -> None:
        """Delete the indexes, and forget the timestamps.

        They are rebuilt on use.
        """
        self.stop_repair()
        self.offset_index.forget()
        self.time_index.forget()
        self.max_timestamp = self.rolling_timestamp = UNKNOWN_TIMESTAMP

    # --- loading --------------------------------------------------------------------------------------------

    @property
    def are_checked(self) -> bool:
        """Whether both indexes are loaded, and known to rise."""
        return self.rises and self.offset_index.entries >= 0 and self.time_index.entries >= 0

    @property
    def take_long_to_check(self) -> bool:
        """Whether the order of the entries is not checked yet, and a check may take long.

        Raises:
            FileNotFoundError: an index is missing.
        """
        return not self.rises and any(index.file_size > _CHECKED_AT_ONCE for index in self.both)

    def check(self, log_size: int, *, with_order: bool) -> None:
        """Load the indexes from their files, if they are not, and check what was loaded.

        They must not point beyond the `.log` file, which has `log_size` bytes. `with_order` checks that their
        entries rise, too, unless that is known.

        Raises:
            CorruptIndexError: an index is damaged.
            FileNotFoundError: an index is missing.
        """
        offset_index, time_index = self.offset_index, self.time_index
        try:
            if offset_index.entries < 0 or time_index.entries < 0:
                offset_index.load()
                if offset_index.entries and offset_index.last_position >= log_size:
                    self.ends_early = True
                    raise CorruptIndexError(f"{offset_index.path} points beyond the end of the segment")
                time_index.load()
            if with_order and not self.rises:
                offset_index.check_order()
                time_index.check_order()
                self.rises = True
        except BaseException:
            offset_index.entries = time_index.entries = -1
            raise

    def load_while_written(self) -> None:
        """Load preallocated files that may be written meanwhile.

        Raises as `check`.
        """
        self.offset_index.load_while_written()
        self.time_index.load_while_written()

    def do_without(self) -> None:
        """Treat both files as if they had no entries."""
        self.offset_index.do_without()
        self.time_index.do_without()
        self.rises = True

    # --- repair (index_repair.py) ---------------------------------------------------------------------------

    def learn(self, checked: SegmentIndexes) -> None:
        """Learn what another thread has loaded from the same files and checked."""
        self.ends_early |= checked.ends_early
        if self.offset_index.entries < 0 or self.time_index.entries < 0:
            self.offset_index.learn(checked.offset_index)
            self.time_index.learn(checked.time_index)
        self.rises = True

    def take(self, built: SegmentIndexes) -> None:
        """Put the files that another thread has built in the place of these.

        Then note each batch that came since, and call `complete`.

        Raises:
            OSError: the disk failed.
        """
        self.ends_early |= built.ends_early
        self.offset_index.take(built.offset_index)
        self.time_index.take(built.time_index)
        self.rises = True
        self.max_timestamp, self.max_timestamp_offset = built.max_timestamp, built.max_timestamp_offset
        self.rolling_timestamp = built.rolling_timestamp

    def stop_repair(self) -> None:
        """Have a repair end without effect.

        The files are about to change, or to be closed.
        """
        self.changes += 1
        self.repair_error = None
        if self.repair is not None:
            repair, self.repair = self.repair, None
            repair.stop()

    def end_repair(self, error: Exception | None) -> None:
        """Note that the repair is over, and why it failed, if it did."""
        self.stop_repair()
        self.repair_error = error

    def take_repair_error(self) -> Exception | None:
        """Why the last repair failed; the next reader is not told again."""
        error, self.repair_error = self.repair_error, None
        return error

    # --- files ----------------------------------------------------------------------------------------------

    def forget_unwritten(self) -> None:
        """Drop the entries that are not written; the indexes are not used again."""
        self.offset_index.forget_unwritten()
        self.time_index.forget_unwritten()

    def close(self) -> None:
        """Close the files; they open again on use."""
        self.stop_repair()
        self.offset_index.close()
        self.time_index.close()

    def moved_to(self, stem: str) -> None:
        """Note that the files, which are closed, have paths that begin with `stem`."""
        self.offset_index.path = stem + INDEX_SUFFIX
        self.time_index.path = stem + TIME_INDEX_SUFFIX
