"""The three indexes of a segment: their entries, or with `verify` what is wrong with them.

    index       offset and position of each entry; the batch at that position must end with that offset
    timeindex   timestamp and offset of each entry; a batch must end with that offset, its newest record must
                have that timestamp, and the timestamps must rise
    txnindex    the aborted transactions

The index of the active segment is preallocated with zeros, which are not shown. If a starting broker would
rebuild an index because of its size, an error says so.

Source: Kafka's DumpLogSegments.dumpIndex, dumpTimeIndex, dumpTxnIndex.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import (
    HEADER_SIZE,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    decode_records,
    read_header,
)
from kafkapy.storage.disk.files import File
from kafkapy.storage.log.batches import BadBatchError, iter_batches
from kafkapy.storage.log.index_file import CorruptIndexError, IndexFile
from kafkapy.storage.log.offset_index import OffsetIndex
from kafkapy.storage.log.time_index import TimeIndex
from kafkapy.storage.log.txn_index import AbortedTxn, CorruptTransactionIndexError, TransactionIndex
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.dump_log.batches import MAX_BATCH, Offsets
from kafkapy.tools.dump_log.fact import Fact, error
from kafkapy.tools.dump_log.file_kinds import base_offset, log_of


def dump_offset_index(files: ReadOnlyFiles, path: str, *, verify: bool, offsets: Offsets) -> Iterator[Fact]:
    """Yield the entries, or with `verify` what is wrong with them.

    Raises:
        OSError: the disk failed.
    """
    index = OffsetIndex(files, path, base_offset(path), files.size(path), new=False)
    log: _Log | None = None
    try:
        yield from _check_sanity(files, index, verify=verify)
        log = _Log(files, path) if verify else None
        for slot in range(index.entries):
            offset, position = index.entry(slot)
            if not offsets.first <= offset <= offsets.last:
                continue
            if log is None:
                yield Fact("index", {"offset": offset, "position": position})
                continue
            header = log.header_at(position)
            if header is None:
                yield Fact("mismatch", {"indexOffset": offset, "position": position, "logOffset": None})
            elif header.last_offset != offset:
                yield Fact(
                    "mismatch", {"indexOffset": offset, "position": position, "logOffset": header.last_offset}
                )
    except CorruptIndexError as problem:
        yield error(str(problem))
    finally:
        index.close()
        if log is not None:
            log.close()


def dump_time_index(files: ReadOnlyFiles, path: str, *, verify: bool, offsets: Offsets) -> Iterator[Fact]:
    """Yield the entries, or with `verify` what is wrong with them.

    Raises:
        OSError: the disk failed.
    """
    index = TimeIndex(files, path, base_offset(path), files.size(path), new=False)
    try:
        yield from _check_sanity(files, index, verify=verify)
        found: dict[int, tuple[int, int]] = {}
        if verify:
            found = _newest_of(files, path, [index.entry(slot)[1] for slot in range(index.entries)])
        previous = NO_TIMESTAMP
        for slot in range(index.entries):
            timestamp, offset = index.entry(slot)
            if not offsets.first <= offset <= offsets.last:
                continue
            if not verify:
                yield Fact("timeindex", {"timestamp": timestamp, "offset": offset})
                continue
            last_offset, newest = found.get(offset, (-1, NO_TIMESTAMP))
            if last_offset != offset:
                yield Fact("mismatch", {"indexOffset": offset, "logOffset": last_offset})
            else:
                if newest != timestamp:
                    yield Fact(
                        "mismatch", {"offset": offset, "indexTimestamp": timestamp, "logTimestamp": newest}
                    )
                if previous >= timestamp:
                    yield Fact("mismatch", {"indexTimestamp": timestamp, "previousTimestamp": previous})
            previous = timestamp
    except CorruptIndexError as problem:
        yield error(str(problem))
    finally:
        index.close()


def dump_txn_index(files: ReadOnlyFiles, path: str, *, verify: bool, offsets: Offsets) -> Iterator[Fact]:
    """Yield the aborted transactions, or with `verify` only what is wrong with them.

    Raises:
        OSError: the disk failed.
    """
    index = TransactionIndex(files, path, base_offset(path))
    try:
        if verify:
            index.check()
            return
        for txn in index:
            if txn.first_offset <= offsets.last and txn.last_offset >= offsets.first:
                yield Fact("abortedTxn", _aborted(txn))
        if surplus := files.size(path) % 34:
            yield error(f"{surplus} bytes after the last entry")
    except CorruptTransactionIndexError as problem:
        yield error(str(problem))
    finally:
        index.close()


def _aborted(txn: AbortedTxn) -> dict[str, int]:
    return {
        "version": 0,
        "producerId": txn.producer_id,
        "firstOffset": txn.first_offset,
        "lastOffset": txn.last_offset,
        "lastStableOffset": txn.last_stable_offset,
    }


def _check_sanity(files: ReadOnlyFiles, index: IndexFile, *, verify: bool) -> Iterator[Fact]:
    """Load the index; yield an error if its size is wrong, or a fact if it is empty."""
    size = files.size(index.path)
    index.load_while_written()
    if size % index.entry_size:
        yield error(
            f"{index.path} has {size} bytes, not a multiple of {index.entry_size}: a broker rebuilds it"
        )
    elif not index.entries and not verify:
        yield Fact("empty")


class _Log:
    """The batches of the segment that an index belongs to."""

    def __init__(self, files: ReadOnlyFiles, index_path: str) -> None:
        self._files = files
        self._file: File = files.open(log_of(index_path))
        self.size = files.size_of(self._file)

    def header_at(self, position: int) -> BatchHeader | None:
        """Return the header of the batch at `position`, or None if there is none."""
        if not 0 <= position < self.size:
            return None
        try:
            header = read_header(self._files.read_at(self._file, HEADER_SIZE, position))
        except DecodeError:
            return None
        return header if header.magic <= MAGIC and header.size <= self.size - position else None

    def close(self) -> None:
        self._file.release()


def _newest_of(files: ReadOnlyFiles, path: str, offsets: list[int]) -> dict[int, tuple[int, int]]:
    """Map each offset to the first batch that reaches it: its last offset and newest timestamp."""
    found: dict[int, tuple[int, int]] = {}
    wanted = sorted(set(offsets))
    at = 0
    file = files.open(log_of(path))
    try:
        for _, batch in iter_batches(files, file, 0, files.size_of(file)):
            header = read_header(batch)
            while at < len(wanted) and wanted[at] <= header.last_offset:
                found[wanted[at]] = (header.last_offset, _newest(header, batch))
                at += 1
            if at == len(wanted):
                break
    except (BadBatchError, DecodeError):
        pass  # the remaining offsets have no batch
    finally:
        file.release()
    return found


def _newest(header: BatchHeader, batch: memoryview) -> int:
    """Return the newest timestamp of the records, since the header may be wrong."""
    try:
        records = decode_records(batch, 0, header, limit=MAX_BATCH)
    except DecodeError:
        return header.max_timestamp
    return max((record.timestamp for record in records), default=NO_TIMESTAMP)


def log_is_missing(path: str) -> bool:
    """Return whether an index has no segment to compare it with."""
    return not os.path.exists(log_of(path))
