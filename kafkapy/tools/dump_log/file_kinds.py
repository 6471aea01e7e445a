"""The kinds of files in a data directory, by their names, as Kafka's own loader decides."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from enum import Enum

from kafkapy.errors import UserError
from kafkapy.storage.damage.damage import DAMAGED_OFFSETS
from kafkapy.storage.directories.offset_checkpoint import CLEANER_OFFSETS
from kafkapy.storage.disk.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
)


class FileKind(Enum):
    """What a file holds."""

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
    "quorum-state": FileKind.QUORUM_STATE,
    DAMAGED_OFFSETS: FileKind.DAMAGED_OFFSETS,
    "bootstrap.checkpoint": FileKind.KRAFT_SNAPSHOT,
}
_BY_SUFFIX = {
    "log": FileKind.LOG,
    "index": FileKind.OFFSET_INDEX,
    "timeindex": FileKind.TIME_INDEX,
    "txnindex": FileKind.TXN_INDEX,
    "snapshot": FileKind.PRODUCER_SNAPSHOT,
}
_SEGMENT_FILE = re.compile(
    r"([0-9]{20})\.(log|index|timeindex|txnindex|snapshot)(?:\.(?:deleted|cleaned|swap))?"
)
_KRAFT_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint(?:\.(?:deleted|part))?")
_RENAMED = re.compile(r"\.(deleted|cleaned|swap)$")
_PARTITION = re.compile(r"(.+)-[0-9]+(?:\.[0-9a-f]{32}-(?:delete|future|stray))?")
# In reading order: the files of a segment, and the other files of a directory.
_ORDER = list(FileKind)


def file_kind(path: str) -> FileKind | None:
    """Return the kind of a file, or None if it is none of Kafka's."""
    name = os.path.basename(path)
    match = _SEGMENT_FILE.fullmatch(name)
    if match is not None:
        return _BY_SUFFIX[match[2]]
    if _KRAFT_SNAPSHOT.fullmatch(name):
        return FileKind.KRAFT_SNAPSHOT
    return _BY_NAME.get(name)


def base_offset(path: str) -> int:
    """Return the base offset in the name of a segment's file."""
    return int(os.path.basename(path)[:20])


def sibling(path: str, suffix: str) -> str:
    """Return the path of another file of the segment; if this one was renamed, so is that one."""
    directory, name = os.path.split(path)
    renamed = _RENAMED.search(name)
    return os.path.join(directory, f"{name[:20]}.{suffix}{renamed[0] if renamed else ''}")


def kraft_snapshot_id(path: str) -> tuple[int, int] | None:
    """Return end offset and epoch in a KRaft snapshot's name, or None for that of `format`."""
    match = _KRAFT_SNAPSHOT.fullmatch(os.path.basename(path))
    return None if match is None else (int(match[1]), int(match[2]))


def topic_of(path: str) -> str | None:
    """Return the topic of the file's partition, by the name of its directory."""
    match = _PARTITION.fullmatch(os.path.basename(os.path.dirname(os.path.abspath(path))))
    return None if match is None else match[1]


def expand(paths: Iterable[str]) -> Iterator[str]:
    """Yield the files, and Kafka's files in the directories and their partitions' directories.

    Raises:
        UserError: a path does not exist, is not a file that Kafka writes, or is a directory without any.
    """
    for path in paths:
        if os.path.isdir(path):
            found = list(_walk(path))
            if not found:
                raise UserError(
                    f"{path} has no files of Kafka's: name a partition's directory or a data directory."
                )
            yield from found
        elif not os.path.exists(path):
            raise UserError(f"there is no {path}.")
        elif file_kind(path) is None:
            raise UserError(f"{path} is not a file that Kafka writes, by its name.")
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


def _reading_order(file: tuple[str, FileKind]) -> tuple[str, int, str]:
    path, kind = file
    name = os.path.basename(path)
    stem = name[:20] if name[:20].isdecimal() else "~"
    return stem, _ORDER.index(kind), name
