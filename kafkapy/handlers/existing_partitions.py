"""The partitions of topics that exist, by number, found in one lookup.

Requests name the same partitions again and again. What is remembered of a topic counts until its metadata
changes: an image shares the topics that have not changed with the one before it.
"""

from __future__ import annotations

from typing import Final

from kafkapy.groups.offsets.offsets import partitions_of
from kafkapy.metadata.image import Topic
from kafkapy.protocol.types import TopicPartition, Uuid

MAX_TOPICS: Final = 1000
"""The most topics of which partitions are remembered; when there are more, all are forgotten."""

_found: Final[dict[Uuid, tuple[Topic, dict[int, TopicPartition]]]] = {}


def existing_partitions(topic: Topic) -> dict[int, TopicPartition]:
    """The partitions of this topic that `find_partition` has found."""
    found = _found.get(topic.id)
    if found is None or found[0] is not topic:
        if len(_found) >= MAX_TOPICS:
            _found.clear()
        found = _found[topic.id] = (topic, {})
    return found[1]


def find_partition(topic: Topic, index: int) -> TopicPartition | None:
    """A partition of this topic, for many groups the same object; None if it does not exist."""
    if not 0 <= index < len(topic.partitions) or not topic.partitions[index].exists:
        return None
    key = existing_partitions(topic)[index] = partitions_of(topic.name)[index]
    return key
