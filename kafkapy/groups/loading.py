"""What a partition of `__consumer_offsets` says once all of it has been read.

It runs in a worker thread: nothing here is shared. Source: the replay methods of Apache Kafka's
GroupMetadataManager and OffsetMetadataManager.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkapy.coordination.replay import LastRecords
from kafkapy.groups.offsets import CommittedOffset
from kafkapy.groups.records import OffsetKey, decode_group_value, decode_key, decode_offset_value
from kafkapy.protocol.messages.group_records import GroupMetadataValue
from kafkapy.protocol.types import TopicPartition


@dataclass(slots=True)
class LoadedPartition:
    """The groups of a partition and their offsets."""

    groups: dict[str, GroupMetadataValue] = field(default_factory=dict)
    offsets: dict[str, dict[TopicPartition, CommittedOffset]] = field(default_factory=dict)


class GroupReplay:
    """Reads a partition (`kafkapy.coordination.runtime.Replay`)."""

    def __init__(self, name: str) -> None:
        self._records = LastRecords(name)
        self._loaded = LoadedPartition()

    def add(self, batches: bytes) -> None:
        """Take in whole batches. Raises DecodeError where the bytes are not batches."""
        self._records.add(batches)

    def result(self) -> LoadedPartition:
        """What all batches together say."""
        self._loaded = LoadedPartition()
        self._records.replay(self._take)
        return self._loaded

    def _take(self, raw_key: bytes, value: bytes) -> None:
        key = decode_key(raw_key)
        if isinstance(key, OffsetKey):
            committed = decode_offset_value(value)
            self._loaded.offsets.setdefault(key.group_id, {})[key.partition] = committed
        elif key is not None:
            self._loaded.groups[key.group_id] = decode_group_value(value)
