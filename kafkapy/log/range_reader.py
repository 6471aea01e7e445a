"""The records of a range of offsets as Arrow record batches.

The range was planned some time ago, perhaps on another machine. Meanwhile segments may have been compacted,
deleted or renamed. So the directory is listed again, and once more whenever a segment is removed before it
is opened. Segments that retention has renamed to `.deleted` are read as long as they exist. Records that are
gone are an error, or are left out if the caller says so. Gaps that compaction left are not errors.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import pyarrow as pa

from kafkapy.log.arrow_columns import record_batch
from kafkapy.log.bounds import require_kept
from kafkapy.log.record_columns import decode_columns
from kafkapy.log.record_filter import ALL_RECORDS, RecordFilter
from kafkapy.log.splits import OffsetRange
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import HEADER_SIZE, BatchHeader
from kafkapy.storage.log.batches import BadBatchError
from kafkapy.storage.log.txn_index import AbortedTxn
from kafkapy.storage.offline.batch_chunks import Chunk, read_chunks
from kafkapy.storage.offline.damage import damaged
from kafkapy.storage.offline.offline_error import LogSourceError
from kafkapy.storage.offline.offline_segment import OfflineSegment
from kafkapy.storage.offline.partition_listing import list_partition
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles

_ROWS = 1 << 16
_COMPRESSED_BYTES = 1 << 20
"""A record batch is full at this many compressed bytes or `_ROWS` rows: usually up to 10 MB."""


def read_range(
    files: ReadOnlyFiles,
    wanted: OffsetRange,
    *,
    headers: bool,
    fail_on_data_loss: bool = True,
    only: RecordFilter = ALL_RECORDS,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of `wanted` in log order, and `only` those of a filter.

    No record batch is empty.

    Raises:
        LogSourceError: a file is damaged or cannot be read, or records are gone.
    """
    reader = _RangeReader(files, wanted, headers, fail_on_data_loss, only)
    try:
        yield from reader.read()
    except OSError as error:
        raise LogSourceError(f"{wanted.directory} cannot be read: {error.strerror or error}.") from None
    finally:
        reader.close()


class _RangeReader:
    """Reads the segments of one range; `_next` is the next offset to read."""

    def __init__(
        self,
        files: ReadOnlyFiles,
        wanted: OffsetRange,
        headers: bool,
        fail: bool,
        only: RecordFilter,
    ) -> None:
        self._files = files
        self._wanted = wanted
        self._headers = headers
        self._fail = fail
        self._only = only
        self._next = wanted.start
        self._aborted: dict[int, list[AbortedTxn]] = {}
        for txn in wanted.aborted:
            self._aborted.setdefault(txn.producer_id, []).append(txn)
        self._segments: list[OfflineSegment] = []

    def close(self) -> None:
        for segment in self._segments:
            segment.close_files()

    def read(self) -> Iterator[pa.RecordBatch]:
        while self._next < self._wanted.end:
            try:
                yield from self._read_listed()
                return
            except _GoneError:
                continue

    def _read_listed(self) -> Iterator[pa.RecordBatch]:
        wanted = self._wanted
        self._list()
        bases = [segment.base_offset for segment in self._segments]
        for segment in self._segments[max(bisect_right(bases, self._next) - 1, 0) :]:
            if segment.base_offset >= wanted.end:
                return
            yield from self._read_segment(segment)
            if self._next >= wanted.end:
                return
        if self._fail:
            raise LogSourceError(
                f"Offsets {self._next} to {wanted.end - 1} of {wanted.topic_partition} are gone: its log was "
                f"truncated after the read was planned. Start the read again."
            )

    def _list(self) -> None:
        self.close()
        wanted = self._wanted
        listing = list_partition(self._files, wanted.directory)
        self._segments = [*listing.deleted, *listing.segments]
        first = self._segments[0].base_offset if self._segments else wanted.end
        self._next = require_kept(wanted.topic_partition, self._next, first, fail=self._fail)

    def _read_segment(self, segment: OfflineSegment) -> Iterator[pa.RecordBatch]:
        wanted = self._wanted
        try:
            file = segment.file
        except FileNotFoundError:
            raise _GoneError from None
        try:
            place = segment.find(self._next)
        except BadBatchError as error:
            raise damaged(segment.path, error.position, error.reason, self._next) from None
        if place is not None and place.base_offset < wanted.end:
            for chunk in read_chunks(
                self._files, file, segment.path, place.position, wanted.end, wanted.nbytes
            ):
                yield from self._rows(segment, chunk)
        segment.close_files()

    def _rows(self, segment: OfflineSegment, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        rows = compressed = 0
        batches: list[tuple[int, BatchHeader]] = []
        for at, header in chunk.batches:
            if self._is_wanted(header) and self._may_have_key(chunk, at, header):
                batches.append((at, header))
                rows += header.record_count
                compressed += header.size if header.compression else 0
                if rows >= _ROWS or compressed >= _COMPRESSED_BYTES:
                    yield from self._decode(segment, chunk, batches)
                    batches, rows, compressed = [], 0, 0
            self._next = max(self._next, header.next_offset)
        if batches:
            yield from self._decode(segment, chunk, batches)

    def _is_wanted(self, header: BatchHeader) -> bool:
        if header.is_control or not header.record_count or header.last_offset < self._wanted.start:
            return False
        if not self._only.may_have(header):
            return False
        if not header.is_transactional:
            return True
        aborted = self._aborted.get(header.producer_id, ())
        return not any(txn.first_offset <= header.base_offset <= txn.last_offset for txn in aborted)

    def _may_have_key(self, chunk: Chunk, at: int, header: BatchHeader) -> bool:
        if self._only.keys is None or header.compression:
            return True
        return self._only.may_have_key(chunk.octets, at + HEADER_SIZE, at + header.size)

    def _decode(
        self, segment: OfflineSegment, chunk: Chunk, batches: list[tuple[int, BatchHeader]]
    ) -> Iterator[pa.RecordBatch]:
        wanted = self._wanted
        try:
            columns = decode_columns(chunk.data, batches, self._only.timestamps)
            columns = columns.between(wanted.start, wanted.end)
            columns = columns.as_wanted(self._only)
            if len(columns):
                yield record_batch(wanted.topic_partition, columns, headers=self._headers)
        except DecodeError as error:
            position, header = batches[0]
            raise damaged(segment.path, chunk.position + position, str(error), header.base_offset) from None


class _GoneError(Exception):
    """A segment was removed between the listing and its opening."""
