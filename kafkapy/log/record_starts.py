"""Finds where the records of a batch begin, one record after the other.

A record begins with its length, and the next record begins where it ends. There are two functions for this.
The compiled one (protocol/_walker.c) is used if it was built, unless KAFKAPY_PURE_PYTHON is set in the
environment and not empty. Tests check that they agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kafkapy.log.varints import Integers
from kafkapy.protocol.compiled import compiled_twin
from kafkapy.protocol.compression import Buffer
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import read_varint

FollowLengths: TypeAlias = Callable[[Buffer, int, int, int, Integers], bool]


def follow_lengths_purely(data: Buffer, start: int, end: int, count: int, out: Integers) -> bool:
    """Return whether `count` records in a row fill the bytes from `start` to `end`.

    If they do, the positions of their lengths are in `out`, which has a place for each.
    """
    octets = bytes(memoryview(data)[start:end])
    size = len(octets)
    starts: list[int] = []
    add = starts.append
    at = 0
    try:
        for _ in range(count):
            add(at)
            length = octets[at]
            if length < 0x80:
                at += 1
            elif (second := octets[at + 1]) < 0x80:
                length = second << 7 | length & 0x7F
                at += 2
            else:
                length, at = read_varint(octets, at, 32)
                length = length << 1 if length >= 0 else 1
            if length & 1:
                return False
            at += length >> 1
            if at > size:
                return False
    except (IndexError, DecodeError):
        return False
    out[:] = starts
    out += start
    return at == size


follow_lengths: FollowLengths = compiled_twin(
    "kafkapy.protocol._walker", "follow_lengths", follow_lengths_purely
)
"""The function that is used."""
