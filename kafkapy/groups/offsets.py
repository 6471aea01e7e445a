"""Committed offsets, by group and topic partition.

They are what the committed part of `__consumer_offsets` says, no more. A commit becomes visible when its
record is committed (with durability=fsync: when it is on disk), in the order of the log. Until then its key
is only known as being written. Whoever removes a group's offsets must write a tombstone for that key too,
since the tombstone comes after the commit in the log. Nothing expires under such a key.

Source: Apache Kafka's OffsetMetadataManager; KIP-211 for when offsets expire.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from kafkapy.groups.group import Group
from kafkapy.protocol.types import ZERO_UUID, TopicPartition, Uuid

NO_EXPIRY: Final = -1
_NOTHING: Final[Mapping[TopicPartition, CommittedOffset]] = MappingProxyType({})


class CommittedOffset(NamedTuple):
    """One committed offset. Times are wall clock milliseconds."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = NO_EXPIRY
    """Only what OffsetCommit v2-v4 asks for itself; otherwise the broker's retention decides."""
    topic_id: Uuid = ZERO_UUID

    def is_of_topic(self, topic_id: Uuid) -> bool:
        """False when both topic ids are known and differ: the topic was deleted and created again."""
        return ZERO_UUID in (topic_id, self.topic_id) or topic_id == self.topic_id


class Offsets:
    """The committed offsets of all groups."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._writing: dict[str, dict[TopicPartition, int]] = {}
        """How many records of a key are on their way into the log."""

    def of_group(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """The committed offsets of a group."""
        return self._committed.get(group_id, _NOTHING)

    def keys(self, group_id: str) -> list[TopicPartition]:
        """Partitions for which the log may hold an offset of the group, now or in a moment."""
        return list(self._committed.get(group_id, {}) | self._writing.get(group_id, {}))

    def groups(self) -> Iterable[str]:
        """The groups that have offsets, or are about to."""
        return self._committed.keys() | self._writing.keys()

    def is_empty(self, group_id: str) -> bool:
        """Whether the group has no offsets and nobody is writing any."""
        return group_id not in self._committed and group_id not in self._writing

    def begin_write(self, group_id: str, keys: Iterable[TopicPartition]) -> None:
        """Records of these keys were handed to the log."""
        writing = self._writing.setdefault(group_id, {})
        for key in keys:
            writing[key] = writing.get(key, 0) + 1

    def end_write(self, group_id: str, keys: Iterable[TopicPartition]) -> None:
        """They are committed, or have failed."""
        writing = self._writing[group_id]
        for key in keys:
            if writing[key] == 1:
                del writing[key]
            else:
                writing[key] -= 1
        if not writing:
            del self._writing[group_id]

    def put(self, group_id: str, key: TopicPartition, offset: CommittedOffset) -> None:
        """A commit is in the log."""
        self._committed.setdefault(group_id, {})[key] = offset

    def remove(self, group_id: str, key: TopicPartition) -> None:
        """A tombstone is in the log."""
        offsets = self._committed.get(group_id)
        if offsets is not None:
            offsets.pop(key, None)
            if not offsets:
                del self._committed[group_id]

    def forget(self, group_id: str) -> None:
        """The group is not coordinated here any more."""
        self._committed.pop(group_id, None)

    def expired(self, group: Group, now_ms: int, retention_ms: int) -> list[TopicPartition]:
        """The partitions whose offsets have outlived their time (`Group.retention_start`)."""
        writing = self._writing.get(group.group_id, {})
        expired = []
        for key, offset in self.of_group(group.group_id).items():
            start = group.retention_start(offset.commit_timestamp)
            if start is None:
                return []
            if offset.expire_timestamp != NO_EXPIRY:
                is_over = now_ms >= offset.expire_timestamp
            else:
                is_over = now_ms - start >= retention_ms
            if is_over and key not in writing and not group.is_subscribed(key.topic):
                expired.append(key)
        return expired
