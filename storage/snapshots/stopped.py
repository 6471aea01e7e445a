"""Copies of the data directory of a stopped broker.

    linked    the files of all segments but the last of each log, producer snapshots, partition.metadata,
              leader epochs, which are replaced and never written to
    copied    the last segment, checkpoints, metadata.db and its write-ahead log
    left out  the lock, the reserve, and what was to be deleted

So both directories may be opened by a broker, whatever each of them does (running.py). A broker that was
killed leaves a directory that has to be recovered; so does its copy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from kafkapy.protocol.types import uuid_to_text
from kafkapy.storage.directories.identity import DIRECTORY_KEY
from kafkapy.storage.disk.checkpoints import (
    CLEAN_SHUTDOWN,
    LEADER_EPOCHS,
    META_PROPERTIES,
    OFFSET_CHECKPOINTS,
    PARTITION_METADATA,
    CorruptCheckpointError,
    read_meta_properties,
)
from kafkapy.storage.disk.directory_names import METADATA_FILE, DirectoryKind, parse_directory_name
from kafkapy.storage.disk.file_names import (
    DELETED_SUFFIX,
    SNAPSHOT_SUFFIX,
    TEMPORARY_SUFFIX,
    find_logs,
    parse_file_name,
)
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.snapshots.running import link_or_copy

METADATA_FILES: Final = (METADATA_FILE, f"{METADATA_FILE}-wal")
_FILES: Final = (META_PROPERTIES, *OFFSET_CHECKPOINTS, CLEAN_SHUTDOWN, *METADATA_FILES)
"""The files of a data directory, the mark of a clean stop after what it vouches for."""
_REPLACED: Final = frozenset({LEADER_EPOCHS, PARTITION_METADATA})
"""The files of a log of which a new one takes the place when they change."""


class Part(NamedTuple):
    """A file or a directory of a data directory."""

    name: str
    """Its path below the data directory."""
    is_directory: bool = False
    is_closed: bool = False
    """No broker writes to it again without making it a file of its own."""


def parts_of(files: FileSystem, directory: str) -> Iterator[Part]:
    """What a copy of a data directory consists of; directories come before what is in them.

    Raises:
        OSError: the disk failed.
    """
    for entry in files.scan(directory):
        name = parse_directory_name(entry.name)
        if name is not None and name.kind is not DirectoryKind.DELETED and entry.is_dir():
            yield Part(entry.name, is_directory=True)
            yield from _parts_of_log(files, directory, entry.name)
    for each in _FILES:
        if files.exists(f"{directory}/{each}"):
            yield Part(each)


def _parts_of_log(files: FileSystem, directory: str, log: str) -> Iterator[Part]:
    names = [entry.name for entry in files.scan(f"{directory}/{log}") if entry.is_file()]
    last = max((offset for offset, _ in find_logs(names)), default=0)
    for name in names:
        parsed = parse_file_name(name)
        if name.endswith(TEMPORARY_SUFFIX) or (parsed is not None and parsed.mark == DELETED_SUFFIX):
            continue
        closed = name in _REPLACED or (
            parsed is not None and (parsed.offset < last or parsed.suffix == SNAPSHOT_SUFFIX)
        )
        yield Part(f"{log}/{name}", is_closed=closed)


def other_directories(files: FileSystem, directory: str) -> list[str]:
    """The paths of the other log directories of the broker that a data directory belongs to.

    Raises:
        OSError: the disk failed.
    """
    with contextlib.suppress(CorruptCheckpointError):  # a start says what is wrong with it
        meta = read_meta_properties(files, f"{directory}/{META_PROPERTIES}")
        if meta is not None:
            own = "" if meta.directory_id is None else uuid_to_text(meta.directory_id)
            return sorted(
                path
                for key, path in meta.others.items()
                if key.startswith(DIRECTORY_KEY) and key.removeprefix(DIRECTORY_KEY) != own
            )
    return []


def copy_directory(files: FileSystem, source: str, target: str) -> None:
    """Copy the data directory of a stopped broker into `target`, which exists and is empty.

    Nothing is synced.

    Raises:
        OSError: the disk failed, or is full.
    """
    for part in parts_of(files, source):
        old, new = f"{source}/{part.name}", f"{target}/{part.name}"
        if part.is_directory:
            files.make_directory(new)
        elif part.is_closed:
            link_or_copy(files, old, new)
        else:
            files.copy_start(old, new, files.size(old))


def clear_directory(files: FileSystem, directory: str) -> None:
    """Remove all data of a stopped broker from its directory; what is not a broker's stays.

    Raises:
        OSError: the disk failed.
    """
    for each in _FILES:
        files.unlink(f"{directory}/{each}")
    for entry in files.scan(directory):
        if parse_directory_name(entry.name) is not None and entry.is_dir():
            files.remove(entry.path)
