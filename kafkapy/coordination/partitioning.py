"""The partition of an internal topic for a key, such as a group's id.

It is the hash of the key modulo the number of partitions, as in every Kafka release. The hash is Java's
String.hashCode, over UTF-16.
"""

from __future__ import annotations

import codecs
import struct
from functools import lru_cache
from operator import mul
from typing import Final

LONGEST_KEPT: Final = 256
"""The most characters of a key whose partition is kept.

Clients choose their keys. With all that are kept, these take at most 8 MiB.
"""

_UNITS_AT_ONCE: Final = 256
_POWERS: Final = tuple(pow(31, place, 1 << 32) for place in range(_UNITS_AT_ONCE + 1))


def java_hash(text: str) -> int:
    """Java's String.hashCode."""
    # utf_16_be_encode, since str.encode would import the codec's module, which takes a descriptor.
    encoded, _ = codecs.utf_16_be_encode(text, "surrogatepass")
    units = struct.unpack(f">{len(encoded) // 2}H", encoded)
    value = 0
    for start in range(0, len(units), _UNITS_AT_ONCE):
        part = units[start : start + _UNITS_AT_ONCE]
        value = value * _POWERS[len(part)] + sum(map(mul, reversed(part), _POWERS)) & 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value


def partition_of(key: str, partitions: int) -> int:
    """The partition of a key."""
    if len(key) <= LONGEST_KEPT:
        return _kept(key, partitions)
    return _partition_of(key, partitions)


def _partition_of(key: str, partitions: int) -> int:
    """The partition of a key.

    Kafka's Utils.abs returns 0 for the one number without a positive counterpart.
    """
    value = java_hash(key)
    return (0 if value == -0x80000000 else abs(value)) % partitions


_kept = lru_cache(maxsize=8192)(_partition_of)
