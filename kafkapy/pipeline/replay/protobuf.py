"""Encodes rows as Protobuf values: the reverse of `formats/protobuf_decoder.py`.

A field whose column is null is not set. A field without presence that has its default value is not written,
as in every proto3 writer. So the bytes equal the record's if its writer had the same fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from kafkapy.pipeline.formats.protobuf_columns import JSON, SCALARS, TIMESTAMP, WRAPPERS, label, map_entry
from kafkapy.pipeline.formats.protobuf_descriptors import descriptor_of, message_class

_INTEGERS = ("integer", "long", "decimal(20,0)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class ProtobufEncoder:
    """Encodes values on the executors, which build the message's class from the descriptor set."""

    descriptor_set: bytes
    message: str | None

    def __call__(self, row: Mapping[str, Any]) -> bytes:
        message = message_class(self.descriptor_set, self.message)()
        _fill(message, row)
        return message.SerializeToString(deterministic=True)


def _fill(message: Any, row: Mapping[str, Any]) -> None:
    for field in descriptor_of(type(message)).fields:
        value = row.get(field.name)
        if value is not None:
            _set(message, field, value)


def _set(message: Any, field: FieldDescriptor, value: Any) -> None:
    if entry := map_entry(field):
        _set_map(getattr(message, field.name), entry, value)
    elif label(field) == FieldDescriptorProto.LABEL_REPEATED:
        _set_list(getattr(message, field.name), field, value)
    elif field.message_type is not None:
        _set_message(getattr(message, field.name), value)
    else:
        setattr(message, field.name, _scalar(field, value))


def _set_list(target: Any, field: FieldDescriptor, values: Sequence[Any]) -> None:
    for value in values:
        if field.message_type is not None:
            _set_message(target.add(), value)
        else:
            target.append(_scalar(field, value))


def _set_map(target: Any, entry: tuple[FieldDescriptor, FieldDescriptor], pairs: Sequence[Any]) -> None:
    """Sets a map field from pairs, the form in which Arrow returns a map."""
    of_key, of_value = entry
    for key, value in pairs:
        if of_value.message_type is not None:
            _set_message(target[_scalar(of_key, key)], value)
        else:
            target[_scalar(of_key, key)] = _scalar(of_value, value)


def _set_message(message: Any, value: Any) -> None:
    descriptor = descriptor_of(type(message))
    message.SetInParent()
    if descriptor.full_name == TIMESTAMP:
        microseconds = (value - _EPOCH) // (datetime.resolution)
        message.seconds, message.nanos = microseconds // 1_000_000, microseconds % 1_000_000 * 1_000
    elif descriptor.full_name in JSON:
        json_format.Parse(value, message)
    elif descriptor.full_name in WRAPPERS:
        message.value = _scalar(descriptor.fields_by_name["value"], value)
    elif descriptor.fields:
        _fill(message, value)


def _scalar(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is not None:
        named = field.enum_type.values_by_name.get(value)
        return int(value) if named is None else named.number
    return int(value) if SCALARS[field.type] in _INTEGERS else value
