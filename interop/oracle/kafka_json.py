"""Messages in the JSON of Kafka's generated `…JsonConverter` classes.

Names are Kafka's, with a small first letter; bytes are base64, UUIDs their text form; a tagged field at its
default is left out, as is a field that the version does not have.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.message import Message, TopMessage
from kafkapy.protocol.schema import Field, Struct, at_default
from kafkapy.protocol.types import uuid_to_text


def to_json(message: TopMessage, version: int, *, records: bool) -> dict[str, Any]:
    """With `records` as the converters read them; without, as they write them: empty."""
    return _struct(schema_of(type(message)).root, message, version, records)


def _struct(struct: Struct, value: Message, version: int, records: bool) -> dict[str, Any]:
    found = {}
    for field in struct.fields:
        inner = getattr(value, field.name)
        if version in field.versions and not (version in field.tagged and at_default(field, inner)):
            found[field.kafka_name[0].lower() + field.kafka_name[1:]] = _field(field, inner, version, records)
    return found


def _field(field: Field, value: Any, version: int, records: bool) -> Any:
    if value is None:
        return None
    if field.is_array:
        return [_value(field, element, version, records) for element in value]
    return _value(field, value, version, records)


def _value(field: Field, value: Any, version: int, records: bool) -> Any:
    if field.struct is not None:
        return _struct(field.struct, value, version, records)
    match field.type:
        case "uuid":
            return uuid_to_text(value)
        case "bytes":
            return b64encode(value).decode()
        case "records":
            return b64encode(value).decode() if records else ""
        case _:
            return value
