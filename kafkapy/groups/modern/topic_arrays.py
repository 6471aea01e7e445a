"""The arrays of topics and partitions in the records of members, as the codec encodes them.

A member may have 10,000 topics, most of which have the same partitions as others. So no object is made for a
topic, and what follows its id is encoded once for all topics with the same partitions:

    uvarint            number of topics + 1
    bytes    topic id  16
    bytes    the rest, which depends on the partitions only

Tests compare the records with those of the codec.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import TypeVar

from kafkapy.protocol.primitives import encode_uvarint
from kafkapy.protocol.types import Uuid

H = TypeVar("H", bound=Hashable)
P = TypeVar("P")


def topic_array(topics: Mapping[Uuid, P], rest: Callable[[H], bytes], key: Callable[[P], H]) -> bytes:
    """A compact array of topics, each with its partitions.

    `key` makes the same of all equal partitions, and `rest` encodes from that what follows the id of a topic.
    Most partitions are even the same object, for which neither is called again.
    """
    parts = [encode_uvarint(len(topics) + 1)]
    by_object: dict[int, bytes] = {}
    by_key: dict[H, bytes] = {}
    for topic, partitions in topics.items():
        encoded = by_object.get(id(partitions))
        if encoded is None:
            found = key(partitions)
            encoded = by_key.get(found)
            if encoded is None:
                encoded = by_key[found] = rest(found)
            by_object[id(partitions)] = encoded
        parts.append(topic)
        parts.append(encoded)
    return b"".join(parts)


def in_order(topics: Mapping[Uuid, Collection[int]]) -> Iterator[tuple[Uuid, list[int]]]:
    """Each topic with its partitions in order.

    Topics that share their partitions share the list.
    """
    known: dict[int, list[int]] = {}
    for topic, partitions in topics.items():
        numbers = known.get(id(partitions))
        if numbers is None:
            numbers = known[id(partitions)] = sorted(partitions)
        yield topic, numbers


def int32_array(numbers: Collection[int]) -> bytes:
    """A compact array of int32."""
    return encode_uvarint(len(numbers) + 1) + struct.pack(f">{len(numbers)}i", *numbers)
