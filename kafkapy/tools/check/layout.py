"""The kind of a path: a log directory, a folder with several, or one partition's directory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkapy.errors import UserError
from kafkapy.protocol.topic_names import CLUSTER_METADATA_TOPIC
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.disk.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
)
from kafkapy.storage.disk.directory_names import DirectoryKind, parse_directory_name
from kafkapy.storage.disk.file_names import find_logs
from kafkapy.storage.disk.log_directory import LOCK_FILE
from kafkapy.storage.offline.data_directory import why_unreadable
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles

_SIGNS = frozenset(
    {META_PROPERTIES, CLEAN_SHUTDOWN, RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, LOCK_FILE}
)


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """A partition's directory."""

    topic_partition: TopicPartition
    path: str
    kind: DirectoryKind

    @property
    def is_kraft(self) -> bool:
        """Whether it is the metadata log of KRaft, which kafkapy does not open."""
        return self.topic_partition.topic == CLUSTER_METADATA_TOPIC

    @property
    def is_log(self) -> bool:
        """Whether it is a log that a broker serves."""
        return self.kind is DirectoryKind.LOG and not self.is_kraft


@dataclass(slots=True)
class DirectoryPlace:
    """A log directory, and those of its partitions that are checked."""

    path: str
    partitions: list[PartitionPlace] = field(default_factory=list)
    complete: bool = True
    """Whether the complete directory is checked, not only some partitions."""


def find_directories(files: ReadOnlyFiles, paths: Iterable[str]) -> list[DirectoryPlace]:
    """Return the log directories at or below the paths, each once.

    Raises:
        UserError: there are none.
    """
    found: dict[str, DirectoryPlace] = {}
    for path in paths:
        for place in _directories(files, os.path.abspath(path)):
            # A directory that is named twice, even by different names, is no copy.
            known = found.setdefault(os.path.realpath(place.path), place)
            if place.complete:
                known.partitions, known.complete = place.partitions, True
            elif not known.complete:
                listed = {os.path.realpath(each.path) for each in known.partitions}
                known.partitions += [
                    each for each in place.partitions if os.path.realpath(each.path) not in listed
                ]
    return list(found.values())


def _directories(files: ReadOnlyFiles, path: str) -> list[DirectoryPlace]:
    names = _names(files, path)
    if _is_partition(path, names):
        partition = _partition(path)
        if partition is None:
            raise UserError(f"{path} has segments, but its name is not TOPIC-PARTITION.")
        return [DirectoryPlace(os.path.dirname(path), [partition], complete=False)]
    itself = _log_directory(files, path, names)
    if itself is not None:
        return [itself]
    below = [f"{path}/{name}" for name in names if os.path.isdir(f"{path}/{name}")]
    found = [place for each in below if (place := _log_directory(files, each, _names(files, each)))]
    if not found:
        raise UserError(f"{path} is neither a data directory of a broker, nor a partition's, nor holds one.")
    return found


def _log_directory(files: ReadOnlyFiles, path: str, names: list[str]) -> DirectoryPlace | None:
    """Return the log directory at `path`, which has these names, or None if it is none."""
    below = [place for name in names if (place := _partition(f"{path}/{name}")) and os.path.isdir(place.path)]
    has_sign = not _SIGNS.isdisjoint(names)
    if has_sign or any(_is_partition(each.path, _names(files, each.path)) for each in below):
        return DirectoryPlace(path, below)
    return None


def _partition(path: str) -> PartitionPlace | None:
    """Return what the name says about a directory, or None if it is not a partition's."""
    name = parse_directory_name(os.path.basename(path))
    return None if name is None else PartitionPlace(name.topic_partition, path, name.kind)


def _is_partition(path: str, names: list[str]) -> bool:
    has_files = PARTITION_METADATA in names or LEADER_EPOCHS in names
    return bool(find_logs(names)) or (has_files and _partition(path) is not None)


def _names(files: ReadOnlyFiles, path: str) -> list[str]:
    try:
        return [entry.name for entry in files.scan(path)]
    except OSError as error:
        raise UserError(why_unreadable(path, error)) from None
