"""Any message of the protocol as JSON, in the form of Kafka's generated JSON converters.

Names are Kafka's, with a lower-case first letter. Bytes are base64, ids are URL-safe base64. A field is left
out if the version does not have it, or if it is tagged and has its default value.

Source: Kafka's `JsonConverterGenerator`.
"""

from __future__ import annotations

import base64
from typing import Any

from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.message import Message, TopMessage
from kafkapy.protocol.schema import Field, Struct, at_default
from kafkapy.protocol.types import uuid_to_text


def message_json(message: TopMessage, version: int) -> dict[str, Any]:
    """Return the message in a form that `json.dumps` takes."""
    return _struct(schema_of(type(message)).root, message, version)


def _struct(struct: Struct, message: Message, version: int) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in struct.fields:
        value = getattr(message, field.name)
        if version not in field.versions or (version in field.tagged and at_default(field, value)):
            continue
        name = field.kafka_name
        values[name[:1].lower() + name[1:]] = _value(field, value, version)
    return values


def _value(field: Field, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.is_array:
        return [_element(field, element, version) for element in value]
    return _element(field, value, version)


def _element(field: Field, value: Any, version: int) -> Any:
    if field.struct is not None:
        return _struct(field.struct, value, version)
    if field.type == "uuid":
        return uuid_to_text(value)
    if field.type in ("bytes", "records"):
        return base64.b64encode(value).decode()
    return value
