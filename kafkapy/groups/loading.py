"""Loads the groups and offsets of a partition of `__consumer_offsets`.

There may be a million offsets. Each remains the bytes of its value, and the name of a partition is kept once.

It runs in a worker thread and shares no state. Source: the replay methods of Apache Kafka's
GroupMetadataManager and OffsetMetadataManager.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkapy.coordination.replay import LastRecords
from kafkapy.groups.consumer.records import CONSUMER_RECORDS, ConsumerChange
from kafkapy.groups.offsets.committed_offset import EncodedOffset, require_readable
from kafkapy.groups.records import (
    GroupKey,
    OffsetKey,
    decode_group_value,
    decode_key,
)
from kafkapy.groups.share.records import SHARE_RECORDS, ShareChange, ShareGroupKey
from kafkapy.groups.streams.records import STREAMS_RECORDS, StreamsChange, StreamsGroupKey
from kafkapy.protocol.messages.group_records import GroupMetadataValue
from kafkapy.protocol.types import TopicPartition


@dataclass(slots=True)
class LoadedPartition:
    """The groups of a partition and their offsets."""

    groups: dict[str, GroupMetadataValue] = field(default_factory=dict)
    offsets: dict[str, dict[TopicPartition, EncodedOffset]] = field(default_factory=dict)
    consumer_groups: dict[str, list[ConsumerChange]] = field(default_factory=dict)
    """The records of each consumer group."""
    share_groups: dict[str, list[ShareChange]] = field(default_factory=dict)
    """The records of each share group."""
    streams_groups: dict[str, list[StreamsChange]] = field(default_factory=dict)
    """The records of each streams group."""
    pending: list[tuple[str, TopicPartition, int, EncodedOffset | None]] = field(default_factory=list)
    """The offsets in open transactions, in order of the log: group, partition, producer id and offset.

    The offset is None if a later one counts.
    """


class GroupReplay:
    """Reads a partition (`kafkapy.coordination.runtime.Replay`)."""

    def __init__(self, name: str) -> None:
        self._records = LastRecords(name)
        self._loaded = LoadedPartition()
        self._offsets: dict[bytes, dict[TopicPartition, EncodedOffset]] = {}
        """The offsets of each group, by the bytes that begin their keys: type and group."""
        self._partitions: dict[bytes, TopicPartition] = {}
        """Each partition that has an offset, by the bytes that end the keys."""

    def add(self, batches: bytes) -> None:
        """Add complete batches.

        Raises DecodeError if the bytes are not batches.
        """
        self._records.add(batches)

    def result(self) -> LoadedPartition:
        """The groups and offsets of all batches."""
        self._loaded = LoadedPartition()
        self._offsets.clear()
        self._records.replay(self._take)
        self._records.replay_pending(self._take_pending)
        return self._loaded

    def _take(self, raw_key: bytes, value: bytes) -> None:
        start = 4 + int.from_bytes(raw_key[2:4])
        offsets, partition = self._offsets.get(raw_key[:start]), self._partitions.get(raw_key[start:])
        if offsets is not None and partition is not None:
            require_readable(value)
            offsets[partition] = value
            return
        key = decode_key(raw_key)
        if isinstance(key, OffsetKey):
            require_readable(value)
            offsets = self._loaded.offsets.setdefault(key.group_id, {})
            partition = self._partitions.setdefault(raw_key[start:], key.partition)
            self._offsets[raw_key[:start]] = offsets
            offsets[partition] = value
        elif isinstance(key, GroupKey):
            self._loaded.groups[key.group_id] = decode_group_value(value)
        elif isinstance(key, ShareGroupKey):
            share_change = SHARE_RECORDS.decode_change(key, value)
            self._loaded.share_groups.setdefault(key.group_id, []).append(share_change)
        elif isinstance(key, StreamsGroupKey):
            streams_change = STREAMS_RECORDS.decode_change(key, value)
            self._loaded.streams_groups.setdefault(key.group_id, []).append(streams_change)
        elif key is not None:
            change = CONSUMER_RECORDS.decode_change(key, value)
            self._loaded.consumer_groups.setdefault(key.group_id, []).append(change)

    def _take_pending(self, producer_id: int, raw_key: bytes, value: bytes, superseded: bool) -> None:
        key = decode_key(raw_key)
        if isinstance(key, OffsetKey):
            offset = None if superseded else value
            if offset is not None:
                require_readable(offset)
            self._loaded.pending.append((key.group_id, key.partition, producer_id, offset))
