"""What is told of a message: topics, groups, records and errors, or all of it.

The fields are found by their names, so that each API has them. Text comes from anybody: no control character
of it reaches a terminal.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from kafkapy.configs.secret_fields import is_secret
from kafkapy.logs.text import shortened
from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message, TopMessage
from kafkapy.protocol.schema import Field, Struct, at_default
from kafkapy.protocol.types import ZERO_UUID, uuid_to_text
from kafkapy.trace.records import batches_shown, record_count
from kafkapy.trace.secrets import HIDDEN
from kafkapy.trace.topic_names import TopicNames

TOPICS: Final = 5
"""The topics, partitions and groups that a line names."""

_KEYS: Final = (
    "group_id",
    "member_id",
    "generation_id",
    "generation_id_or_member_epoch",
    "member_epoch",
    "transactional_id",
    "producer_id",
    "key",
    "coordinator_keys",
    "mechanism",
    "acks",
    "client_software_name",
    "client_software_version",
)


def keys_of(message: TopMessage) -> dict[str, str]:
    """The root's fields that say what a message is about, where they are set."""
    fields = schema_of(type(message)).root.fields
    named = {field.name: field for field in fields}
    return {
        name: printable(
            shortened(",".join(map(str, value[:TOPICS])) if isinstance(value, list) else str(value))
        )
        for name in _KEYS
        if name in named
        and (value := getattr(message, name)) is not None
        and (name == "acks" or not at_default(named[name], value))
    }


def topics_of(message: TopMessage, names: TopicNames) -> Iterator[str]:
    """The topics that a message names."""
    for topic in getattr(message, _topics_field(message), None) or ():
        yield _topic_name(topic, names)
    for group in getattr(message, "groups", None) or ():
        for topic in getattr(group, "topics", None) or ():
            yield _topic_name(topic, names)


def topics_text(message: TopMessage, names: TopicNames) -> str:
    """The topics with partitions, offsets and counts of records: "orders-0@12, orders-1@7"."""
    found: list[str] = []
    more = 0
    for topic in getattr(message, _topics_field(message), None) or ():
        name = printable(_topic_name(topic, names))
        partitions = _partitions(topic)
        if partitions is None:
            partitions = [None]
        for partition in partitions:
            if len(found) == TOPICS:
                more += 1
            elif partition is None:
                found.append(name)
            else:
                found.append(f"{name}-{_partition_text(partition)}")
    return ", ".join(found) + (f" and {more} more" if more else "")


def errors_of(message: TopMessage) -> Counter[str]:
    """How often an answer has each error."""
    found: Counter[str] = Counter()
    _count_errors(schema_of(type(message)).root, message, found)
    return found


def shown(message: TopMessage, version: int) -> Any:
    """Every field of `version`, as an object for JSON; secrets are hidden, long records cut."""
    return _shown(schema_of(type(message)).root, message, version)


def printable(text: str) -> str:
    """The text without control characters, which a terminal would obey."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def _topics_field(message: TopMessage) -> str:
    slots = message.__slots__
    return next((name for name in ("topics", "topic_data", "responses") if name in slots), "topics")


def _topic_name(topic: Any, names: TopicNames) -> str:
    if isinstance(topic, str):
        return topic
    name: str | None = getattr(topic, "name", None) or getattr(topic, "topic", None)
    topic_id = getattr(topic, "topic_id", ZERO_UUID)
    return name or ("" if topic_id == ZERO_UUID else names.name(topic_id))


def _partitions(topic: Any) -> list[Any] | None:
    for name in ("partitions", "partition_data", "partition_responses", "partition_indexes"):
        found = getattr(topic, name, None)
        if found is not None:
            return list(found)
    return None


def _partition_text(partition: Any) -> str:
    if isinstance(partition, int):
        return str(partition)
    text = "?"
    for name in ("partition_index", "index", "partition"):
        if hasattr(partition, name):
            text = str(getattr(partition, name))
            break
    for name in ("fetch_offset", "base_offset", "committed_offset", "offset"):
        offset = getattr(partition, name, -1)
        if offset >= 0:
            text += f"@{offset}"
            break
    if count := record_count(getattr(partition, "records", None)):
        text += f" ({count} record{'s' if count > 1 else ''})"
    return text


def _count_errors(struct: Struct, message: Any, found: Counter[str]) -> None:
    for field in struct.fields:
        if field.name.endswith("error_code") and not field.is_array:
            if code := getattr(message, field.name):
                found[error_name(code)] += 1
        elif field.struct is not None and (value := getattr(message, field.name)):
            for element in value if field.is_array else [value]:
                _count_errors(field.struct, element, found)


def error_name(code: int) -> str:
    """Kafka's name of an error code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _shown(struct: Struct, message: Message, version: int) -> dict[str, Any]:
    found = {}
    for field in struct.fields:
        if version not in field.versions:
            continue
        value = getattr(message, field.name)
        if value is not None and is_secret(field, message):
            value = HIDDEN
        elif value is not None:
            value = (
                [_element(field, each, version) for each in value]
                if field.is_array
                else _element(field, value, version)
            )
        found[field.kafka_name[0].lower() + field.kafka_name[1:]] = value
    return found


def _element(field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.struct is not None:
        return _shown(field.struct, value, version)
    if field.type == "uuid":
        return uuid_to_text(value)
    if field.type == "records":
        return batches_shown(value)
    if field.type == "bytes":
        return f"{len(value)} bytes"
    if field.type == "float64" and not math.isfinite(value):
        return str(value)
    return value
