"""The names of the files in a partition's directory, as Apache Kafka has them.

    00000000000000000042.log            a segment: record batches from offset 42 on
    00000000000000000042.index          its indexes, by offset,
    00000000000000000042.timeindex      by timestamp,
    00000000000000000042.txnindex       and of aborted transactions
    00000000000000000042.snapshot       the producers as they were at offset 42
    NAME.deleted                        one of these that is removed after file.delete.delay.ms
    NAME.cleaned                        one that compaction is writing
    NAME.swap                           one that compaction puts in the place of others
    NAME.tmp                            any file that is being written and does not count yet

    00000000000000000042-0000000003.checkpoint
                                        a snapshot of KRaft's metadata: all below offset 42, of epoch 3
    NAME.deleted                        one that will be removed
    00000000000000000042-0000000003-NUMBER.checkpoint.part
                                        one that is being written

Files that are there once have their names where they are read and written (checkpoints.py, damage.py).
Directories are named in directory_names.py.

Source: LogFileUtils, Snapshots. Kafka writes 20 digits, and reads any number of them; here only 20 count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
INDEX_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, *INDEX_SUFFIXES)
"""Of the files of a segment."""

DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
TEMPORARY_SUFFIX: Final = ".tmp"

QUORUM_STATE: Final = "quorum-state"
BOOTSTRAP_SNAPSHOT: Final = "bootstrap.checkpoint"
"""The metadata with which Kafka formats a log directory."""

_NAME: Final = re.compile(
    r"([0-9]{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(|\.deleted|\.cleaned|\.swap)"
)
_LOG: Final = re.compile(r"([0-9]{20})\.log")
_SNAPSHOT: Final = re.compile(r"([0-9]{20})\.snapshot")
_KRAFT_SNAPSHOT: Final = re.compile(
    r"([0-9]{20})-([0-9]{10})(\.checkpoint|\.checkpoint\.deleted|(?:-[0-9]+)?\.checkpoint\.part)"
)


class FileName(NamedTuple):
    """The parts of the name of a segment's file, or of a producer snapshot."""

    offset: int
    """The base offset of the segment, or the offset of the snapshot."""
    suffix: str
    """The kind of the file."""
    mark: str
    """`.deleted`, `.cleaned` or `.swap`; empty if the file is a part of the log."""


class KraftSnapshotName(NamedTuple):
    """The parts of the name of a snapshot of KRaft's metadata."""

    end_offset: int
    epoch: int
    is_complete: bool
    """It is neither being written nor to be removed."""


def parse_file_name(name: str) -> FileName | None:
    """The parts of the name; None for any other file."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    offset, suffix, mark = match.groups()
    return FileName(int(offset), suffix, mark)


def file_name(offset: int, suffix: str) -> str:
    """The name of a segment's file, or of a producer snapshot."""
    return f"{offset:020d}{suffix}"


def path_stem(directory: str, offset: int) -> str:
    """The path of these files, up to the suffix."""
    return f"{directory}/{offset:020d}"


def find_logs(names: Iterable[str]) -> list[tuple[int, str]]:
    """Base offset and name of the `.log` file of each segment, in offset order."""
    return [(int(match[1]), name) for name in sorted(names) if (match := _LOG.fullmatch(name)) is not None]


def snapshot_offset(name: str) -> int | None:
    """The offset of a producer snapshot; None for any other file."""
    match = _SNAPSHOT.fullmatch(name)
    return None if match is None else int(match[1])


def parse_kraft_snapshot_name(name: str) -> KraftSnapshotName | None:
    """The parts of the name; None for any other file."""
    match = _KRAFT_SNAPSHOT.fullmatch(name)
    if match is None:
        return None
    return KraftSnapshotName(int(match[1]), int(match[2]), match[3] == ".checkpoint")


def kraft_snapshot_name(end_offset: int, epoch: int) -> str:
    """The name of a complete snapshot."""
    return f"{end_offset:020d}-{epoch:010d}.checkpoint"
