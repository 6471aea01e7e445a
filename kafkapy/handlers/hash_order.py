"""The order of Apache Kafka's hash tables, in which it lists groups and members.

No client may rely on it, but tests compare lists. Groups, members, topics and the numbers of partitions are
keys of a TimelineHashMap. The number of its slots is a power of two, and doubles before there are a third
more keys than slots. The highest bits of a product with Java's hash of the key are the slot. Within a slot
the key that was added last is first.

The partitions that a broker coordinates are keys of a ConcurrentHashMap, which doubles when it is three
quarters full. The lowest bits of the hash are the slot.

Source: Apache Kafka's TimelineHashMap, BaseHashTable, TopicPartition; Java's ConcurrentHashMap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeVar

from kafkapy.coordination.partitioning import java_hash
from kafkapy.handlers.per_partition import visit_each
from kafkapy.loop.turns import Steps

MULTIPLIER: Final = -7046029254386353131
K = TypeVar("K")

LONG: Final = 64
INT: Final = 32


def names_in_hash_order(names: Collection[str]) -> Steps[list[str]]:
    """Names in the order of a table that has grown for so many."""
    return in_hash_order(names, java_hash)


def in_hash_order(keys: Collection[K], hash_of: Callable[[K], int]) -> Steps[list[K]]:
    """Keys with this hash in the order of a table that has grown for so many."""
    bits = 1
    while 0.75 * len(keys) > 1 << bits:
        bits += 1
    slots: dict[int, list[K]] = {}

    def place(key: K) -> None:
        product = (hash_of(key) * MULTIPLIER) % (1 << LONG)
        slots.setdefault(product >> (LONG - bits), []).append(key)

    yield from visit_each(keys, place)
    ordered: list[K] = []
    yield from visit_each(
        range(1 << bits if slots else 0), lambda slot: ordered.extend(reversed(slots.get(slot, ())))
    )
    return ordered


def partitions_in_hash_order(topic: str, partitions: Collection[int]) -> list[int]:
    """The partitions of a topic in the order of a table that has grown for so many."""
    bits = 4
    while len(partitions) >= 0.75 * (1 << bits):
        bits += 1
    topic_hash = java_hash(topic)

    def slot(partition: int) -> int:
        code = (31 * (31 + partition) + topic_hash) % (1 << INT)
        return (code ^ code >> 16) % (1 << bits)

    return sorted(partitions, key=slot)
