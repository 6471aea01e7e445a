"""Loads the groups and offsets of a partition of `__consumer_offsets`.

There may be a million offsets. What many of them have in common is kept once: partitions, topic ids, times,
metadata.

It runs in a worker thread and shares no state. Source: the replay methods of Apache Kafka's
GroupMetadataManager and OffsetMetadataManager.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kafkapy.coordination.replay import LastRecords
from kafkapy.groups.consumer.records import Change, decode_consumer_change
from kafkapy.groups.offsets import CommittedOffset
from kafkapy.groups.records import (
    GroupKey,
    OffsetKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
    offset_key_parts,
)
from kafkapy.groups.share.records import SHARE_KEYS, ShareChange, decode_share_change
from kafkapy.groups.streams.records import Change as StreamsChange
from kafkapy.groups.streams.records import StreamsGroupKey, decode_streams_change
from kafkapy.protocol.messages.group_records import GroupMetadataValue
from kafkapy.protocol.types import TopicPartition


@dataclass(slots=True)
class LoadedPartition:
    """The groups of a partition and their offsets."""

    groups: dict[str, GroupMetadataValue] = field(default_factory=dict)
    offsets: dict[str, dict[TopicPartition, CommittedOffset]] = field(default_factory=dict)
    consumer_groups: dict[str, list[Change]] = field(default_factory=dict)
    """The records of each consumer group."""
    share_groups: dict[str, list[ShareChange]] = field(default_factory=dict)
    """The records of each share group."""
    streams_groups: dict[str, list[StreamsChange]] = field(default_factory=dict)
    """The records of each streams group."""
    pending: list[tuple[str, TopicPartition, int, CommittedOffset | None]] = field(default_factory=list)
    """The offsets in open transactions, in order of the log: group, partition, producer id and offset.

    The offset is None if a later one counts.
    """


class GroupReplay:
    """Reads a partition (`kafkapy.coordination.runtime.Replay`)."""

    def __init__(self, name: str) -> None:
        self._records = LastRecords(name)
        self._loaded = LoadedPartition()
        self._partitions: dict[bytes, TopicPartition] = {}
        """Each partition that has an offset, by its bytes in the key."""
        self._values: dict[Any, Any] = {}
        """What offsets consist of, by itself."""

    def add(self, batches: bytes) -> None:
        """Add complete batches.

        Raises DecodeError if the bytes are not batches.
        """
        self._records.add(batches)

    def result(self) -> LoadedPartition:
        """The groups and offsets of all batches."""
        self._loaded = LoadedPartition()
        self._records.replay(self._take)
        self._records.replay_pending(self._take_pending)
        return self._loaded

    def _take(self, raw_key: bytes, value: bytes) -> None:
        parts = offset_key_parts(raw_key)
        if parts is not None:
            group_id, partition = parts
            self._put_offset(group_id, self._partition(raw_key, partition), value)
            return
        key = decode_key(raw_key)
        if isinstance(key, OffsetKey):
            self._put_offset(key.group_id, key.partition, value)
        elif isinstance(key, GroupKey):
            self._loaded.groups[key.group_id] = decode_group_value(value)
        elif isinstance(key, SHARE_KEYS):
            share_change = decode_share_change(key, value)
            self._loaded.share_groups.setdefault(key.group_id, []).append(share_change)
        elif isinstance(key, StreamsGroupKey):
            self._loaded.streams_groups.setdefault(key.group_id, []).append(decode_streams_change(key, value))
        elif key is not None:
            change = decode_consumer_change(key, value)
            self._loaded.consumer_groups.setdefault(key.group_id, []).append(change)

    def _put_offset(self, group_id: str, partition: TopicPartition, value: bytes) -> None:
        committed = self._shared(decode_offset_value(value))
        self._loaded.offsets.setdefault(group_id, {})[partition] = committed

    def _partition(self, raw_key: bytes, partition: bytes) -> TopicPartition:
        known = self._partitions.get(partition)
        if known is None:
            key = decode_key(raw_key)
            assert isinstance(key, OffsetKey)
            known = self._partitions[partition] = key.partition
        return known

    def _shared(self, committed: CommittedOffset) -> CommittedOffset:
        """The same offset, of values that others have too."""
        offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id = committed
        one = self._values.setdefault
        return CommittedOffset(
            offset,
            leader_epoch,
            one(metadata, metadata),
            one(commit_timestamp, commit_timestamp),
            expire_timestamp,
            one(topic_id, topic_id),
        )

    def _take_pending(self, producer_id: int, raw_key: bytes, value: bytes, superseded: bool) -> None:
        key = decode_key(raw_key)
        if isinstance(key, OffsetKey):
            offset = None if superseded else decode_offset_value(value)
            self._loaded.pending.append((key.group_id, key.partition, producer_id, offset))
