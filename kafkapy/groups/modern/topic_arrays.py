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
from collections.abc import Callable, Collection, Hashable
from typing import TypeVar

from kafkapy.protocol.primitives import encode_uvarint
from kafkapy.protocol.types import Uuid

H = TypeVar("H", bound=Hashable)


def topic_array(topics: Collection[tuple[Uuid, H]], rest: Callable[[H], bytes]) -> bytes:
    """A compact array of topics, each with its partitions.

    `rest` encodes what follows the id of a topic.
    """
    parts = [encode_uvarint(len(topics) + 1)]
    known: dict[H, bytes] = {}
    for topic, partitions in topics:
        encoded = known.get(partitions)
        if encoded is None:
            encoded = known[partitions] = rest(partitions)
        parts.append(topic)
        parts.append(encoded)
    return b"".join(parts)


def int32_array(numbers: Collection[int]) -> bytes:
    """A compact array of int32."""
    return encode_uvarint(len(numbers) + 1) + struct.pack(f">{len(numbers)}i", *numbers)
