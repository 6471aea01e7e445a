"""Where the records of a batch begin: the one thing of them that must be found one by one.

A record begins with its length, so that the next one is where this one ends. Of the two twins the compiled
one (protocol/_walker.c) is taken if it was built; a KAFKAPY_PURE_PYTHON in the environment that is not empty
chooses the other. They agree on every input, and the tests hold them to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeAlias

from kafkapy.log_source.varints import Integers
from kafkapy.protocol.compression import Buffer
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import read_varint

FollowLengths: TypeAlias = Callable[[Buffer, int, int, int, Integers], bool]


def follow_lengths_purely(data: Buffer, start: int, end: int, count: int, out: Integers) -> bool:
    """Whether `count` records fill the bytes from `start` to `end`, one behind the other.

    Where they do, `out`, which has a place for each, gets the positions of their lengths.
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


def _choose() -> FollowLengths:
    if not os.environ.get("KAFKAPY_PURE_PYTHON"):
        try:
            from kafkapy.protocol._walker import follow_lengths as compiled
        except ImportError:
            pass
        else:
            return compiled
    return follow_lengths_purely


follow_lengths: FollowLengths = _choose()
"""The twin that is used."""
