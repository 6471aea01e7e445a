"""The checkpoints and the clean shutdown marker that a converted log directory gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.disk.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    OFFSET_CHECKPOINTS,
    RECOVERY_POINTS,
    CorruptCheckpointError,
    read_offsets,
    write_clean_shutdown,
    write_offsets,
)
from kafkapy.storage.disk.files import FileSystem
from kafkapy.tools.migrate.source import LogDir

_NO_BROKER_EPOCH: Final = -1


def raise_recovery_points(
    files: FileSystem,
    log_dir: LogDir,
    target: str,
    points: Mapping[TopicPartition, int],
    *,
    may_be_compacted: bool,
) -> None:
    """Write recovery points that are higher than those of `log_dir`.

    High watermarks are raised too, so that none is below its recovery point.

    Args:
        points: the higher recovery points.
        may_be_compacted: nobody knows which topics are compacted. Each partition gets a line in the cleaner's
            checkpoint, with offset 0 if it had none. Without the line, a gap would be taken for a missing
            segment (first_read.py).

    Raises:
        OSError: the disk failed.
    """
    if not points:
        return
    watermarks = _offsets(files, f"{log_dir.path}/{HIGH_WATERMARKS}")
    raised = {each: max(offset, points.get(each, 0)) for each, offset in watermarks.items()}
    write_offsets(files, f"{target}/{HIGH_WATERMARKS}", raised)
    write_offsets(files, f"{target}/{RECOVERY_POINTS}", {**log_dir.recovery_points, **points})
    if may_be_compacted:
        cleaned = {**dict.fromkeys(points, 0), **cleaner_offsets(files, log_dir)}
        write_offsets(files, f"{target}/{CLEANER_OFFSETS}", cleaned)


def bring_checkpoints(files: FileSystem, log_dir: LogDir, target: str) -> None:
    """Copy the checkpoints and the clean shutdown marker, after the partitions were copied.

    Raises:
        OSError: the disk failed.
    """
    for name in OFFSET_CHECKPOINTS:
        if files.exists(f"{log_dir.path}/{name}"):
            files.copy(f"{log_dir.path}/{name}", f"{target}/{name}")
    if log_dir.clean:
        write_clean_shutdown(files, f"{target}/{CLEAN_SHUTDOWN}", _NO_BROKER_EPOCH)


def cleaner_offsets(files: FileSystem, log_dir: LogDir) -> Mapping[TopicPartition, int]:
    """Return the offset up to which the log cleaner has compacted each partition.

    Raises:
        OSError: the disk failed.
    """
    return _offsets(files, f"{log_dir.path}/{CLEANER_OFFSETS}")


def _offsets(files: FileSystem, path: str) -> Mapping[TopicPartition, int]:
    """Return the offsets of a checkpoint; none if it is damaged, as brokers do."""
    try:
        return read_offsets(files, path)
    except CorruptCheckpointError:
        return {}
