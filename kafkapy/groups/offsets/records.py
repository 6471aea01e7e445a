"""The keys of committed offsets in `__consumer_offsets`: `int16 1, OffsetCommitKey`.

The value is in committed_offset.py. Offset records are the most frequent internal records, so their keys are
encoded by hand; a test compares them with the codec.

Source: Apache Kafka's GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from kafkapy.groups.offsets.committed_offset import EncodedOffset
from kafkapy.protocol.plain_batch import KeyValue
from kafkapy.protocol.types import TopicPartition

MAX_PARTITION_KEYS: Final = 10_000
"""The most partitions whose part of a key is remembered."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_TYPE_AND_LENGTH: Final = struct.Struct(">hh")


def offset_records(group_id: str, offsets: Mapping[TopicPartition, EncodedOffset | None]) -> list[KeyValue]:
    """The records of a group's offsets, in their order.

    A key is `int16 1, OffsetCommitKey`. The value is that of the offset, None for a tombstone.
    """
    group = group_id.encode()
    start = _TYPE_AND_LENGTH.pack(1, len(group)) + group
    ends = _PARTITION_KEYS
    return [(start + ends[partition], value) for partition, value in offsets.items()]


class _PartitionKeys(dict[TopicPartition, bytes]):
    """The end of an OffsetCommitKey, the same for all groups, by partition.

    When there are very many, all are forgotten.
    """

    def __missing__(self, partition: TopicPartition) -> bytes:
        if len(self) >= MAX_PARTITION_KEYS:
            self.clear()
        name = partition.topic.encode()
        end = b"".join((_INT16.pack(len(name)), name, _INT32.pack(partition.partition)))
        self[partition] = end
        return end


_PARTITION_KEYS: Final = _PartitionKeys()
