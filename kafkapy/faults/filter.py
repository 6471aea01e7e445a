"""Which topic and partition a fault concerns, and where messages name these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from kafkapy.protocol.schema import Field, Struct
from kafkapy.protocol.types import Uuid

PARTITION: Final = frozenset({"index", "partition", "partition_index", "partition_id"})
"""What schemas call the number of a partition."""

TOPIC_NAME: Final = "topicName"
"""What schemas say of the fields that name topics."""

TopicName: TypeAlias = Callable[[Uuid], str | None]
"""The name of the topic with an id; None if there is none."""


class Filter(NamedTuple):
    """What an element of a message must still name to be concerned; None: anything."""

    topic: str | None = None
    partition: int | None = None

    @property
    def is_met(self) -> bool:
        """Whether nothing is left to be named."""
        return self == _MET

    def within(self, element: Any, struct: Struct, version: int, topic_name: TopicName) -> Filter | None:
        """What is left of the filter inside this element; None if it names something else."""
        left = self
        for field in struct.fields:
            if field.is_array or version not in field.versions:
                continue
            value = getattr(element, field.name)
            if left.topic is not None and (field.entity == TOPIC_NAME or field.name == "topic_id"):
                name = topic_name(value) if field.name == "topic_id" else value
                if name == left.topic:
                    left = left._replace(topic=None)
                elif name:
                    return None
            elif left.partition is not None and field.name in PARTITION:
                if value != left.partition:
                    return None
                left = left._replace(partition=None)
        return left

    def within_plain(self, element: str | int, array: Field) -> Filter | None:
        """The same, for an element of an array of names or numbers."""
        if self.topic is not None and array.entity == TOPIC_NAME:
            return self._replace(topic=None) if element == self.topic else None
        if self.partition is not None and array.type == "int32":
            return self._replace(partition=None) if element == self.partition else None
        return self

    def concerns(self, message: Any, struct: Struct, version: int, topic_name: TopicName) -> bool:
        """Whether a message, or a part of one, names what is to be named."""
        left = self.within(message, struct, version, topic_name)
        if left is None or left.is_met:
            return left is not None
        for field in struct.fields:
            if version not in field.versions:
                continue
            elements = getattr(message, field.name)
            for each in (elements or ()) if field.is_array else ():
                if field.struct is not None:
                    if left.concerns(each, field.struct, version, topic_name):
                        return True
                elif (plain := left.within_plain(each, field)) is not None and plain.is_met:
                    return True
        return False


_MET: Final = Filter()


def names_topics(struct: Struct) -> bool:
    """Whether a message of this schema names topics, in any version."""
    return any(field.entity == TOPIC_NAME or field.name == "topic_id" for field in _fields(struct))


def names_partitions(struct: Struct) -> bool:
    """Whether a message of this schema names partitions of topics, in any version."""
    return names_topics(struct) and any(
        field.name in PARTITION or (field.is_array and field.type == "int32") for field in _fields(struct)
    )


def _fields(struct: Struct) -> Iterator[Field]:
    for field in struct.fields:
        yield field
        if field.struct is not None:
            yield from _fields(field.struct)
