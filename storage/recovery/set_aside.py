"""What recovery notes as damage in segments that were on disk once, and what it rebuilds.

Below the recovery point nothing is torn. What cannot be read there is damage. It is noted (damage.py) before
the segment is recovered, and recovery then leaves it out. A transaction index has no checksum; it is compared
with the markers in the log.
"""

from __future__ import annotations

from kafkapy.protocol.records import HEADER_SIZE, BatchHeader, read_header
from kafkapy.storage.damage.survey import survey
from kafkapy.storage.log.first_read import quarantine
from kafkapy.storage.log.segment import Segment
from kafkapy.storage.log.segments import Segments
from kafkapy.storage.log.txn_index import CorruptTransactionIndexError


def set_aside(
    segment: Segment,
    *,
    expected: int,
    floor: int,
    following: int | None,
    first_epoch: int,
    end_epoch: int,
    end_is_lost: bool,
) -> None:
    """Note the damage of a segment below `floor`.

    That is the offset up to which everything was on disk.

    Args:
        expected: the offset after the segment before it.
        following: where the next segment begins.
        first_epoch: the leader epoch at the beginning of the segment, -1 if unknown.
        end_epoch: the newest leader epoch below `floor`, -1 if unknown.
        end_is_lost: whether damage up to the end of the log can be told from a wrong `floor`.

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
        end_offset=max(floor, expected) if following is None else following,
        end_is_known=following is not None,
        sure_to=floor if following is None else min(floor, following),
        leader_epoch=first_epoch,
        end_epoch=end_epoch,
    )
    damage = [damaged for damaged in found.damage if damaged.first_offset < floor]
    if following is None and not end_is_lost:
        damage = [damaged for damaged in damage if damaged.end_position < segment.size]
    quarantine(segment, damage, found.reason)


def check_aborted(segment: Segment, segments: Segments) -> None:
    """Compare the aborted transactions in the index with the log.

    Each must have its marker there, and its first batch, unless that was compacted away: read_committed
    readers rely on it.

    Raises:
        CorruptTransactionIndexError: recover the segment.
        BadBatchError: the segment is damaged; it has to be recovered too.
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
    """The header of the batch that holds `offset`; None if there is none."""
    place = segment.find(offset)
    if place is None or place.base_offset > offset:
        return None
    return read_header(segment.files.read_at(segment.file, HEADER_SIZE, place.position))
