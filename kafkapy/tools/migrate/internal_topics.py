"""The reader of Kafka's internal topics and of producer state for an import.

It reads the groups and their protocols, the transactions that have not ended, and the highest producer id.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from kafkapy.protocol.coordinator_records import decode_key, decode_value
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue
from kafkapy.protocol.records import MAGIC, Record, decode_records, read_header
from kafkapy.protocol.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kafkapy.storage.disk.file_names import find_logs, snapshot_offset
from kafkapy.storage.log.batches import BadBatchError, iter_batches
from kafkapy.storage.log.producer_snapshots import CorruptSnapshotError, decode_snapshot
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.migrate.source import PartitionFolder

_KEY_TYPE: Final = struct.Struct(">hh")  # type, length of the group id
_OFFSETS: Final = (0, 1)
_CLASSIC: Final = 2
_CONSUMER: Final = frozenset({3, 4, 5, 6, 7, 8, 16})
_STREAMS: Final = frozenset({17, 18, 19, 20, 21, 22, 23})
_OPEN: Final = {1: "open", 2: "being committed", 3: "being aborted"}


@dataclass(slots=True)
class InternalTopics:
    """The content of `__consumer_offsets` and `__transaction_state`."""

    groups_with_offsets: set[str] = field(default_factory=set)
    classic_groups: set[str] = field(default_factory=set)
    consumer_groups: set[str] = field(default_factory=set)
    """Groups of the consumer protocol (KIP-848)."""
    streams_groups: set[str] = field(default_factory=set)
    """Streams groups (KIP-1071)."""
    other_groups: set[str] = field(default_factory=set)
    """Share groups."""
    open_transactions: list[str] = field(default_factory=list)
    """Each as text: transactional id, state and partitions."""
    transactional_ids: int = 0
    highest_producer_id: int = -1


def read_internal_topics(files: ReadOnlyFiles, folders: Iterable[PartitionFolder]) -> InternalTopics:
    """Read the partitions of the internal topics among `folders`.

    Raises:
        OSError: the disk failed.
    """
    found = InternalTopics()
    for folder in folders:
        if folder.topic_partition.topic == GROUP_METADATA_TOPIC:
            _read_groups(_last_values(files, folder.path), found)
        elif folder.topic_partition.topic == TRANSACTION_STATE_TOPIC:
            _read_transactions(_last_values(files, folder.path), found)
    return found


def highest_producer_id(files: ReadOnlyFiles, path: str) -> int:
    """Return the highest producer id in a partition's directory; -1 if there is none.

    It reads the producer snapshots, and the batches after the newest snapshot.

    Raises:
        OSError: the disk failed.
    """
    names = [entry.name for entry in files.scan(path)]
    highest, snapshot = -1, 0
    for name in names:
        offset = snapshot_offset(name)
        if offset is None:
            continue
        try:
            highest = max(highest, *decode_snapshot(files.read(f"{path}/{name}")), -1)
        except CorruptSnapshotError:
            continue
        snapshot = max(snapshot, offset)
    for name in _segments(names, snapshot):
        file = files.open(f"{path}/{name}")
        try:
            for _, batch in iter_batches(files, file, 0, files.size_of(file)):
                header = read_header(batch)
                if header.magic == MAGIC and header.next_offset > snapshot:
                    highest = max(highest, header.producer_id)
        except (BadBatchError, DecodeError):
            continue
        finally:
            file.release()
    return highest


def _segments(names: Iterable[str], offset: int) -> list[str]:
    """Return the names of the segments that may hold something at or above `offset`."""
    logs = find_logs(names)
    first = max((index for index, (base_offset, _) in enumerate(logs) if base_offset <= offset), default=0)
    return [name for _, name in logs[first:]]


def _last_values(files: ReadOnlyFiles, path: str) -> dict[bytes, bytes]:
    """Return the last value of each key, up to the first batch that cannot be read."""
    last: dict[bytes, bytes] = {}
    for record in _records(files, path):
        if record.key is None:
            continue
        if record.value is None:
            last.pop(record.key, None)
        else:
            last[record.key] = record.value
    return last


def _records(files: ReadOnlyFiles, path: str) -> Iterator[Record]:
    for name in _segments([entry.name for entry in files.scan(path)], 0):
        file = files.open(f"{path}/{name}")
        try:
            for _, batch in iter_batches(files, file, 0, files.size_of(file)):
                header = read_header(batch)
                if header.magic == MAGIC and not header.is_control:
                    yield from decode_records(batch, 0, header)
        except (BadBatchError, DecodeError):
            return
        finally:
            file.release()


def _read_groups(values: dict[bytes, bytes], found: InternalTopics) -> None:
    for key in values:
        if len(key) < _KEY_TYPE.size:
            continue
        kind, length = _KEY_TYPE.unpack_from(key)
        group = key[_KEY_TYPE.size : _KEY_TYPE.size + length].decode(errors="replace")
        if kind in _OFFSETS:
            found.groups_with_offsets.add(group)
        elif kind == _CLASSIC:
            found.classic_groups.add(group)
        elif kind in _CONSUMER:
            found.consumer_groups.add(group)
        elif kind in _STREAMS:
            found.streams_groups.add(group)
        else:
            found.other_groups.add(group)


def _read_transactions(values: dict[bytes, bytes], found: InternalTopics) -> None:
    for raw_key, value in values.items():
        try:
            key = decode_key(TransactionLogKey, raw_key)
            state, _ = decode_value(TransactionLogValue, value)
        except DecodeError:
            continue
        found.transactional_ids += 1
        found.highest_producer_id = max(found.highest_producer_id, state.producer_id)
        if state.transaction_status in _OPEN:
            partitions = ", ".join(
                f"{each.topic}-{index}"
                for each in state.transaction_partitions or []
                for index in sorted(each.partition_ids)
            )
            found.open_transactions.append(
                f"{key.transactional_id} ({_OPEN[state.transaction_status]}, in {partitions})"
            )
