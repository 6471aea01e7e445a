"""Messages of any class and version that name many things, built from the schemas.

    long_message(DeleteRecordsRequest, 2, "topics.partitions", 10_000, name="t")

has one topic of the name t with 10,000 partitions, which are numbered. The field that tells the elements of
an array apart is their first text, id or number of 16 bits and more. The arrays around them and within them
have one element each, and all others none. The values are for the fields of these names, wherever they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

from kafkapy.protocol.codec import DEFAULT_BUDGET, holds_more, schema_of
from kafkapy.protocol.message import Message, TopMessage
from kafkapy.protocol.schema import Field, Struct

M = TypeVar("M", bound=TopMessage)

_KEYS = ("string", "uuid", "int16", "int32", "int64")


def array_paths(message_class: type[TopMessage], versions: range) -> dict[str, int]:
    """The arrays of a message, such as topics.partitions, and the last version of each."""
    root = schema_of(message_class).root
    return {path: version for version in versions for path in _paths(root, version, "")}


def long_message(message_class: type[M], version: int, path: str, count: int, /, **values: Any) -> M:
    """A message whose array at `path` has `count` different elements.

    It has half of them, or a quarter, if one message may not hold so many values.
    """
    module = import_module(message_class.__module__)
    made = _Builder(module, version, count, values).struct(schema_of(message_class).root, path, None)
    assert isinstance(made, message_class)
    if holds_more(made, DEFAULT_BUDGET):
        return long_message(message_class, version, path, count // 2, **values)
    return made


def _paths(struct: Struct, version: int, prefix: str) -> Iterator[str]:
    for field in struct.fields:
        if version in field.versions:
            if field.is_array:
                yield prefix + field.name
            if field.struct is not None:
                yield from _paths(field.struct, version, f"{prefix}{field.name}.")


class _Builder:
    def __init__(self, module: Any, version: int, count: int, values: Mapping[str, Any]) -> None:
        self._module, self._version, self._count, self._values = module, version, count, values

    def struct(self, struct: Struct, path: str | None, number: int | None) -> Message:
        """Make a struct: `path` leads on to the long array, and is None within it.

        An element of the long array has a `number`.
        """
        made: Message = getattr(self._module, struct.class_name)()
        first, _, rest = (path or "").partition(".")
        for field in struct.fields:
            if self._version not in field.versions:
                continue
            if field.name == first or (path is None and field.is_array):
                setattr(made, field.name, self._long(field, path if path is None else rest))
            elif number is not None and field.type in _KEYS and not field.is_array:
                setattr(made, field.name, _key(field.type, number))
                number = None
            elif field.name in self._values:
                setattr(made, field.name, self._values[field.name])
        return made

    def _long(self, field: Field, rest: str | None) -> Any:
        """The value of a field that is on the path, or within the long array."""
        if field.is_struct:
            assert field.struct is not None
            return self.struct(field.struct, rest, None)
        if rest:
            assert field.struct is not None
            return [self.struct(field.struct, rest, None)]
        if rest is None and field.name in self._values:
            return self._values[field.name]
        numbers = range(1) if rest is None else range(self._count)
        if field.struct is None:
            return [_key(field.type, number) for number in numbers]
        return [self.struct(field.struct, None, None if rest is None else number) for number in numbers]


def _key(type_: str, number: int) -> Any:
    if type_ == "string":
        return f"n{number}"
    if type_ == "uuid":
        return (1 << 64 | number).to_bytes(16, "big")
    if type_ == "bytes":
        return b"%d" % number
    return number % (1 << 15) if type_ == "int16" else number % (1 << 7) if type_ == "int8" else number
