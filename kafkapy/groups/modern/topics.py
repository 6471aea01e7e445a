"""The topics as consumer groups see them, and a hash of them.

A group stores the hash of the topics that its members subscribe to. If it differs later, the topics have
changed, and the group needs a new assignment. The hash is Apache Kafka's, so that a group does not rebalance
because its directory moved from one broker to the other:

    topic  XXH3 of: int8 0, topic id, name, int32 number of partitions,
           then for each partition: int32 number, and for each rack in order: int32 length, rack
    group  XXH3 of the int64 hashes of the topics, in the order of their names

A topic that does not exist does not count. The hash of no topics is 0.

Integers are little-endian. The id is two of them. A text is its UTF-16 units and then their number.

Source: Apache Kafka's Utils.computeTopicHash, Utils.computeGroupHash; hash4j's HashSink.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Final

from kafkapy.assignors import TopicSpec
from kafkapy.loop.turns import Steps
from kafkapy.metadata.image import MetadataImage, Topic
from kafkapy.protocol.types import Uuid

_INT32: Final = struct.Struct("<i")
_ONE_PARTITION: Final = _INT32.pack(0)
_MAGIC: Final = b"\x00"
_GONE_KEPT: Final = 1000
"""How many hashes of deleted topics may be kept, besides one for each topic."""


class TopicsView:
    """The topics of a metadata image.

    A change of the image keeps the hashes of the other topics.
    """

    def __init__(self, image: MetadataImage, before: TopicsView | None = None) -> None:
        self.image = image
        self.racks: Mapping[int, str] = {
            broker.id: broker.rack for broker in image.brokers.values() if broker.rack is not None
        }
        """The racks of the brokers: the same object until they change."""
        self._hashes: dict[str, tuple[Topic, int]] = {}
        if before is not None and before.racks == self.racks:
            self.racks, self._hashes = before.racks, before._hashes
        if len(self._hashes) > 2 * len(image.topics) + _GONE_KEPT:
            self._hashes = {name: known for name, known in self._hashes.items() if name in image.topics}

    @property
    def names(self) -> Iterable[str]:
        """The names of all topics."""
        return self.image.topics

    def ids(self, names: Iterable[str]) -> frozenset[Uuid]:
        """The ids of those of the topics that exist."""
        topics = self.image.topics
        return frozenset(topics[name].id for name in names if name in topics)

    def spec(self, topic: Topic) -> TopicSpec:
        """A topic for an assignor."""
        racks: tuple[frozenset[str], ...] = ()
        if self.racks:
            racks = tuple(frozenset(self._racks_of(state.replicas)) for state in topic.partitions)
        return TopicSpec(topic.id, topic.name, len(topic.partitions), racks)

    def _racks_of(self, replicas: Iterable[int]) -> list[str]:
        return [self.racks[replica] for replica in replicas if replica in self.racks]

    def names_of(self, partitions: Mapping[Uuid, Iterable[int]]) -> dict[str, list[int]]:
        """Partitions by the names of those of the topics that exist."""
        by_id = self.image.topics_by_id
        return {by_id[topic].name: sorted(numbers) for topic, numbers in partitions.items() if topic in by_id}

    def look_at(self, names: Iterable[str]) -> Steps[None]:
        """Compute the hashes of topics in turns, before they are asked for."""
        topics = self.image.topics
        for name in names:
            yield
            if name in topics:
                self.topic_hash(topics[name])

    def hash(self, names: Iterable[str]) -> int:
        """The hash of these topics; 0 for none."""
        topics = self.image.topics
        existing = sorted((name for name in names if name in topics), key=_utf16)
        return group_hash([self.topic_hash(topics[name]) for name in existing])

    def topic_hashes(self, topics: Iterable[Topic]) -> list[int]:
        """The hash of each topic; mostly they are known."""
        hashes = self._hashes
        return [
            known[1]
            if (known := hashes.get(topic.name)) is not None and known[0] is topic
            else self.topic_hash(topic)
            for topic in topics
        ]

    def topic_hash(self, topic: Topic) -> int:
        """The hash of one topic."""
        name = topic.name
        known = self._hashes.get(name)
        if known is not None and known[0] is topic:
            return known[1]
        count = len(topic.partitions)
        little_endian = topic.id[7::-1] + topic.id[:7:-1]  # two integers
        parts = [_MAGIC, little_endian, _text(name), _INT32.pack(count)]
        if not self.racks:
            parts.append(struct.pack(f"<{count}i", *range(count)) if count != 1 else _ONE_PARTITION)
        for index, state in enumerate(topic.partitions if self.racks else ()):
            parts.append(_INT32.pack(index))
            for rack in sorted(self._racks_of(state.replicas), key=_utf16):
                parts += (_INT32.pack(len(_utf16(rack)) // 2), _text(rack))
        found = _xxh3(b"".join(parts))
        self._hashes[name] = topic, found
        return found


def group_hash(hashes: Collection[int]) -> int:
    """The hash of topics with these hashes, in the order of their names; 0 for none."""
    return _xxh3(struct.pack(f"<{len(hashes)}q", *hashes)) if hashes else 0


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be")


def _text(text: str) -> bytes:
    encoded = text.encode("utf-16-le")
    return encoded + _INT32.pack(len(encoded) // 2)


@cache
def _digest() -> Callable[[bytes], int]:
    import xxhash  # a broker without consumer groups does not need it

    digest: Callable[[bytes], int] = xxhash.xxh3_64_intdigest
    return digest


def _xxh3(data: bytes) -> int:
    value = _digest()(data)
    return value - (1 << 64) if value >> 63 else value
