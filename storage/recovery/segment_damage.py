"""Damage that recovery finds in a segment and in its transaction index.

No batch below the recovery point can be torn, so bytes that cannot be read there are damage. It is noted
(damage.py) before the segment is recovered, and recovery skips it. A transaction index has no checksum, so it
is compared with the markers in the log.
"""

from __future__ import annotations

from kafkapy.protocol.records import HEADER_SIZE, BatchHeader, read_header
from kafkapy.storage.damage.policy import SERVE_AROUND
from kafkapy.storage.damage.survey import survey
from kafkapy.storage.log.segment import Segment
from kafkapy.storage.log.segments import Segments
from kafkapy.storage.log.txn_index import CorruptTransactionIndexError


def note_damage(
    segment: Segment,
    *,
    expected: int,
    durable_offset: int,
    following: int | None,
    first_epoch: int,
    end_epoch: int,
    end_is_lost: bool,
) -> None:
    """Note the damage of a segment below `durable_offset`.

    Everything below that offset was on disk once.

    Args:
        expected: the offset after the segment before it.
        following: the base offset of the next segment, if there is one.
        first_epoch: the leader epoch at the beginning of the segment, -1 if unknown.
        end_epoch: the newest leader epoch below `durable_offset`, -1 if unknown.
        end_is_lost: whether damage at the end of the log is noted too. It is not if
            `durable_offset` may be wrong.

    Raises:
        OSError: the disk failed.
    """
    found = survey(
        segment.files,
        segment.file,
        0,
        segment.size,
        base_offset=segment.base_offset,
        expected=expected,
        end_offset=max(durable_offset, expected) if following is None else following,
        end_is_known=following is not None,
        leader_epoch=first_epoch,
        end_epoch=end_epoch if following is None or following <= durable_offset else -1,
    )
    damage = [damaged for damaged in found.damage if damaged.first_offset < durable_offset]
    if following is None and not end_is_lost:
        damage = [damaged for damaged in damage if damaged.end_position < segment.size]
    SERVE_AROUND.found(segment, damage, found.reason)


def check_aborted(segment: Segment, segments: Segments) -> None:
    """Compare the aborted transactions in the index with the log.

    Each must have its marker there, and its first batch unless compaction removed it. read_committed readers
    rely on the index.

    Raises:
        CorruptTransactionIndexError: the index is wrong; the segment must be recovered.
        BadBatchError: the segment is damaged; it must be recovered too.
    """
    index = segment.txn_index
    index.check()
    for txn in index:
        marker = _batch_at(segment, txn.last_offset)
        if marker is None or marker.producer_id != txn.producer_id or not marker.is_control:
            raise CorruptTransactionIndexError(f"{index.path}: no marker for {txn}")
        first = _batch_at(segments.floor(txn.first_offset), txn.first_offset)
        if first is not None and (first.producer_id != txn.producer_id or not first.is_transactional):
            raise CorruptTransactionIndexError(f"{index.path}: {txn} does not begin there")


def _batch_at(segment: Segment, offset: int) -> BatchHeader | None:
    """Return the header of the batch that holds `offset`; None if there is none."""
    place = segment.find(offset)
    if place is None or place.base_offset > offset:
        return None
    return read_header(segment.files.read_at(segment.file, HEADER_SIZE, place.position))
