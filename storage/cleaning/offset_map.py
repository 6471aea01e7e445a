"""The offset map: for each key of the dirty part of a log, the offset of its last record.

A slot has 24 bytes, in the machine's own byte order:

    key hash   16 bytes   MD5 of the key
    offset     int64      plus 1; 0 in an empty slot

The first slots to probe for a key are given by the 32 bits at bytes 0, 1, … 12 of its hash (big-endian,
modulo the number of slots), then come the slots after the last of them. At most `LOAD_FACTOR` of the slots
are used, so that a search ends. Keys are not stored: two with the same hash are taken for one, as in Apache
Kafka.

The slots are a plain buffer, which the compiled key_index.py fills and the compiled batch_filter.py reads.

Source: SkimpyOffsetMap.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from typing import Final, TypeAlias

SLOT_SIZE: Final = 24
HASH_SIZE: Final = 16
LOAD_FACTOR: Final = 0.9

Slots: TypeAlias = bytearray | memoryview

_OFFSET = struct.Struct("=q")
_PROBES = HASH_SIZE - 3


def key_hash(key: bytes) -> bytes:
    """The hash of a key in the map."""
    return hashlib.md5(key, usedforsecurity=False).digest()


class OffsetMap:
    """The last offsets of keys, up to a limit of memory."""

    __slots__ = ("last_offset", "limit", "size", "slots")

    def __init__(self, max_bytes: int, *, keys: int, load_factor: float = LOAD_FACTOR) -> None:
        """Make an empty map of at most `max_bytes`, and not larger than `keys` need.

        Raises:
            ValueError: not even one key fits.
        """
        count = min(max_bytes // SLOT_SIZE, int(max(keys, 1) / load_factor) + 2)
        self.limit = min(int(count * load_factor), count - 1)
        """The most keys that the map takes."""
        if self.limit < 1:
            raise ValueError(f"{max_bytes} bytes are too few for an offset map")
        # An anonymous mapping is zero already: filling 128 MB with zeros would hold up every thread.
        self.slots = memoryview(mmap.mmap(-1, count * SLOT_SIZE))
        self.size = 0
        """The number of keys in the map."""
        self.last_offset = -1
        """Every key up to this offset is in the map."""

    @property
    def utilization(self) -> float:
        """The used share of the map, at most 1."""
        return self.size / self.limit

    def get(self, key: bytes) -> int:
        """The last offset of a key; -1 if it is not in the map."""
        return find(self.slots, key_hash(key))[1]


def find(slots: Slots, digest: bytes) -> tuple[int, int]:
    """The position of a key's slot, and the key's offset.

    If the key is not in the map, it is the empty slot for the key, and -1.
    """
    count = len(slots) // SLOT_SIZE
    at = 0
    for probe in range(_PROBES + count):
        if probe < _PROBES:
            at = int.from_bytes(digest[probe : probe + 4], "big") % count
        else:
            at = (at + 1) % count
        position = at * SLOT_SIZE
        (stored,) = _OFFSET.unpack_from(slots, position + HASH_SIZE)
        if stored == 0 or bytes(slots[position : position + HASH_SIZE]) == digest:
            return position, stored - 1
    raise ValueError("the map has no empty slot")


def put(slots: Slots, position: int, digest: bytes, offset: int) -> None:
    """Fill the slot at `position`."""
    slots[position : position + HASH_SIZE] = digest
    _OFFSET.pack_into(slots, position + HASH_SIZE, offset + 1)
