"""Writes the kept records of a group of segments into one new segment.

batch_filter.py handles plain batches. Compressed, transactional and control batches are handled here, one by
one.

Source: LogCleaner.cleanInto, MemoryRecords.filterTo.
"""

from __future__ import annotations

from kafkapy.protocol.compression import Buffer, compress
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import (
    DELETE_HORIZON,
    HEADER_SIZE,
    BatchHeader,
    build_batch,
    decode_records,
    read_header,
)
from kafkapy.storage.cleaning.batch_filter import (
    NOTHING,
    PART,
    BatchFilter,
    emptied,
    frame,
    with_records,
)
from kafkapy.storage.cleaning.cleaned_segment import CleanedSegmentWriter
from kafkapy.storage.cleaning.key_index import END, FULL
from kafkapy.storage.cleaning.offset_map import OffsetMap
from kafkapy.storage.cleaning.plan import SourceSegment
from kafkapy.storage.cleaning.transactions import CleanedTransactions
from kafkapy.storage.cleaning.workspace import CHUNK, SegmentChunks, Workspace

_CODEC = 0x07


class CleanedOutput:
    """The kept records of one group of segments."""

    __slots__ = ("_buffer", "_filter", "_last_segment", "_transactions", "_used", "_workspace", "_writer")

    def __init__(
        self,
        workspace: Workspace,
        writer: CleanedSegmentWriter,
        group: list[SourceSegment],
        key_map: OffsetMap,
        transactions: CleanedTransactions,
    ) -> None:
        plan = workspace.plan
        self._workspace = workspace
        self._writer = writer
        self._transactions = transactions
        self._last_segment = next((each for each in reversed(group) if each.size), None)
        self._filter = BatchFilter(
            key_map.slots,
            key_map.last_offset,
            plan.now_ms,
            plan.now_ms + plan.config.delete_retention_ms,
            workspace.packed_last_offsets,
            group[0].base_offset,
            group[-1].end_offset,
            plan.end_offset,
            plan.config.index_interval_bytes,
        )
        self._buffer = bytearray(2 * CHUNK)
        self._used = 0

    def take(self, segment: SourceSegment) -> None:
        """Write the kept records of the next segment."""
        workspace = self._workspace
        file = workspace.open(segment)
        try:
            chunks = SegmentChunks(workspace, file, segment, 0)
            while chunks.more():
                final = segment is self._last_segment and chunks.ends_segment
                while True:
                    chunks.at, self._used, stop = self._filter.run(
                        chunks.buffer, chunks.at, chunks.filled, final, self._buffer, self._used
                    )
                    if stop == END:
                        break
                    if stop == FULL:
                        self._make_room(chunks.buffer, chunks.at)
                        continue
                    batch, header = chunks.special(stop)
                    if not self._filter.accept(header.base_offset, header.last_offset):
                        raise chunks.bad("a batch with offsets out of order")
                    self._take_special(batch, header, final and chunks.at + header.size == chunks.filled)
                    chunks.at += header.size
                self._write()
                workspace.stats.bytes_read += chunks.at
        finally:
            file.release()

    def _make_room(self, data: memoryview, at: int) -> None:
        """Write the buffer, or enlarge an empty one, so that the next batch fits."""
        if self._used:
            self._write()
            return
        header = read_header(data, at)
        self._buffer = bytearray(header.size + 11 * header.record_count)

    def _write(self) -> None:
        if self._used:
            self._writer.write(memoryview(self._buffer)[: self._used])
            self._workspace.moved(self._used)
            self._used = 0

    def _take_special(self, batch: memoryview, header: BatchHeader, ends_segment: bool) -> None:
        kept: Buffer | None
        if header.is_control:
            kept = self._control_batch(batch, header)
        elif self._transactions.is_aborted(header):
            self._workspace.stats.records_read += header.record_count
            kept = None
        else:
            kept = self._data_batch(batch, header)
        if kept is None:
            with_producer = (
                self._holds_producer(header) or header.next_offset == self._workspace.plan.end_offset
            )
            if with_producer or ends_segment:
                kept = emptied(header, with_producer=with_producer)
        if kept is not None:
            max_timestamp = read_header(kept).max_timestamp
            self._write()
            self._writer.write(kept)
            self._filter.note(len(kept), header.last_offset, max_timestamp)

    def _holds_producer(self, header: BatchHeader) -> bool:
        """Whether the batch is the last one of its producer, or a marker with its epoch.

        Such a batch is needed to rebuild the state of the producer.
        """
        workspace, producer_id = self._workspace, header.producer_id
        if producer_id in workspace.last_offsets:
            return header.last_offset == workspace.last_offsets[producer_id]
        return header.is_control and workspace.marker_epochs.get(producer_id) == header.producer_epoch

    def _control_batch(self, batch: memoryview, header: BatchHeader) -> Buffer | None:
        """Keep a marker until its delete horizon.

        It gets one when it is no longer needed.
        """
        plan = self._workspace.plan
        needless, aborted = self._transactions.end(header, batch)
        if aborted is not None:
            self._writer.add_aborted(aborted)
        if header.record_count == 0 or (
            needless and header.has_delete_horizon and header.base_timestamp <= plan.now_ms
        ):
            return None
        if not needless or header.has_delete_horizon:
            return batch
        return _with_horizon(header, batch, plan.now_ms + plan.config.delete_retention_ms)

    def _data_batch(self, batch: memoryview, header: BatchHeader) -> Buffer | None:
        records = self._workspace.records(batch, header)
        chosen = self._filter.filter_records(
            records,
            header.base_offset,
            header.base_timestamp,
            header.record_count,
            header.has_delete_horizon,
        )
        if chosen is None:
            raise DecodeError(f"the records of the batch at offset {header.base_offset} cannot be read")
        if chosen[0] == NOTHING:
            return None
        if chosen[0] == PART:
            codec = header.compression
            return with_records(header, chosen, codec, compress(codec, chosen[2]) if codec else chosen[2])
        return batch

    def finish(self) -> tuple[int, int, int, bytes, bytes]:
        """Add up the statistics after the last segment.

        Returns the size, the highest timestamp and its offset, and the entries of the indexes.
        """
        stats = self._workspace.stats
        read, kept, without_key = self._filter.seen()
        stats.records_read += read
        stats.records_kept += kept
        stats.records_without_key += without_key
        return self._filter.written()


def _with_horizon(header: BatchHeader, batch: memoryview, horizon: int) -> Buffer:
    """The control batch with a delete horizon.

    Its records keep their timestamps.
    """
    records = decode_records(batch, 0, header)
    rebuilt = build_batch(records, base_offset=header.base_offset, delete_horizon=horizon)
    return frame(
        header._replace(attributes=header.attributes & ~_CODEC | DELETE_HORIZON, base_timestamp=horizon),
        memoryview(rebuilt)[HEADER_SIZE:],
    )
