"""One pass over one log, in a thread, while the log is in use.

1. `build_map` reads the dirty segments and notes the last offset of each key, until the map is full. The
   next pass continues from there.
2. `groups` groups segments that fit in one, by segment.bytes and the size of the indexes. Otherwise repeated
   compaction would leave many small segments.
3. `clean` writes the kept records of a group into one new segment (cleaned_segment.py), with the base offset
   of the first one.

The log itself does not change here: swap.py changes it. Offsets never change. Compressed batches are
compressed again, with their own codec, only if some of their records are removed. The memory in use is the
map, and two buffers of a chunk or of the largest batch.

Damage ends the pass (BadBatchError): a bad batch is never written again, as a new CRC would hide the damage.

Source: LogCleaner.doClean, buildOffsetMap, groupSegmentsBySize, cleanInto.
"""

from __future__ import annotations

from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import BatchHeader
from kafkapy.storage.cleaning.cleaned_output import CleanedOutput
from kafkapy.storage.cleaning.cleaned_segment import CleanedSegment, CleanedSegmentWriter
from kafkapy.storage.cleaning.key_index import BAD, END, FULL, index_batches, index_records
from kafkapy.storage.cleaning.offset_map import OffsetMap
from kafkapy.storage.cleaning.pace import Pace
from kafkapy.storage.cleaning.plan import CleaningLimits, CleaningPlan, CleaningStats, SourceSegment
from kafkapy.storage.cleaning.task import CleaningTask
from kafkapy.storage.cleaning.throttle import Throttle
from kafkapy.storage.cleaning.transactions import CleanedTransactions
from kafkapy.storage.cleaning.workspace import SegmentChunks, Workspace
from kafkapy.storage.damage.survey import starts_at
from kafkapy.storage.disk.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from kafkapy.storage.disk.files import File, FileSystem
from kafkapy.storage.log.index_file import CorruptIndexError
from kafkapy.storage.log.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex


