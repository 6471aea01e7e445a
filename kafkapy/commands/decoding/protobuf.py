"""Protobuf messages as JSON has them, and back, by Google's library.

The library has bounds of its own.
A message begins with its path in the file of its schema, as zigzag numbers: how many indexes, and these; of
the first message it is a zero.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from kafkapy.protocol.records import append_varint

_MOST_TOLD: Final = 300
"""Characters of what is wrong with a value: it quotes the value."""


class Messages:
    """The messages of a schema.

    Args:
        descriptor: its FileDescriptorProto.
        files: those of the files that it imports, with their names.
    """

    def __init__(self, descriptor: Any, files: list[Any]) -> None:
        from google.protobuf import descriptor_pool

        pool = descriptor_pool.DescriptorPool()
        for name, file in [*files, (descriptor.name, descriptor)]:
            for imported in file.dependency:
                _add_well_known(pool, imported)
            named = type(file)()
            named.CopyFrom(file)
            named.name = name
            pool.Add(named)
        self._top: Final = list(pool.FindFileByName(descriptor.name).message_types_by_name.values())

    def decoded(self, data: bytes) -> Any:
        """A message as JSON; raises ValueError."""
        from google.protobuf import json_format, message_factory
        from google.protobuf.message import DecodeError

        found, at = self._found(data)
        message = message_factory.GetMessageClass(found)()
        try:
            message.ParseFromString(data[at:])
        except DecodeError as error:
            raise ValueError(str(error)) from None
        return json_format.MessageToDict(message, preserving_proto_field_name=True)

    def name(self, data: bytes) -> str:
        """The full name of a message, without one if it is the first; raises ValueError."""
        found, _ = self._found(data)
        return "" if found is self._top[0] else str(found.full_name)

    def encoded(self, text: str, name: str) -> bytes:
        """JSON as a message of a name, without one as the first; raises ValueError."""
        from google.protobuf import json_format, message_factory
        from google.protobuf.message import EncodeError

        path, found = self._named(name)
        message = message_factory.GetMessageClass(found)()
        try:
            json_format.Parse(text, message)
            # Those that write maps in another order are told apart by who compares the bytes.
            data = bytes(message.SerializeToString(deterministic=True))
            _require_exact(json_format, text, message)
        except (json_format.Error, EncodeError, TypeError, KeyError) as error:
            raise ValueError(str(error)[:_MOST_TOLD]) from None
        return _path(path) + data

    def _found(self, data: bytes) -> tuple[Any, int]:
        """The type of a message, and where it begins."""
        indexes, at = _indexes(data)
        messages = self._top
        for index in indexes:
            if not 0 <= index < len(messages):
                raise ValueError(f"it has no message {index}")
            found = messages[index]
            messages = list(found.nested_types)
        return found, at

    def _named(self, name: str) -> tuple[list[int], Any]:
        for path, found in _all(self._top, []):
            if name in ("", found.full_name):
                return path, found
        raise ValueError(f"it has no message {name}")


def _all(messages: list[Any], path: list[int]) -> Iterator[tuple[list[int], Any]]:
    """All messages with their paths, the first one first."""
    for index, found in enumerate(messages):
        own = [*path, index]
        yield own, found
        yield from _all(list(found.nested_types), own)


def _require_exact(json_format: Any, text: str, message: Any) -> None:
    """Raises ValueError for a number that a `float` of the message would round."""
    given = json.loads(text)
    for by_its_name in (True, False):
        told = json_format.MessageToDict(
            message, preserving_proto_field_name=by_its_name, always_print_fields_with_no_presence=True
        )
        _compare(given, told)


def _compare(given: Any, told: Any) -> None:
    if isinstance(given, dict) and isinstance(told, dict):
        for name, value in given.items():
            if name in told:
                _compare(value, told[name])
    elif isinstance(given, list) and isinstance(told, list):
        for each, value in zip(given, told, strict=False):
            _compare(each, value)
    elif isinstance(given, int | float) and isinstance(told, float) and given != told:
        raise ValueError(f"{given} would be rounded to {told}")


def _add_well_known(pool: Any, name: str) -> None:
    """Add a file that protoc brings along, google/protobuf/…, to a pool."""
    if not name.startswith("google/protobuf/"):
        return
    from importlib import import_module

    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    module = import_module(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")
    for imported in module.DESCRIPTOR.dependencies:
        _add_well_known(pool, imported.name)
    file = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    pool.Add(file)


def _path(indexes: list[int]) -> bytes:
    """The path of a message, as it is written before it."""
    if indexes == [0]:
        return b"\0"
    written = bytearray()
    for number in (len(indexes), *indexes):
        append_varint(written, number)
    return bytes(written)


def _indexes(data: bytes) -> tuple[list[int], int]:
    """The path to a message in its file, and where the message begins."""
    count, at = _varint(data, 0)
    if not count:
        return [0], at
    if not 0 < count <= len(data):
        raise ValueError(f"it names a message by {count} numbers")
    path = []
    for _ in range(count):
        index, at = _varint(data, at)
        path.append(index)
    return path, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at == len(data) or shift > 63:
            raise ValueError("it ends within the path of its message")
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
