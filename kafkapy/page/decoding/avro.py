"""Avro's binary encoding as plain values, within bounds.

A few bytes can say that an array has a billion nulls, or nest records without end: records come from anybody,
so the reader counts what it makes. Unions are their value alone. Bytes are `{"base64": …}`, decimals texts,
and all other logical types stay the numbers that are in the data.

Source: the specification of Apache Avro 1.12.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

_MOST_VALUES: Final = 100_000
_DEPTH: Final = 64
_MOST_DIGITS: Final = 4096
"""The most bytes of a decimal: Python refuses to write longer numbers."""
_PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


class AvroSchema:
    """A schema, with the named types of those that it refers to.

    Raises:
        ValueError: it is none.
    """

    def __init__(self, schema: Any, references: Sequence[Any] = ()) -> None:
        self._names: dict[str, Mapping[str, Any]] = {}
        for each in references:
            self._collect(each, "", 0)
        self._collect(schema, "", 0)
        self._schema = schema

    def decode(self, data: bytes) -> Any:
        """A value; raises ValueError if the bytes are not one, or one that is too large."""
        reading = _Reading(data, self._names)
        value = reading.value(self._schema, "", 0)
        if reading.at != len(data):
            raise ValueError(f"{len(data) - reading.at} bytes are left after the value")
        return value

    def _collect(self, schema: Any, namespace: str, depth: int) -> None:
        if depth > _DEPTH:
            raise ValueError("the schema is nested too deeply")
        if isinstance(schema, list):
            for each in schema:
                self._collect(each, namespace, depth + 1)
        elif isinstance(schema, dict):
            kind = schema.get("type")
            if kind in ("record", "error", "enum", "fixed"):
                name = _full_name(schema, namespace)
                namespace = name.rpartition(".")[0]
                self._names[name] = schema
            if kind in ("record", "error"):
                for each in schema.get("fields", ()):
                    self._collect(each.get("type"), namespace, depth + 1)
            for part in ("items", "values"):
                if part in schema:
                    self._collect(schema[part], namespace, depth + 1)
            if isinstance(kind, dict | list):
                self._collect(kind, namespace, depth + 1)


def _full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name = schema.get("name")
    if not isinstance(name, str):
        raise ValueError("the schema has a type without a name")
    if "." in name:
        return name
    own = schema.get("namespace", namespace)
    return f"{own}.{name}" if own else name


class _Reading:
    """One pass over the bytes of a value."""

    def __init__(self, data: bytes, names: Mapping[str, Mapping[str, Any]]) -> None:
        self._data, self._names = data, names
        self.at = 0
        self._left = _MOST_VALUES

    def value(self, schema: Any, namespace: str, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it has more than {_MOST_VALUES:,} values")
        if depth > _DEPTH:
            raise ValueError("it is nested too deeply")
        if isinstance(schema, list):
            return self.value(self._branch(schema), namespace, depth + 1)
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return self._primitive(schema)
            named = self._names.get(schema if "." in schema or not namespace else f"{namespace}.{schema}")
            named = named or self._names.get(schema)
            if named is None:
                raise ValueError(f"the schema does not define {schema}")
            # Names within it are relative to the namespace where it was defined.
            return self.value(named, schema.rpartition(".")[0] or namespace, depth + 1)
        if not isinstance(schema, dict):
            raise ValueError("the schema is none of Avro's")
        kind = schema.get("type")
        if schema.get("logicalType") == "decimal" and kind in ("bytes", "fixed"):
            return self._decimal(schema)
        match kind:
            case "record" | "error":
                inner = _full_name(schema, namespace).rpartition(".")[0]
                return {
                    field["name"]: self.value(field["type"], inner, depth + 1)
                    for field in schema.get("fields", ())
                }
            case "enum":
                return self._of(schema["symbols"], "symbol")
            case "fixed":
                return _binary(self._take(int(schema["size"])))
            case "array":
                return [
                    self.value(schema["items"], namespace, depth + 1)
                    for count in self._blocks()
                    for _ in range(count)
                ]
            case "map":
                pairs: dict[str, Any] = {}
                for count in self._blocks():
                    for _ in range(count):
                        key = self._text()
                        pairs[key] = self.value(schema["values"], namespace, depth + 1)
                return pairs
            case _:
                return self.value(kind, namespace, depth + 1)

    def _primitive(self, kind: str) -> Any:
        match kind:
            case "null":
                return None
            case "boolean":
                return self._take(1) != b"\0"
            case "int" | "long":
                return self._long()
            case "float":
                return _FLOAT.unpack(self._take(4))[0]
            case "double":
                return _DOUBLE.unpack(self._take(8))[0]
            case "bytes":
                return _binary(self._take(self._long()))
            case _:
                return self._text()

    def _decimal(self, schema: Mapping[str, Any]) -> str:
        size = int(schema["size"]) if schema["type"] == "fixed" else self._long()
        if size > _MOST_DIGITS // 4:
            raise ValueError("it has a decimal of too many digits")
        number = int.from_bytes(self._take(size), "big", signed=True)
        return format(Decimal(number).scaleb(-int(schema.get("scale", 0))), "f") if number else "0"

    def _branch(self, schemas: Sequence[Any]) -> Any:
        return self._of(schemas, "branch of a union")

    def _of(self, choices: Sequence[Any], noun: str) -> Any:
        number = self._long()
        if not 0 <= number < len(choices):
            raise ValueError(f"there is no {noun} {number}")
        return choices[number]

    def _blocks(self) -> Any:
        while count := self._long():
            if count < 0:
                self._long()  # the bytes of the block, for readers that skip it
                count = -count
            if count > self._left:
                raise ValueError(f"it has more than {_MOST_VALUES:,} values")
            yield count

    def _text(self) -> str:
        return self._take(self._long()).decode()

    def _long(self) -> int:
        result = shift = 0
        while True:
            (byte,) = self._take(1)
            result |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return (result >> 1) ^ -(result & 1)
            shift += 7
            if shift > 63:
                raise ValueError("a number has too many bytes")

    def _take(self, size: int) -> bytes:
        taken = self._data[self.at : self.at + size]
        if size < 0 or len(taken) != size:
            raise ValueError("it ends too early")
        self.at += size
        return taken


def _binary(data: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(data).decode()}