class Cleaner:
    """One pass over a log.

    Only one thread at a time may use it.
    """

    def __init__(
        self,
        files: FileSystem,
        plan: CleaningPlan,
        task: CleaningTask,
        limits: CleaningLimits,
        throttle: Throttle,
        pace: Pace,
    ) -> None:
        """Prepare a pass.

        Raises ValueError if the map would have no room for a key.
        """
        self._workspace = Workspace(files, plan, task, limits, throttle, pace)
        self._files = files
        self._plan = plan
        dirty_offsets = plan.end_offset - plan.first_dirty_offset
        self._map = OffsetMap(limits.map_bytes, keys=dirty_offsets, load_factor=limits.load_factor)
        self._map.last_offset = plan.first_dirty_offset - 1
        self._transactions = CleanedTransactions(plan.aborted)

    @property
    def stats(self) -> CleaningStats:
        """The work of the pass so far."""
        return self._workspace.stats

    # --- the map --------------------------------------------------------------------------------------------

    def build_map(self) -> int:
        """Note the last offset of each key of the dirty segments; return the offset reached.

        Raises:
            BadBatchError, DecodeError: the log is damaged.
            OSError: the disk failed.
            CleaningAbortedError
        """
        self._workspace.begin()
        first = self._plan.first_dirty_offset
        # Transactions that ended below `first` are left out: the walk would not see their markers, and would
        # take all later records of their producers for aborted ones.
        transactions = CleanedTransactions(txn for txn in self._plan.aborted if txn.last_offset >= first)
        for segment in self._plan.segments:
            if segment.end_offset > first and not self._index(segment, transactions):
                break
        self.stats.map_utilization = self._map.utilization
        return self._map.last_offset + 1

    def _index(self, segment: SourceSegment, transactions: CleanedTransactions) -> bool:
        """Add the keys of a segment to the map; return False if it is full."""
        first, key_map = self._plan.first_dirty_offset, self._map
        low = segment.base_offset
        file = self._workspace.open(segment)
        try:
            start = self._position_of(segment, file, first) if first > low else 0
            chunks = SegmentChunks(self._workspace, file, segment, start)
            while chunks.more():
                while True:
                    key_map.size, key_map.last_offset, _, chunks.at, low, stop = index_batches(
                        key_map.slots, key_map.size, key_map.limit, first, key_map.last_offset,
                        chunks.buffer, chunks.at, chunks.filled, low, segment.end_offset,
                    )  # fmt: skip
                    if stop == END:
                        break
                    if stop == FULL:
                        return False
                    batch, header = chunks.special(stop)
                    if not low <= header.base_offset <= header.last_offset < segment.end_offset:
                        raise chunks.bad("a batch with offsets out of order")
                    if not self._index_special(batch, header, transactions):
                        return False
                    low = header.next_offset
                    chunks.at += header.size
        finally:
            file.release()
        key_map.last_offset = max(key_map.last_offset, segment.end_offset - 1)
        return True

    def _index_special(
        self, batch: memoryview, header: BatchHeader, transactions: CleanedTransactions
    ) -> bool:
        key_map, first = self._map, self._plan.first_dirty_offset
        if header.is_control:
            transactions.end(header, batch)
        elif not transactions.is_aborted(header) and header.last_offset >= first:
            key_map.size, key_map.last_offset, _, stop = index_records(
                key_map.slots, key_map.size, key_map.limit, first, key_map.last_offset,
                self._workspace.records(batch, header), header.base_offset, header.record_count,
            )  # fmt: skip
            if stop == FULL:
                return False
            if stop == BAD:
                raise DecodeError(f"the records of the batch at offset {header.base_offset} cannot be read")
        key_map.last_offset = max(key_map.last_offset, header.last_offset)
        return True

    def _position_of(self, segment: SourceSegment, file: File, offset: int) -> int:
        """The position in a segment's file from which to look for an offset.

        It is 0 if the index is missing or damaged.
        """
        index_bytes = self._plan.config.segment_index_bytes
        path = self._workspace.stem(segment.base_offset) + INDEX_SUFFIX
        index = OffsetIndex(self._files, path, segment.base_offset, index_bytes, new=False)
        try:
            index.load()
            position = index.lookup(offset)[1]
            leads = starts_at(self._files, file, position, segment.size, segment.base_offset, offset)
            return position if leads else 0
        except (CorruptIndexError, FileNotFoundError):
            return 0
        finally:
            index.close()

    # --- the groups -----------------------------------------------------------------------------------------

    def groups(self) -> list[list[SourceSegment]]:
        """The segments up to the map's last offset, in groups that become one segment each."""
        config = self._plan.config
        groups: list[list[SourceSegment]] = []
        size = index_size = time_index_size = 0
        for segment in self._plan.segments:
            if segment.base_offset > self._map.last_offset:
                break
            stem = self._workspace.stem(segment.base_offset)
            index, time_index = self._size(stem + INDEX_SUFFIX), self._size(stem + TIME_INDEX_SUFFIX)
            if (
                groups
                and size + segment.size <= config.segment_bytes
                and index_size + index <= config.segment_index_bytes
                and time_index_size + time_index <= config.segment_index_bytes
                and segment.end_offset - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
            ):
                groups[-1].append(segment)
            else:
                groups.append([segment])
                size = index_size = time_index_size = 0
            size += segment.size
            index_size += index
            time_index_size += time_index
        return groups

    def _size(self, path: str) -> int:
        try:
            return self._files.size(path)
        except FileNotFoundError:
            return 0

    # --- the new segments -----------------------------------------------------------------------------------

    def clean(self, group: list[SourceSegment]) -> CleanedSegment:
        """Write the kept records of a group of segments.

        The groups must come in order.

        Raises as `build_map` does, and ValueError if the new segment would be too large.
        """
        self._workspace.begin()
        plan, base_offset = self._plan, group[0].base_offset
        writer = CleanedSegmentWriter(
            self._files,
            self._workspace.task,
            self._workspace.stem(base_offset),
            base_offset,
            plan.config,
            self._workspace.pace.is_busy,
        )
        try:
            output = CleanedOutput(self._workspace, writer, group, self._map, self._transactions)
            for segment in group:
                output.take(segment)
            size, timestamp, offset, offset_entries, time_entries = output.finish()
            modified_ms = self._files.modified_ms(self._workspace.stem(group[-1].base_offset) + LOG_SUFFIX)
            cleaned = writer.finish(
                offset_entries=offset_entries,
                time_entries=time_entries,
                newest=(timestamp, offset),
                modified_ms=modified_ms,
            )
        except FileNotFoundError:
            self._workspace.task.check()  # the directory is gone
            raise
        finally:
            writer.close()
        self.stats.bytes_written += size
        return cleaned
