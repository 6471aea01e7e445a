"""Protobuf messages as JSON has them, by Google's library, which has bounds of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def decoding(descriptor: Any, files: list[Any]) -> Callable[[bytes], Any]:
    """What decodes messages of a file; `files` are those that it imports, with their names."""
    from google.protobuf import descriptor_pool, json_format, message_factory
    from google.protobuf.message import DecodeError

    pool = descriptor_pool.DescriptorPool()
    for name, file in [*files, (descriptor.name, descriptor)]:
        for imported in file.dependency:
            _add_well_known(pool, imported)
        named = type(file)()
        named.CopyFrom(file)
        named.name = name
        pool.Add(named)
    top = pool.FindFileByName(descriptor.name)

    def decode(data: bytes) -> Any:
        indexes, at = _indexes(data)
        messages: Any = list(top.message_types_by_name.values())
        for index in indexes:
            if not 0 <= index < len(messages):
                raise ValueError(f"it has no message {index}")
            found = messages[index]
            messages = list(found.nested_types)
        message = message_factory.GetMessageClass(found)()
        try:
            message.ParseFromString(data[at:])
        except DecodeError as error:
            raise ValueError(str(error)) from None
        return json_format.MessageToDict(message, preserving_proto_field_name=True)

    return decode


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
