"""Adds to a restored directory what a later backup has up to a moment.

The directory is as of one backup, the moment lies between it and the next. Topics, their partitions and all
settings stay those of the directory. Each of its logs gets the batches that the later one has after its end,
up to the first that is newer than the moment: so do committed offsets and the states of transactions, which
are logs too. The last block of producer ids is that of the later backup, so that none is given twice.

A batch counts as new as its newest record. The clocks of producers decide, where a topic has their times.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kafkapy.loop.clock import Clock
from kafkapy.metadata import znodes
from kafkapy.metadata.sqlite_tree import SqliteTree
from kafkapy.metadata.store import MetadataStoreError, SetData
from kafkapy.protocol.records import iter_headers
from kafkapy.protocol.types import TopicPartition, Uuid
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.disk.directory_names import METADATA_FILE
from kafkapy.storage.disk.log_directory import Durability
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.tools.backup.store import BackupError

_AT_ONCE: Final = 4 << 20
"""The bytes that are read at once, unless a batch is larger."""


def add_later_records(directory: Path, later: Path, until_ms: int) -> int:
    """Add records up to a moment; return their number of bytes.

    Raises:
        BackupError: the metadata cannot be read; or the later backup is not of what became of the directory.
        KafkaError: a log is damaged, or a disk failed.
    """
    partitions = _take_producer_ids(directory, later)
    added = 0
    with _opened(directory, "fsync") as logs, _opened(later, "os") as newer:
        for topic_partition, topic_id in partitions.items():
            source = newer.get(topic_partition)
            if source is None or source.topic_id != topic_id:
                continue
            known = logs.get(topic_partition)
            log = known or logs.create(topic_partition, topic_id, logs.defaults, new=True)
            added += _extend(log, source, until_ms)
    return added


@contextmanager
def _opened(directory: Path, durability: Durability) -> Iterator[LogManager]:
    logs = LogManager([directory], defaults=LogConfig(), clock=Clock(), durability=durability)
    identity = logs.open()
    is_clean = False
    try:
        logs.load(identity.cluster_id or "", -1 if identity.node_id is None else identity.node_id)
        yield logs
        is_clean = True
    finally:
        logs.close(clean=is_clean)


def _extend(log: PartitionLog, source: PartitionLog, until_ms: int) -> int:
    _require_continuation(log, source)
    if source.log_start_offset > log.log_end_offset:
        log.truncate_fully_and_start_at(source.log_start_offset)  # retention has removed what was in between
    if source.cleaned_offset is not None and log.cleaned_offset is None:
        log.cleaned_offset = 0  # gaps between batches are no damage
    offset, added = log.log_end_offset, 0
    while (found := source.read(offset, _AT_ONCE, upper_bound=source.log_end_offset)) is not None:
        try:
            data = bytearray(found.slice.read())
        finally:
            found.slice.release()
        end = next((at for at, header in iter_headers(data) if header.max_timestamp > until_ms), len(data))
        start = next((at for at, header in iter_headers(data) if header.last_offset >= offset), len(data))
        if start < end:
            log.append_as_follower(memoryview(data)[start:end], now_ms=until_ms)
            added += end - start
        if end < len(data):
            break
        offset = found.end_offset
    log.advance_high_watermark(log.log_end_offset)
    return added


def _require_continuation(log: PartitionLog, source: PartitionLog) -> None:
    """Raise BackupError unless the later log continues where the earlier one ends.

    A broker that was restored to an earlier moment has other records at the same offsets.
    """
    end = log.log_end_offset
    is_other = source.log_end_offset < end
    is_compacted = source.cleaned_offset is not None
    if not is_other and not is_compacted and max(log.log_start_offset, source.log_start_offset) < end:
        is_other = _checksum(log, end - 1) != _checksum(source, end - 1)
    if is_other:
        raise BackupError(
            f"the backups around that moment do not follow each other: {log.topic_partition} of the later one"
            " is that of a broker that was restored to an earlier moment. Name the moment of a backup."
        )


def _checksum(log: PartitionLog, offset: int) -> int | None:
    """The checksum of the batch with an offset."""
    found = log.read(offset, 1, upper_bound=log.log_end_offset)
    if found is None:
        return None
    try:
        data = bytearray(found.slice.read())
    finally:
        found.slice.release()
    return next((header.crc for _, header in iter_headers(data) if header.last_offset >= offset), None)


def _take_producer_ids(directory: Path, later: Path) -> dict[TopicPartition, Uuid]:
    """Take the last block of producer ids over; return the partitions of all topics."""
    try:
        newer = SqliteTree(str(later / METADATA_FILE), sync=False)
        try:
            block = newer.read(znodes.PRODUCER_ID_BLOCK)
        finally:
            newer.close()
        tree = SqliteTree(str(directory / METADATA_FILE), sync=True)
        try:
            if block is not None:
                tree.begin()
                tree.apply([SetData(znodes.PRODUCER_ID_BLOCK, block.data)], 0)
                tree.commit()
            return dict(_partitions(tree))
        finally:
            tree.close()
    except MetadataStoreError as error:
        raise BackupError(f"the metadata of the backup cannot be read: {error}") from None


def _partitions(tree: SqliteTree) -> Iterator[tuple[TopicPartition, Uuid]]:
    for name in tree.children(znodes.TOPICS):
        path = znodes.topic_path(name)
        node = tree.read(path)
        if node is None:
            continue
        topic_id, assignment = znodes.decode_topic(path, node.data)
        if topic_id is not None:
            for index in range(len(assignment)):
                yield TopicPartition(name, index), topic_id
