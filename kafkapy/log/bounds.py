"""Resolves the bounds of a read to offsets of a log."""

from __future__ import annotations

from kafkapy.log.read_options import Bound
from kafkapy.protocol.special_timestamps import EARLIEST, LATEST
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.offline.offline_error import LogSourceError
from kafkapy.storage.offline.offline_log import OfflineLog


def resolve(bound: Bound, log: OfflineLog, limit: int) -> int:
    """Return the offset in `log` for a bound; LATEST is `limit`, where the reader must stop.

    Raises:
        LogSourceError: the bound leaves the partition out, or lies beyond the limit.
    """
    topic_partition = log.directory.topic_partition
    if bound.timestamp is not None:
        return min(log.offset_for_timestamp(bound.timestamp), limit)
    offset = bound.everywhere
    if bound.offsets is not None:
        try:
            offset = bound.offsets[topic_partition]
        except KeyError:
            raise LogSourceError(
                f"{bound.name} leaves out {topic_partition}: name every partition; -2 stands for earliest, "
                f"-1 for latest."
            ) from None
    if offset == EARLIEST:
        return log.log_start_offset
    if offset == LATEST:
        return limit
    if offset > limit:
        raise LogSourceError(
            f"{bound.name} asks for offset {offset} of {topic_partition}, but it ends at {limit}."
        )
    return offset


def require_kept(topic_partition: TopicPartition, start: int, log_start_offset: int, *, fail: bool) -> int:
    """Return `start`, or the log start offset if that is higher and the read may not `fail`.

    Raises:
        LogSourceError: records that had to be read are deleted.
    """
    if start >= log_start_offset:
        return start
    if fail:
        raise LogSourceError(
            f"Offsets {start} to {log_start_offset - 1} of {topic_partition} are deleted: its log starts at "
            f"{log_start_offset}. Start there, or set failOnDataLoss to false to continue without them."
        )
    return log_start_offset
