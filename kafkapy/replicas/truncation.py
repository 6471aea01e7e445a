"""Where a follower truncates its log before it fetches from a leader.

The leader answers with the largest of its epochs that is not above the follower's last one, and with that
epoch's end offset. Up to the smaller of both ends of an epoch that both know, the logs are equal. If the
follower does not know the leader's epoch, it truncates to the end of its largest one below, and asks again.

Source: AbstractFetcherThread.getOffsetTruncationState; KIP-101, KIP-279.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkapy.storage.log.epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET
from kafkapy.storage.log.partition_log import PartitionLog


class Truncation(NamedTuple):
    """The offset to truncate to; not `complete` if the leader has to be asked again after that."""

    offset: int
    complete: bool


def truncation(log: PartitionLog, epoch: int, end_offset: int) -> Truncation:
    """Where to truncate `log`, when the leader has answered with this epoch and end offset.

    Both may be -1: the leader does not know them. Then only committed records are certain to be the leader's.
    """
    if end_offset == UNDEFINED_OFFSET:
        return Truncation(log.high_watermark, complete=True)
    own_end = log.log_end_offset
    if epoch == UNDEFINED_EPOCH:  # OffsetForLeaderEpoch v0 names no epoch
        return Truncation(min(end_offset, own_end), complete=True)
    own_epoch, own_epoch_end = log.end_offset_for_epoch(epoch)
    if own_epoch == UNDEFINED_EPOCH:
        return Truncation(min(end_offset, own_end), complete=True)
    if own_epoch != epoch:
        return Truncation(min(own_epoch_end, own_end), complete=False)
    return Truncation(min(own_epoch_end, end_offset, own_end), complete=True)
