"""The hash by which Java's producers choose the partition of a key.

Source: MurmurHash2 of Austin Appleby (public domain), with the seed of Kafka's Utils.murmur2.
"""

from __future__ import annotations

from typing import Final

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The hash of these bytes, from 0 to 2**32 - 1."""
    result = _SEED ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        mixed = int.from_bytes(data[at : at + 4], "little") * _FACTOR & _MASK
        mixed = (mixed ^ mixed >> 24) * _FACTOR & _MASK
        result = (result * _FACTOR & _MASK) ^ mixed
    if rest := data[whole:]:
        result = (result ^ int.from_bytes(rest, "little")) * _FACTOR & _MASK
    result = (result ^ result >> 13) * _FACTOR & _MASK
    return result ^ result >> 15


def partition_for(key: bytes, partitions: int) -> int:
    """The partition of a key, as Java's producers choose it."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
