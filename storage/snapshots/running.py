"""Writes the logs of a running broker to a new directory, as a clean stop leaves them.

    linked      the files of closed segments, producer snapshots, partition.metadata
    copied      the active segment up to its end at the moment, with its indexes
    written     leader epochs, the producers at the end, the checkpoints, the mark of a clean stop

Nobody writes to a linked file again: what does change one, a truncation or a recovery, first makes it a file
of its own (`FileSystem.unshare`, `FileSystem.create`). Everything here runs in a worker thread. Nothing is
synced.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from kafkapy.storage.damage.damage import save_damage
from kafkapy.storage.disk.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    MetaProperties,
    format_leader_epochs,
    write_clean_shutdown,
    write_meta_properties,
    write_offsets,
    write_partition_metadata,
)
from kafkapy.storage.disk.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    path_stem,
)
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.index_file import CorruptIndexError
from kafkapy.storage.log.offset_index import OffsetIndex
from kafkapy.storage.log.producer_snapshots import encode_snapshot
from kafkapy.storage.log.time_index import TimeIndex
from kafkapy.storage.log.txn_index import ENTRY_SIZE, CorruptTransactionIndexError, TransactionIndex
from kafkapy.storage.snapshots.moment import LogCopy

_ANY_SIZE: Final = 1 << 30
"""The size to which an index that is only read may grow."""

CANNOT_LINK: Final = frozenset(
    {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
)


def link_or_copy(files: FileSystem, source: str, target: str) -> None:
    """Give a file that is not written again a second name.

    Where that is not possible, it is copied.

    Raises:
        OSError: the disk failed, or is full; the file is missing.
    """
    try:
        files.link(source, target)
    except OSError as error:
        if error.errno not in CANNOT_LINK:
            raise
        files.copy_start(source, target, files.size(source))


def write_logs(
    logs: Sequence[LogCopy],
    target: str,
    meta: MetaProperties,
    places: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write logs and checkpoints to the directory `target`, which exists.

    Args:
        places: where the logs of a log directory go instead.

    Raises:
        OSError: the disk failed, or is full; a segment is gone.
    """
    files = FileSystem()  # that of the logs counts the files that the event loop has open
    for log in logs:
        place = places.get(os.path.dirname(log.path), target)
        _write_log(files, log, f"{place}/{log.topic_partition}")
    for name, offsets in (
        (RECOVERY_POINTS, {log.topic_partition: log.end_offset for log in logs}),
        (HIGH_WATERMARKS, {log.topic_partition: log.high_watermark for log in logs}),
        (
            LOG_START_OFFSETS,
            {log.topic_partition: log.log_start_offset for log in logs if log.log_start_offset > log.first},
        ),
        (
            CLEANER_OFFSETS,
            {log.topic_partition: log.cleaned_offset for log in logs if log.cleaned_offset is not None},
        ),
    ):
        write_offsets(files, f"{target}/{name}", offsets, durable=False)
    write_meta_properties(files, f"{target}/{META_PROPERTIES}", meta, durable=False)
    write_clean_shutdown(files, f"{target}/{CLEAN_SHUTDOWN}", -1, durable=False)


def _write_log(files: FileSystem, log: LogCopy, target: str) -> None:
    files.make_directory(target)
    for base_offset in log.closed:
        source, stem = path_stem(log.path, base_offset), path_stem(target, base_offset)
        for suffix in SEGMENT_SUFFIXES:
            with contextlib.ExitStack() as stack:
                if suffix != LOG_SUFFIX:
                    stack.enter_context(contextlib.suppress(FileNotFoundError))  # it may have none
                link_or_copy(files, source + suffix, stem + suffix)
    _copy_active(files, log, target)
    _write_producers(files, log, target)
    if log.topic_id is not None:
        try:
            link_or_copy(files, f"{log.path}/{PARTITION_METADATA}", f"{target}/{PARTITION_METADATA}")
        except FileNotFoundError:
            write_partition_metadata(files, f"{target}/{PARTITION_METADATA}", log.topic_id, durable=False)
    if log.epochs:
        files.write_file(f"{target}/{LEADER_EPOCHS}", format_leader_epochs(log.epochs))
    if log.damage:
        save_damage(files, target, log.damage, durable=False)


def _copy_active(files: FileSystem, log: LogCopy, target: str) -> None:
    source, stem = path_stem(log.path, log.active), path_stem(target, log.active)
    files.copy_start(source + LOG_SUFFIX, stem + LOG_SUFFIX, log.size)
    if log.size == 0:
        return
    kinds: tuple[tuple[str, type[OffsetIndex | TimeIndex]], ...] = (
        (INDEX_SUFFIX, OffsetIndex),
        (TIME_INDEX_SUFFIX, TimeIndex),
    )
    for (suffix, kind), entries in zip(kinds, log.entries, strict=True):
        try:
            if entries < 0:
                index = kind(files, source + suffix, log.active, _ANY_SIZE, new=False)
                entries = _entries_below(index, log.end_offset)
            files.copy_start(source + suffix, stem + suffix, entries * kind.entry_size)
        except FileNotFoundError:
            files.create(stem + suffix)  # an index without entries has no file yet
        except CorruptIndexError:
            continue  # the start of the copy builds it from the segment
    if files.exists(source + TXN_INDEX_SUFFIX):
        nbytes = _aborted_bytes(files, source + TXN_INDEX_SUFFIX, log)
        if nbytes:
            files.copy_start(source + TXN_INDEX_SUFFIX, stem + TXN_INDEX_SUFFIX, nbytes)


def _aborted_bytes(files: FileSystem, path: str, log: LogCopy) -> int:
    """The bytes of the transaction index of the active segment that are of the moment.

    Those of a damaged one are all: the start of the copy finds the damage too, and builds it anew.
    """
    index = TransactionIndex(files, path, log.active)
    try:
        return ENTRY_SIZE * sum(txn.last_offset < log.end_offset for txn in index)
    except CorruptTransactionIndexError:
        return files.size(path)
    finally:
        index.close()


def _entries_below(index: OffsetIndex | TimeIndex, end_offset: int) -> int:
    """The number of entries of an index up to `end_offset`, which may be written meanwhile."""
    try:
        index.load_while_written()
        index.truncate_to(end_offset)
        return index.entries
    finally:
        index.close()


def _write_producers(files: FileSystem, log: LogCopy, target: str) -> None:
    for offset in log.snapshots:
        if offset < log.end_offset:
            with contextlib.suppress(FileNotFoundError):  # snapshots only save time
                link_or_copy(
                    files,
                    path_stem(log.path, offset) + SNAPSHOT_SUFFIX,
                    path_stem(target, offset) + SNAPSHOT_SUFFIX,
                )
    if log.producers or log.snapshots:
        path = path_stem(target, log.end_offset) + SNAPSHOT_SUFFIX
        files.write_file(path, encode_snapshot(log.producers))
