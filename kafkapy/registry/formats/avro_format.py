"""Avro schemas, by Apache Avro's own library.

Three things it does not do. It compares aliases as they are written: they get their namespace here before. It
takes any default: those that are no value of their field's type are refused here, as Confluent's registry
refuses them. It warns of logical types that do not fit, which Avro's specification says to ignore.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final

from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.errors import AvroException, IgnoredLogicalType
from avro.name import Names
from avro.schema import NamedSchema, Schema, make_avsc_object

from kafkapy.registry.formats import json_text
from kafkapy.registry.formats.parsed import Parsed

_RECORDS: Final = ("record", "error")
_MOST_LONG: Final = 2**63
_MOST_INT: Final = 2**31

_MOST_FIELDS: Final = 2000
"""Of one record: the library compares each with all others."""

_warnings = threading.Lock()
"""Warnings are ignored for the whole process, so by one thread at a time."""


def parse(text: str, references: Sequence[tuple[str, str]]) -> Parsed:
    names = Names()
    try:
        for _, referred in references:
            _make(referred, names)
        schema = _make(text, names)
        normalized = json_text.normalized(schema.to_json())
        for each in _all_types(schema, set()):
            _check_defaults(each)
            _qualify_aliases(each)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (AvroException, AttributeError, KeyError, TypeError) as error:
        raise ValueError(str(error) or type(error).__name__) from None
    text = json_text.without_spaces(text)
    return Parsed(text, normalized, normalized, text, schema)


def unreadable(reader: Any, writer: Any) -> list[str]:
    """Why a reader with one schema cannot read what a writer with the other may write."""
    result = ReaderWriterCompatibilityChecker().get_compatibility(reader, writer)
    if result.compatibility is SchemaCompatibilityType.compatible:
        return []
    kinds = ", ".join(sorted({kind.name.upper() for kind in result.incompatibilities}))
    places = ", ".join(sorted(result.locations))
    return [f"{kinds} at {places}: {'; '.join(sorted(result.messages))}"]


def _make(text: str, names: Names) -> Schema:
    content = json_text.loaded(text)
    _check_counts(content)
    with _warnings, warnings.catch_warnings():
        warnings.simplefilter("ignore", IgnoredLogicalType)
        return make_avsc_object(content, names)


def _check_counts(content: Any) -> None:
    """Raises ValueError for a record whose fields would take minutes to compare."""
    if isinstance(content, dict):
        fields = content.get("fields")
        if isinstance(fields, list) and len(fields) > _MOST_FIELDS:
            raise ValueError(f"a record has {len(fields)} fields; {_MOST_FIELDS} are allowed here")
    if isinstance(content, dict | list):
        for each in content.values() if isinstance(content, dict) else content:
            _check_counts(each)


def _all_types(schema: Schema, seen: set[int]) -> Iterator[Schema]:
    """A schema and those within it, each once."""
    if id(schema) not in seen:
        seen.add(id(schema))
        yield schema
        for each in _inner(schema):
            yield from _all_types(each, seen)


def _inner(schema: Schema) -> list[Schema]:
    """The schemas that a schema is made of."""
    kind = str(schema.type)
    if kind in _RECORDS:
        return [field.type for field in schema.fields]
    if kind == "union":
        return list(schema.schemas)
    if kind in ("array", "map"):
        return [schema.items if kind == "array" else schema.values]
    return []


def _qualify_aliases(schema: Schema) -> None:
    aliases = schema.props.get("aliases")
    if isinstance(schema, NamedSchema) and isinstance(aliases, list) and schema.namespace:
        schema.props["aliases"] = [
            alias if "." in str(alias) else f"{schema.namespace}.{alias}" for alias in aliases
        ]


def _check_defaults(schema: Schema) -> None:
    if schema.type not in _RECORDS:
        return
    for field in schema.fields:
        if field.has_default and not _fits(field.default, field.type):
            raise ValueError(
                f"invalid default for field {field.name}: {field.default!r} is no {field.type.type}"
            )


def _fits(value: Any, schema: Schema) -> bool:
    """Whether a JSON value may be the default of this type; of a union, of its first one."""
    kind = str(schema.type)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "union":
        return any(_fits(value, each) for each in schema.schemas[:1])
    if kind in _RECORDS:
        return isinstance(value, dict) and all(
            _fits(value[field.name], field.type) if field.name in value else field.has_default
            for field in schema.fields
        )
    if kind == "array":
        return isinstance(value, list) and all(_fits(each, schema.items) for each in value)
    if kind == "map":
        return isinstance(value, dict) and all(_fits(each, schema.values) for each in value.values())
    if kind == "enum":
        return value in schema.symbols
    if kind == "fixed":
        return isinstance(value, str) and len(value) == schema.size and _is_latin(value)
    return {
        "null": value is None,
        "boolean": isinstance(value, bool),
        "int": is_number and value == int(value) and -_MOST_INT <= value < _MOST_INT,
        "long": is_number and value == int(value) and -_MOST_LONG <= value < _MOST_LONG,
        "float": is_number,
        "double": is_number,
        "bytes": isinstance(value, str) and _is_latin(value),
        "string": isinstance(value, str),
    }[kind]


def _is_latin(text: str) -> bool:
    """Bytes are written as the characters of these codes."""
    return all(ord(character) < 256 for character in text)
