"""Messages without their secrets, as they are shown and kept."""

from __future__ import annotations

from typing import Any, Final

from kafkapy.configs.secret_fields import is_secret
from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.schema import Struct

HIDDEN: Final = "[hidden]"


def has_secrets(message_class: type[TopMessage]) -> bool:
    """Whether messages of this class have a field that may be a secret."""

    def any_in(struct: Struct) -> bool:
        return any(f.secret is not None or (f.struct is not None and any_in(f.struct)) for f in struct.fields)

    return any_in(schema_of(message_class).root)


def hide_secrets(message: TopMessage) -> None:
    """Put HIDDEN in place of each secret of `message`."""
    _hide(schema_of(type(message)).root, message)


def _hide(struct: Struct, message: Any) -> None:
    for field in struct.fields:
        value = getattr(message, field.name)
        if value is None:
            continue
        if field.secret is not None:
            if is_secret(field, message):
                setattr(message, field.name, HIDDEN.encode() if field.type == "bytes" else HIDDEN)
        elif field.struct is not None:
            for element in value if field.is_array else [value]:
                _hide(field.struct, element)
