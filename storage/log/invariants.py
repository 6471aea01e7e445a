"""The invariants of a log and its files, which tests check by reading all of it."""

from __future__ import annotations

from kafkapy.protocol.records import crc_is_valid, read_header
from kafkapy.storage.log.epochs import LeaderEpochCache
from kafkapy.storage.log.log_state import LogState
from kafkapy.storage.log.segment import Segment


def check_log(log: LogState) -> None:
    """Check a log.

    Raises AssertionError.
    """
    assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset, log
    assert log.flushed_offset <= log.log_end_offset, log
    segments = list(log.segments)
    assert segments, log
    assert log.segments.active is segments[-1]
    assert segments[0].base_offset <= log.log_start_offset, log
    assert log.size == sum(segment.size for segment in segments)
    next_offset = segments[0].base_offset
    for segment in segments:
        assert segment.base_offset >= next_offset, f"{segment} begins before {next_offset}"
        next_offset = _check_segment(segment, log.leader_epochs)
    assert next_offset <= log.log_end_offset, f"{log} ends before {next_offset}"
    assert log.producers.end_offset <= log.log_end_offset, log
    epochs = log.leader_epochs.entries
    assert epochs == sorted(set(epochs)), epochs
    assert [start for _, start in epochs] == sorted({start for _, start in epochs}), epochs


def _check_segment(segment: Segment, leader_epochs: LeaderEpochCache) -> int:
    """Check a segment; return the offset after it."""
    next_offset = segment.base_offset
    starts: dict[int, int] = {}
    newest = -1
    newest_up_to: dict[int, int] = {}
    for position, batch in segment.batches():
        header = read_header(batch)
        assert crc_is_valid(batch, 0, header), f"{segment}: bad CRC at {position}"
        # The epochs of deleted records are forgotten; a crash may bring the records back.
        epoch = leader_epochs.epoch_for_offset(header.base_offset)
        assert epoch in (header.partition_leader_epoch, -1), f"{segment}: {header}, not epoch {epoch}"
        assert header.base_offset >= next_offset, f"{segment}: offset {header.base_offset} at {position}"
        starts[position] = header.base_offset
        next_offset = header.next_offset
        newest = max(newest, header.max_timestamp)
        newest_up_to[header.last_offset] = newest
    assert segment.max_timestamp == newest, f"{segment}: newest {newest}, not {segment.max_timestamp}"
    segment.lookup(segment.base_offset)  # loads the indexes
    _check_indexes(segment, starts, newest_up_to)
    return next_offset


def _check_indexes(segment: Segment, starts: dict[int, int], newest_up_to: dict[int, int]) -> None:
    offset_index, time_index = segment.indexes.both
    last_offset, last_position = segment.base_offset - 1, 0
    for slot in range(offset_index.entries):
        offset, position = offset_index.entry(slot)
        assert offset > last_offset, f"{segment}: index entry {slot} does not rise"
        assert position > last_position, f"{segment}: index entry {slot} does not rise"
        assert position in starts, f"{segment}: index entry {slot} points into a batch"
        assert starts[position] <= offset, f"{segment}: index entry {slot} points beyond its offset"
        last_offset, last_position = offset, position
    last_timestamp, last_offset = -1, segment.base_offset - 1
    for slot in range(time_index.entries):
        timestamp, offset = time_index.entry(slot)
        assert timestamp > last_timestamp, f"{segment}: time index entry {slot} does not rise"
        assert offset >= last_offset, f"{segment}: time index entry {slot} does not rise"
        assert newest_up_to[offset] == timestamp, f"{segment}: time index entry {slot} is wrong"
        last_timestamp, last_offset = timestamp, offset
