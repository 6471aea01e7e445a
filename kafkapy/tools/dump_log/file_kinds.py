"""The kinds of files in a data directory; the name decides, as in Kafka's own loader."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from enum import Enum

from kafkapy.errors import UserError
from kafkapy.storage.damage.damage import DAMAGED_OFFSETS
from kafkapy.storage.disk.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
)
from kafkapy.storage.disk.directory_names import parse_directory_name
from kafkapy.storage.disk.file_names import (
    BOOTSTRAP_SNAPSHOT,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    QUORUM_STATE,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    FileName,
    file_name,
    parse_file_name,
    parse_kraft_snapshot_name,
)


class FileKind(Enum):
    """The kind of a file."""

    LOG = "log"
    KRAFT_SNAPSHOT = "kraft-snapshot"
    OFFSET_INDEX = "index"
    TIME_INDEX = "timeindex"
    TXN_INDEX = "txnindex"
    PRODUCER_SNAPSHOT = "snapshot"
    OFFSET_CHECKPOINT = "offset-checkpoint"
    LEADER_EPOCHS = "leader-epochs"
    PARTITION_METADATA = "partition-metadata"
    META_PROPERTIES = "meta-properties"
    CLEAN_SHUTDOWN = "clean-shutdown"
    QUORUM_STATE = "quorum-state"
    DAMAGED_OFFSETS = "damaged-offsets"


_BY_NAME = {
    RECOVERY_POINTS: FileKind.OFFSET_CHECKPOINT,
    LOG_START_OFFSETS: FileKind.OFFSET_CHECKPOINT,
    HIGH_WATERMARKS: FileKind.OFFSET_CHECKPOINT,
    CLEANER_OFFSETS: FileKind.OFFSET_CHECKPOINT,
    LEADER_EPOCHS: FileKind.LEADER_EPOCHS,
    PARTITION_METADATA: FileKind.PARTITION_METADATA,
    META_PROPERTIES: FileKind.META_PROPERTIES,
    CLEAN_SHUTDOWN: FileKind.CLEAN_SHUTDOWN,
    QUORUM_STATE: FileKind.QUORUM_STATE,
    DAMAGED_OFFSETS: FileKind.DAMAGED_OFFSETS,
    BOOTSTRAP_SNAPSHOT: FileKind.KRAFT_SNAPSHOT,
}
_BY_SUFFIX = {
    LOG_SUFFIX: FileKind.LOG,
    INDEX_SUFFIX: FileKind.OFFSET_INDEX,
    TIME_INDEX_SUFFIX: FileKind.TIME_INDEX,
    TXN_INDEX_SUFFIX: FileKind.TXN_INDEX,
    SNAPSHOT_SUFFIX: FileKind.PRODUCER_SNAPSHOT,
}
# The order in which files are shown: first those of a segment, then the others of a directory.
_ORDER = list(FileKind)


def file_kind(path: str) -> FileKind | None:
    """Return the kind of a file, or None if it is not a file of Kafka."""
    name = os.path.basename(path)
    segment_file = parse_file_name(name)
    if segment_file is not None:
        return _BY_SUFFIX[segment_file.suffix]
    if parse_kraft_snapshot_name(name) is not None:
        return FileKind.KRAFT_SNAPSHOT
    return _BY_NAME.get(name)


def base_offset(path: str) -> int:
    """Return the base offset in the name of a segment's file."""
    return _segment_file(path).offset


def log_of(path: str) -> str:
    """Return the path of the segment's `.log` file, with the suffix that `path` was renamed to."""
    name = _segment_file(path)
    return os.path.join(os.path.dirname(path), file_name(name.offset, LOG_SUFFIX) + name.mark)


def _segment_file(path: str) -> FileName:
    name = parse_file_name(os.path.basename(path))
    assert name is not None
    return name


def topic_of(path: str) -> str | None:
    """Return the topic in the name of the file's directory; None if that is not a partition's."""
    name = parse_directory_name(os.path.basename(os.path.dirname(os.path.abspath(path))))
    return None if name is None else name.topic_partition.topic


def expand(paths: Iterable[str]) -> Iterator[str]:
    """Yield the files among `paths`, and all of Kafka's files below the directories.

    Raises:
        UserError: a path does not exist, is not a file that Kafka writes, or is a directory without any.
    """
    for path in paths:
        if os.path.isdir(path):
            found = list(_walk(path))
            if not found:
                raise UserError(
                    f"{path} has no Kafka files: name a partition's directory or a data directory."
                )
            yield from found
        elif not os.path.exists(path):
            raise UserError(f"There is no {path}.")
        elif file_kind(path) is None:
            raise UserError(f"Kafka writes no file with this name: {path}.")
        else:
            yield path


def _walk(directory: str) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as problem:
        raise UserError(f"{directory} cannot be read: {problem.strerror}.") from None
    files = [
        (entry.path, kind)
        for entry in found
        if entry.is_file() and (kind := file_kind(entry.path)) is not None
    ]
    files.sort(key=_reading_order)
    yield from (path for path, _ in files)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path)


def _reading_order(file: tuple[str, FileKind]) -> tuple[float, int, str]:
    path, kind = file
    name = os.path.basename(path)
    offset = math.inf
    if (segment_file := parse_file_name(name)) is not None:
        offset = segment_file.offset
    elif (snapshot := parse_kraft_snapshot_name(name)) is not None:
        offset = snapshot.end_offset
    return offset, _ORDER.index(kind), name
