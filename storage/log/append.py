"""Appending to a log: batches that have offsets go to the active segment or a new one.

The order of the steps matters. The producers' states are checked before anything is written. The log end
offset moves after the write, so a batch is visible in full or not at all. Then the leader epochs, the
producers and the transaction index are updated. If a write fails, the file is truncated to its last batch.
Below the free-space limit, clients' appends are refused before they write. Those of coordinators (internal
topics, transaction markers) may use half of the reserve (disk_space.py).

Source: UnifiedLog.append, LocalLog.roll.
"""

from __future__ import annotations

import errno
import logging
from dataclasses import dataclass

from kafkapy.protocol.records import NO_TIMESTAMP, BatchHeader
from kafkapy.storage.disk.errors import is_disk_full, is_exhausted
from kafkapy.storage.disk.files import Buffer
from kafkapy.storage.log.batches import BadBatchError
from kafkapy.storage.log.log_state import LogState
from kafkapy.storage.log.offset_index import MAX_RELATIVE_OFFSET
from kafkapy.storage.log.producer_snapshots import WRITTEN_AT_ONCE
from kafkapy.storage.log.producers import CachedBatch, ProducerUpdates
from kafkapy.storage.log.segment import Segment
from kafkapy.storage.log.txn_index import AbortedTxn
from kafkapy.storage.log.validate import COORDINATOR, AppendOrigin, PreparedBatches
from kafkapy.storage.log.verification import Verification

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class AppendInfo:
    """The result of an append.

    Its offsets are inclusive.
    """

    first_offset: int
    last_offset: int
    log_append_time: int
    """The timestamp given to the records; -1 with CreateTime."""
    max_timestamp: int
    log_start_offset: int
    nbytes: int
    duplicate: bool = False
    """The batch was appended before. The offsets are those of the first time."""


def append(
    log: LogState,
    prepared: PreparedBatches,
    end_offset: int,
    origin: AppendOrigin,
    log_append_time: int,
    now_ms: int,
    verification: Verification | None = None,
) -> AppendInfo:
    """Write batches that have their offsets, and update the leader epochs and producers.

    `end_offset` is the offset after them.

    Raises:
        KafkaError: the batches do not fit the state of their producers.
        StorageError: the disk is full, or failed.
    """
    batches = prepared.batches
    updates: ProducerUpdates | None = None
    max_timestamp = NO_TIMESTAMP
    headers: list[BatchHeader] = []
    buffers: list[Buffer] = []
    have_producers = False
    for batch in batches:
        header = batch.header
        headers.append(header)
        buffers.append(batch.buffer)
        if header.max_timestamp > max_timestamp:
            max_timestamp = header.max_timestamp
        if header.producer_id >= 0:
            have_producers = True
    if have_producers:
        updates = log.producers.prepare(batches, origin=origin, now_ms=now_ms, verification=verification)
        if updates is not None and updates.duplicate is not None:
            return _duplicate(log, updates.duplicate, log_append_time)
    privileged = log.privileged or origin is COORDINATOR
    try:
        space = log.log_directory.space
        if not (space.admit_coordinator(now_ms) if privileged else space.admit(prepared.nbytes, now_ms)):
            raise OSError(errno.ENOSPC, "the free space is below the limit")
        aborts = updates is not None and any(txn.aborted for txn in updates.completed)
        while not _write(
            log, headers, buffers, prepared.nbytes, end_offset - 1, max_timestamp, aborts, now_ms
        ):
            if not privileged or not space.release_coordinators_half():
                raise OSError(errno.ENOSPC, "no space left on the device")
    except (OSError, MemoryError, BadBatchError) as error:
        raise log.translated("writing to", error) from error
    log.log_end_offset = end_offset
    if headers[-1].partition_leader_epoch != log.leader_epochs.latest_epoch:
        for header in headers:
            log.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
    if updates is not None:
        log.producers.commit(updates, lambda txn: _write_aborted(log, txn))
    log.producers.end_offset = end_offset
    return AppendInfo(
        headers[0].base_offset,
        end_offset - 1,
        log_append_time,
        max_timestamp,
        log.log_start_offset,
        prepared.nbytes,
    )


