"""Committed offsets, by group and topic partition.

They are the offsets in the committed part of `__consumer_offsets`. A commit becomes visible when its record
is committed (with durability=fsync: when it is on disk), in log order. Until then only its key is kept. The
removal of a group's offsets writes a tombstone for such a key too: the tombstone comes after the commit in
the log. The offset of such a key does not expire, nor does one of which an open transaction has another
(pending_offsets.py).

Source: Apache Kafka's OffsetMetadataManager; KIP-211 for when offsets expire.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Final

from kafkapy.groups.group import Group
from kafkapy.groups.offsets.committed_offset import NO_EXPIRY, EncodedOffset, decode_offset
from kafkapy.groups.offsets.pending import PendingOffsets
from kafkapy.loop.turns import Steps
from kafkapy.protocol.types import TopicPartition

CHECKED_AT_ONCE: Final = 500
"""The offsets whose age is looked at in one piece."""
_NOTHING: Final[Mapping[TopicPartition, EncodedOffset]] = MappingProxyType({})


class Offsets:
    """The committed offsets of all groups."""

    def __init__(self) -> None:
        self.pending = PendingOffsets()
        """The offsets in open transactions."""
        self._committed: dict[str, dict[TopicPartition, EncodedOffset]] = {}
        self._writing: dict[str, list[Collection[TopicPartition]]] = {}
        """The keys of each write that is on its way."""

    def of_group(self, group_id: str) -> Mapping[TopicPartition, EncodedOffset]:
        """The committed offsets of a group."""
        return self._committed.get(group_id, _NOTHING)

    def keys(self, group_id: str) -> list[TopicPartition]:
        """The partitions whose offset of the group is committed, pending or being written."""
        keys = dict.fromkeys(self._committed.get(group_id, ())) | dict.fromkeys(self.pending.keys(group_id))
        return list(keys | dict.fromkeys(chain.from_iterable(self._writing.get(group_id, ()))))

    def groups(self) -> Iterable[str]:
        """The groups whose offsets are committed, pending or being written."""
        return {*self._committed, *self.pending.groups(), *self._writing}

    def is_undecided(self, group_id: str, key: TopicPartition) -> bool:
        """Whether a commit of this partition is on its way into the log, or in an open transaction."""
        return any(key in keys for keys in self._writing.get(group_id, ())) or self.pending.has(group_id, key)

    def may_hold(self, group_id: str, key: TopicPartition) -> bool:
        """Whether the log may hold an offset of this partition, now or in a moment."""
        return key in self._committed.get(group_id, _NOTHING) or self.is_undecided(group_id, key)

    def is_empty(self, group_id: str) -> bool:
        """Whether the group has no committed or pending offsets, and none that are being written."""
        return group_id not in self.groups()

    def begin_write(self, group_id: str, keys: Collection[TopicPartition]) -> None:
        """Note that a record of each of these keys is being written."""
        self._writing.setdefault(group_id, []).append(keys)

    def end_write(self, group_id: str, keys: Collection[TopicPartition]) -> None:
        """Note that the write that began with this very object is committed or has failed."""
        writing = self._writing[group_id]
        for index, each in enumerate(writing):
            if each is keys:
                del writing[index]
                break
        if not writing:
            del self._writing[group_id]

    def put(self, group_id: str, offsets: Mapping[TopicPartition, EncodedOffset]) -> None:
        """Store offsets whose records are committed."""
        self._committed.setdefault(group_id, {}).update(offsets)
        self.pending.supersede(group_id, offsets)

    def load(self, group_id: str, offsets: dict[TopicPartition, EncodedOffset]) -> None:
        """Take over the offsets of a group that were read from the log, none of which is pending."""
        known = self._committed.setdefault(group_id, offsets)
        if known is not offsets:
            known.update(offsets)

    def end_transaction(self, group_id: str, producer_id: int, *, commit: bool) -> None:
        """Store the group's offsets of a transaction whose marker is committed, or drop them."""
        for key, offset in self.pending.end(group_id, producer_id, commit=commit):
            self._committed.setdefault(group_id, {})[key] = offset

    def remove(self, group_id: str, key: TopicPartition) -> None:
        """Remove an offset whose tombstone is committed."""
        self.pending.remove(group_id, key)
        offsets = self._committed.get(group_id)
        if offsets is not None:
            offsets.pop(key, None)
            if not offsets:
                del self._committed[group_id]

    def forget(self, group_id: str) -> None:
        """Drop the offsets of a group that this broker no longer coordinates."""
        self.pending.forget(group_id)
        self._committed.pop(group_id, None)

    def expired(self, group: Group, now_ms: int, retention_ms: int) -> Steps[list[TopicPartition]]:
        """The partitions whose offsets are past their retention (`Group.retention_start`)."""
        group_id = group.group_id
        expired: list[tuple[TopicPartition, EncodedOffset]] = []
        for count, (key, encoded) in enumerate(tuple(self.of_group(group_id).items())):
            if count % CHECKED_AT_ONCE == 0:
                yield
            offset = decode_offset(encoded)
            start = group.retention_start(offset.commit_timestamp)
            if start is None:
                return []
            if offset.expire_timestamp != NO_EXPIRY:
                is_over = now_ms >= offset.expire_timestamp
            else:
                is_over = now_ms - start >= retention_ms
            if is_over and not group.is_subscribed(key.topic):
                expired.append((key, encoded))
        present = self.of_group(group_id)
        return [
            key
            for key, encoded in expired
            if present.get(key) is encoded and not self.is_undecided(group_id, key)
        ]
