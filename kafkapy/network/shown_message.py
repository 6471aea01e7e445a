"""What the log shows of a message: no secrets, no records, and no more than a bound.

It shows the fields of the message's version by Kafka's names.

The schema marks the fields that are secrets. Of records and other bytes only the size is shown. Clients
choose how long a message is, so arrays, texts and a message as a whole have a bound: of an array,
the first elements are shown, and how many there are.
"""

from __future__ import annotations

import math
from typing import Any, Final

from kafkapy.configs.secret_fields import is_secret
from kafkapy.logs.text import shortened
from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.message import Message, TopMessage
from kafkapy.protocol.schema import Field, Struct, at_default
from kafkapy.protocol.types import uuid_to_text

ELEMENTS: Final = 10
"""The elements of an array that are shown."""

MOST_VALUES: Final = 500
"""The values of one message that are shown."""

HIDDEN: Final = "[hidden]"


def shown_message(message: TopMessage, version: int) -> Any:
    """A message in `version`, as an object for JSON."""
    return _Shown(version).struct(schema_of(type(message)).root, message)


class _Shown:
    """One message that is being shown."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._left = MOST_VALUES

    def struct(self, struct: Struct, message: Message) -> dict[str, Any]:
        version = self._version
        shown = {}
        for field in struct.fields:
            if version not in field.versions:
                continue
            value = getattr(message, field.name)
            if version in field.tagged and at_default(field, value):
                continue
            name = field.kafka_name[0].lower() + field.kafka_name[1:]
            if self._left <= 0:
                shown[name] = "…"
                break
            shown[name] = (
                HIDDEN if value is not None and is_secret(field, message) else self._value(field, value)
            )
        return shown

    def _value(self, field: Field, value: Any) -> Any:
        if not field.is_array or value is None:
            return self._element(field, value)
        shown = []
        for element in value[:ELEMENTS]:
            if self._left <= 0:
                break
            shown.append(self._element(field, element))
        if len(value) > len(shown):
            shown.append(f"… ({len(value)} in all)")
        return shown

    def _element(self, field: Field, value: Any) -> Any:
        self._left -= 1
        if value is None:
            return None
        if field.struct is not None:
            return self.struct(field.struct, value)
        if field.type == "uuid":
            return uuid_to_text(value)
        if field.type == "string":
            return shortened(value)
        if field.type in ("bytes", "records"):
            return f"({value.nbytes if hasattr(value, 'nbytes') else len(value)} bytes)"
        if field.type == "float64" and not math.isfinite(value):
            return str(value)
        return value
