"""What bytes mean: by the schema of a registry, as JSON, as text.

Confluent's serializers write the id of a schema before a key or a value:

    0x00 | schema id int32 | Avro, JSON, or the indexes of a Protobuf message and the message
"""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import Any, Final, NamedTuple

from kafkapy.commands.decoding.schemas import Schemas

HEAD: Final = 5
"""Bytes before what the schema describes."""


class Decoded(NamedTuple):
    """A value by its schema, which is of a kind: avro, json or protobuf."""

    kind: str
    schema_id: int
    value: Any
    message: str = ""
    """Of Protobuf: the name of the message, if it is not the first one of its schema."""


class Decoder:
    """Says what bytes mean; any thread may use it.

    Args:
        schemas: those of a registry. None decodes JSON and text only.
    """

    def __init__(self, schemas: Schemas | None) -> None:
        self._schemas = schemas

    @property
    def has_registry(self) -> bool:
        """Whether keys and values are decoded by schemas."""
        return self._schemas is not None

    def by_schema(self, data: bytes) -> Decoded | None:
        """What bytes say by the schema that they name; None if they name none.

        Raises:
            ValueError: they cannot be decoded by it.
            UserError: a package of the extra `registry` is missing.
        """
        if self._schemas is None or len(data) < HEAD or data[0]:
            return None
        number = int.from_bytes(data[1:HEAD], "big")
        try:
            schema = self._schemas.schema(number)
            content = data[HEAD:]
            return Decoded(schema.kind, number, schema.decode(content), schema.message(content))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"schema {number}: {error}") from None

    def encoded(self, text: str, number: int, message: str = "") -> bytes:
        """JSON as bytes that name its schema, which `by_schema` shows as it was.

        Args:
            text: JSON, as `by_schema` has the value; of JSON Schema it is written as it is.
            number: the id of the schema.
            message: of Protobuf, the name of a message of the schema; the first one by default.

        Raises:
            ValueError: it is no JSON, or does not fit the schema, or that cannot be had.
            UserError: a package of the extra `registry` is missing.
        """
        if self._schemas is None:
            raise ValueError("there is no schema registry")
        try:
            schema = self._schemas.schema(number)
            if message and schema.kind != "protobuf":
                raise ValueError(f"it is {schema.kind}, and has no message {message}")
            return b"\0" + number.to_bytes(HEAD - 1, "big") + schema.encode(text, message)
        except json.JSONDecodeError as error:
            raise ValueError(f"no JSON: {error}") from None
        except (ValueError, OverflowError, RecursionError) as error:
            raise ValueError(f"schema {number}: {error}") from None

    def value(self, data: bytes | None) -> Any:
        """What bytes say: by a schema, as JSON, as text; `{"base64": …}` for all other bytes.

        What cannot be decoded by the schema that it names is bytes, and says why.
        """
        if data is None:
            return None
        try:
            if (found := self.by_schema(data)) is not None:
                return found.value
        except ValueError as error:
            return {**_base64(data), "undecoded": str(error)}
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return _base64(data)
        # A number or a word may be JSON by accident: it is shown as it is written.
        if text.lstrip()[:1] in ("{", "["):
            with suppress(ValueError, RecursionError):
                return json.loads(text)
        return text

    def text(self, data: bytes | None) -> str:
        """The same in one line."""
        if data is not None and self._schemas is None:
            return data.decode(errors="replace")
        value = self.value(data)
        if value is None:
            return "null"
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _base64(data: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(data).decode()}