def _duplicate(log: LogState, batch: CachedBatch, log_append_time: int) -> AppendInfo:
    """The answer to a batch that was already written."""
    return AppendInfo(
        batch.first_offset,
        batch.last_offset,
        NO_TIMESTAMP if log_append_time == NO_TIMESTAMP else batch.timestamp,
        batch.timestamp,
        log.log_start_offset,
        nbytes=0,
        duplicate=True,
    )


def _write(
    log: LogState,
    headers: list[BatchHeader],
    buffers: list[Buffer],
    nbytes: int,
    last_offset: int,
    max_timestamp: int,
    aborts: bool,
    now_ms: int,
) -> bool:
    """Write to the active segment, or to a new one if the active segment has to be rolled.

    Return False if the disk is full.

    Raises:
        OSError: the disk failed.
        BadBatchError: the active segment is damaged.
    """
    segment = log.segments.active
    try:
        if log.new_files is not None:
            log.make_files()
        if segment.should_roll(log.config, nbytes, last_offset, max_timestamp, now_ms):
            segment = roll(log, _base_of_next(log, headers[0].base_offset, last_offset))
        if aborts and segment.txn_index.make():
            # The entry comes before the marker: without it the transaction would stay open.
            log.unsynced.directories[log.path] = None
        segment.append(headers, buffers, nbytes)
    except (OSError, MemoryError) as error:
        if log.new_files is None:
            log.segments.active.remove_failed_append()
        if not is_disk_full(error):
            raise
        return False
    return True


def _base_of_next(log: LogState, first_offset: int, last_offset: int) -> int:
    """The base offset of a new segment for these batches.

    It is the log end offset, even if a follower's first batch is above it, as after compaction: recovery
    takes a gap between segments for lost records. If the last offset would not fit in the segment then,
    it is the offset of the first batch.
    """
    fits = last_offset - log.log_end_offset <= MAX_RELATIVE_OFFSET
    return log.log_end_offset if fits else first_offset


def _write_aborted(log: LogState, txn: AbortedTxn) -> None:
    """Add an aborted transaction to the index of the active segment, which holds its marker.

    Raises:
        StorageError: the write failed, and the log directory is offline. The marker is in the log, and
            without the entry a reader would take the transaction's records for committed ones.
    """
    txn_index = log.segments.active.txn_index
    try:
        log.log_directory.space.with_reserve(lambda: txn_index.append(txn))
    except OSError as error:
        raise log.log_directory.failed(f"indexing an aborted transaction of {log.path}", error) from error


def roll(log: LogState, first_offset: int) -> Segment:
    """Close the active segment and start a new one at `first_offset`.

    It begins at the log end offset if that is higher. An empty active segment that begins there already
    is kept.

    Raises:
        OSError: the disk is full, or failed.
    """
    old = log.segments.active
    base_offset = max(first_offset, log.log_end_offset)
    if old.size == 0 and old.base_offset == base_offset:
        return old
    log_directory = log.log_directory
    old.finish()
    old.trim()
    now_ms = log_directory.clock.now_ms()
    # Nothing may fail between this and `add`: an empty segment that the log does not know would hide
    # records after a restart.
    segment = Segment.create(log_directory.files, log.path, base_offset, log.config, now_ms)
    log.segments.add(segment)
    log.unsynced.segments += (old,)
    log.unsynced.directories[log.path] = None
    log.producers.end_offset = base_offset
    _take_snapshot(log)
    logger.debug("Rolled %s at offset %d", log.topic_partition, base_offset)
    return segment


def _take_snapshot(log: LogState) -> None:
    """Save the producers' states; if there are many, the next flush does it.

    Raises:
        OSError: the disk failed. If only space or a descriptor is lacking, no snapshot is taken, as it
            merely saves time after a crash.
    """
    if len(log.producers) > WRITTEN_AT_ONCE:
        pending = log.snapshots.begin(log.producers)
        if pending is not None:
            log.unsynced.snapshots += (pending,)
        return
    try:
        path = log.snapshots.take(log.producers, durable=False)
    except OSError as error:
        if not is_disk_full(error) and not is_exhausted(error):
            raise
        return
    if path is not None:
        log.unsynced.paths += (path,)
