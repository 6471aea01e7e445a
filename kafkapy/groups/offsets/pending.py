"""Offsets that were committed in transactions which have not ended.

A transaction's commit marker makes them the group's offsets, and its abort marker drops them. The order of
the records in the log decides, not that of the markers: an offset does not replace one whose record is later.
Such an offset is superseded. Its partition remains undecided until the marker comes, as in Apache Kafka.

Source: Apache Kafka's OffsetMetadataManager; KIP-98, KIP-447.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkapy.groups.offsets.committed_offset import EncodedOffset
    from kafkapy.protocol.types import TopicPartition


class PendingOffsets:
    """The offsets in open transactions, of all groups."""

    def __init__(self) -> None:
        self._of_group: dict[str, dict[TopicPartition, dict[int, EncodedOffset | None]]] = {}
        """Of each group and partition: the offset by producer id, in order of the log; None if superseded."""
        self._of_producer: dict[int, dict[str, dict[TopicPartition, None]]] = {}
        """Of each producer: the groups and partitions, as keys."""

    def put(self, group_id: str, key: TopicPartition, producer_id: int, offset: EncodedOffset | None) -> None:
        """Store an offset whose record is committed to the log, the latest one of its partition."""
        of_key = self._of_group.setdefault(group_id, {}).setdefault(key, {})
        of_key.pop(producer_id, None)
        of_key[producer_id] = offset
        self._of_producer.setdefault(producer_id, {}).setdefault(group_id, {})[key] = None

    def has(self, group_id: str, key: TopicPartition) -> bool:
        """Whether an open transaction has an offset of this partition."""
        return key in self._of_group.get(group_id, ())

    def keys(self, group_id: str) -> Iterable[TopicPartition]:
        """The partitions of which open transactions have offsets of the group."""
        return self._of_group.get(group_id, ())

    def groups(self) -> Iterable[str]:
        """The groups that have offsets in open transactions."""
        return self._of_group.keys()

    def groups_of(self, producer_id: int) -> list[str]:
        """The groups whose offsets the producer's open transaction has."""
        return list(self._of_producer.get(producer_id, ()))

    def end(
        self, group_id: str, producer_id: int, *, commit: bool
    ) -> list[tuple[TopicPartition, EncodedOffset]]:
        """Forget a producer's offsets of a group, whose transaction has ended.

        Returns those that count, which are none after an abort.
        """
        counting = []
        for key in tuple(self._of_producer[producer_id][group_id]):
            of_key = self._of_group[group_id][key]
            offset = of_key[producer_id]
            if commit and offset is not None:
                counting.append((key, offset))
                for earlier in of_key:
                    if earlier == producer_id:
                        break
                    of_key[earlier] = None
            self._forget(group_id, key, producer_id)
        return counting

    def supersede(self, group_id: str, later: Iterable[TopicPartition]) -> None:
        """Note that later records have set the offsets of partitions."""
        of_group = self._of_group.get(group_id)
        if of_group is None:
            return
        for key in later:
            of_key = of_group.get(key, {})
            for producer_id in of_key:
                of_key[producer_id] = None

    def remove(self, group_id: str, key: TopicPartition) -> None:
        """Forget the offsets of a partition, after a tombstone."""
        for producer_id in tuple(self._of_group.get(group_id, {}).get(key, ())):
            self._forget(group_id, key, producer_id)

    def forget(self, group_id: str) -> None:
        """Forget all offsets of a group that this broker no longer coordinates."""
        for key in tuple(self._of_group.get(group_id, ())):
            self.remove(group_id, key)

    def _forget(self, group_id: str, key: TopicPartition, producer_id: int) -> None:
        of_group, of_producer = self._of_group[group_id], self._of_producer[producer_id]
        del of_group[key][producer_id]
        if not of_group[key]:
            del of_group[key]
            if not of_group:
                del self._of_group[group_id]
        del of_producer[group_id][key]
        if not of_producer[group_id]:
            del of_producer[group_id]
            if not of_producer:
                del self._of_producer[producer_id]
