"""What a path is: a log directory, a folder with several, or one partition's directory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from kafkapy.errors import UserError
from kafkapy.metadata.topic_names import CLUSTER_METADATA_TOPIC
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.disk.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
)
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles

_LOG_FILE = re.compile(r"[0-9]{20}\.log")
_NAME = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})(?:\.([0-9a-f]{32})-(delete|future|stray))?")
_SIGNS = frozenset(
    {META_PROPERTIES, CLEAN_SHUTDOWN, RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, ".lock"}
)


class Role(Enum):
    """Why a partition's directory exists."""

    LOG = "log"
    FUTURE = "future"
    DELETED = "delete"
    STRAY = "stray"
    KRAFT = "kraft"


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """A partition's directory."""

    topic_partition: TopicPartition
    path: str
    role: Role


@dataclass(slots=True)
class DirectoryPlace:
    """A log directory, and which of its partitions are to be checked."""

    path: str
    partitions: list[PartitionPlace] = field(default_factory=list)
    whole: bool = True
    """Whether the complete directory is to be checked, not one partition."""


def find_directories(files: ReadOnlyFiles, paths: Iterable[str]) -> list[DirectoryPlace]:
    """Return the log directories at or below the paths, each once.

    Raises:
        UserError: there are none.
    """
    found: list[DirectoryPlace] = []
    for path in paths:
        path = os.path.abspath(path)
        names = _names(files, path)
        if _is_partition(path, names):
            place = partition_place(path)
            if place is None:
                raise UserError(f"{path} has segments, but its name is not TOPIC-PARTITION.")
            found.append(DirectoryPlace(os.path.dirname(path), [place], whole=False))
        elif _is_log_directory(files, path, names):
            found.append(_log_directory(files, path))
        else:
            below = [f"{path}/{name}" for name in names if os.path.isdir(f"{path}/{name}")]
            inner = [each for each in below if _is_log_directory(files, each, _names(files, each))]
            if not inner:
                raise UserError(
                    f"{path} is neither a data directory of a broker, nor a partition's, nor holds one."
                )
            found += [_log_directory(files, each) for each in inner]
    return _once(found)


def _once(found: Iterable[DirectoryPlace]) -> list[DirectoryPlace]:
    """Merge directories that are named twice, whatever their names: they are no copies."""
    places: dict[str, DirectoryPlace] = {}
    for place in found:
        known = places.setdefault(os.path.realpath(place.path), place)
        if known is place or known.whole:
            continue
        if place.whole:
            known.partitions, known.whole = place.partitions, True
            continue
        there = {os.path.realpath(each.path) for each in known.partitions}
        known.partitions += [each for each in place.partitions if os.path.realpath(each.path) not in there]
    return list(places.values())


def partition_place(path: str) -> PartitionPlace | None:
    """Return what a directory is by its name, or None if it is not a partition's."""
    match = _NAME.fullmatch(os.path.basename(path))
    if match is None:
        return None
    role = Role.LOG if match[4] is None else Role(match[4])
    if match[1] == CLUSTER_METADATA_TOPIC:
        role = Role.KRAFT
    return PartitionPlace(TopicPartition(match[1], int(match[2])), path, role)


def _log_directory(files: ReadOnlyFiles, path: str) -> DirectoryPlace:
    places = [
        place
        for name in _names(files, path)
        if os.path.isdir(f"{path}/{name}") and (place := partition_place(f"{path}/{name}")) is not None
    ]
    return DirectoryPlace(path, places)


def _is_partition(path: str, names: list[str]) -> bool:
    return any(_LOG_FILE.fullmatch(name) for name in names) or (
        partition_place(path) is not None
        and ("partition.metadata" in names or "leader-epoch-checkpoint" in names)
    )


def _is_log_directory(files: ReadOnlyFiles, path: str, names: list[str]) -> bool:
    if not _SIGNS.isdisjoint(names):
        return True
    below = [f"{path}/{name}" for name in names if _NAME.fullmatch(name) and os.path.isdir(f"{path}/{name}")]
    return any(_is_partition(each, _names(files, each)) for each in below)


def _names(files: ReadOnlyFiles, path: str) -> list[str]:
    try:
        return [entry.name for entry in files.scan(path)]
    except FileNotFoundError:
        raise UserError(f"there is no directory {path}.") from None
    except NotADirectoryError:
        raise UserError(
            f"{path} is not a directory: name the data directory of a broker, or a partition's directory."
        ) from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
