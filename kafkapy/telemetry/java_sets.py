"""The order of Java's HashSet, of which the number of a subscription is made.

The number of slots is a power of two, at least 16, and doubles when they are three quarters full. The lowest
bits of the hash are the slot, after its upper half is XORed into the lower one. In a slot, the key that was
added first is first.

Source: Java's HashMap; Apache Kafka's Uuid.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kafkapy.coordination.partitioning import java_hash
from kafkapy.protocol.types import Uuid

FEWEST_SLOTS: Final = 16


def in_set_order(names: Collection[str]) -> list[str]:
    """Different names in the order of a set to which they were added."""
    slots = FEWEST_SLOTS
    while len(names) > 0.75 * slots:
        slots *= 2

    def slot(name: str) -> int:
        code = java_hash(name) & 0xFFFFFFFF
        return (code ^ code >> 16) & (slots - 1)

    return sorted(names, key=slot)


def uuid_hash(uuid: Uuid) -> int:
    """Kafka's hash code of a UUID."""
    return (
        int.from_bytes(uuid[:4])
        ^ int.from_bytes(uuid[4:8])
        ^ (int.from_bytes(uuid[8:12]) ^ int.from_bytes(uuid[12:]))
    )
