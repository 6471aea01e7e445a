"""A log directory's files that go with its partitions: offsets, and how the stop was.

The offsets are by partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.disk.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CorruptCheckpointError,
    read_offsets,
    write_clean_shutdown,
    write_offsets,
)
from kafkapy.storage.disk.files import FileSystem
from kafkapy.tools.migrate.source import LogDir

CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
_NO_BROKER_EPOCH: Final = -1
_CARRIED: Final = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS)


def raise_recovery_points(
    files: FileSystem,
    log_dir: LogDir,
    target: str,
    points: Mapping[TopicPartition, int],
    *,
    may_be_compacted: bool,
) -> None:
    """Write recovery points above those that `log_dir` has, and high watermarks to match.

    No high watermark is below its recovery point.

    `may_be_compacted`: which of the topics are is not known. Each gets a line in the cleaner's checkpoint, at
    offset 0 where it had none, for in other logs a hole is a segment that is missing (first_read.py).

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
    """Copy the checkpoints into a directory that has the partitions already.

    Raises:
        OSError: the disk failed.
    """
    for name in _CARRIED:
        if files.exists(f"{log_dir.path}/{name}"):
            files.copy(f"{log_dir.path}/{name}", f"{target}/{name}")
    if log_dir.clean:
        write_clean_shutdown(files, f"{target}/{CLEAN_SHUTDOWN}", _NO_BROKER_EPOCH)


def cleaner_offsets(files: FileSystem, log_dir: LogDir) -> Mapping[TopicPartition, int]:
    """How far a log cleaner has worked on the partitions that it has seen.

    Raises:
        OSError: the disk failed.
    """
    return _offsets(files, f"{log_dir.path}/{CLEANER_OFFSETS}")


def _offsets(files: FileSystem, path: str) -> Mapping[TopicPartition, int]:
    """What a checkpoint holds; nothing if it is damaged, as brokers take it."""
    try:
        return read_offsets(files, path)
    except CorruptCheckpointError:
        return {}
