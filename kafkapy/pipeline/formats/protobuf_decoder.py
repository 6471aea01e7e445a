"""Decodes Protobuf values into Arrow columns within Spark's tasks, without pandas.

protobuf's C code decodes a batch into messages. These are then read field by field, for all records at once,
with one list comprehension per field. protobuf_columns.py lists the types.

A value that begins with a zero byte is framed by a schema registry: 0, the schema id (4 bytes), and the path
of the message in its file, as a count and zigzag varints; a single 0 means the first message. Such a value
cannot be a bare message, since no field has the number 0.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from google.protobuf.message import DecodeError, Message

from kafkapy.pipeline.formats.protobuf_columns import JSON, SCALARS, TIMESTAMP, WRAPPERS, label, map_entry
from kafkapy.pipeline.formats.protobuf_descriptors import (
    descriptor_of,
    index_path,
    message_at,
    message_class,
)

# Turns the values of one type, or None, into an array.
Reader = Callable[[Sequence[Any]], pa.Array]

_ARROW: Final = {
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "decimal(20,0)": pa.decimal128(20, 0),
    "float": pa.float32(),
    "double": pa.float64(),
}
_FIRST_SECOND: Final = -62_135_596_800  # 0001-01-01
_LAST_SECOND: Final = 253_402_300_799  # 9999-12-31T23:59:59


def decode_batches(
    descriptor_set: bytes, name: str | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Adds `_data`, `_error` and `_schema_id` to batches that have a column `value`."""
    decoder = _decoder(descriptor_set, name)
    for batch in batches:
        data, errors, ids = decoder.decode(batch.column("value").to_pylist())
        columns = [*batch.columns, data, pa.array(errors, pa.string()), pa.array(ids, pa.int64())]
        names = [*batch.schema.names, "_data", "_error", "_schema_id"]
        yield pa.RecordBatch.from_arrays(columns, names=names)


@functools.lru_cache(maxsize=8)
def _decoder(descriptor_set: bytes, name: str | None) -> Decoder:
    """The decoder of a message, cached in the worker process, which Spark reuses."""
    return Decoder(message_class(descriptor_set, name))


class Decoder:
    def __init__(self, message: type[Message]) -> None:
        self._class = message
        self._message = descriptor_of(message)
        self._path = index_path(self._message)
        self._required = _has_required(self._message, set())
        self._read = _struct_reader(self._message)

    def decode(self, values: Sequence[bytes | None]) -> tuple[pa.Array, list[str | None], list[int | None]]:
        """The structs, the errors and the schema ids of these values."""
        errors: list[str | None] = [None] * len(values)
        ids: list[int | None] = [None] * len(values)
        messages = [self._one(value, at, errors, ids) for at, value in enumerate(values)]
        try:
            return self._read(messages), errors, ids
        except (ValueError, OverflowError, TypeError, pa.ArrowException, json_format.Error):
            # Some value does not fit its column; only a look at each record tells which one.
            for at, message in enumerate(messages):
                try:
                    self._read([message])
                except (ValueError, OverflowError, TypeError, pa.ArrowException, json_format.Error) as error:
                    errors[at], messages[at] = f"has a value that fits no column: {str(error)[:200]}", None
            return self._read(messages), errors, ids

    def _one(
        self, value: bytes | None, at: int, errors: list[str | None], ids: list[int | None]
    ) -> Message | None:
        if value is None:
            return None
        payload = value
        if value[:1] == b"\0":
            framed = _unframed(value)
            if framed is None:
                errors[at] = "is not Protobuf: begins with a zero byte, but has no registry's framing"
                return None
            ids[at], path, payload = framed
            if path != self._path and (other := message_at(self._message.file, path)):
                errors[at] = f"is a message {other}, not {self._message.full_name}"
                return None
        try:
            message = self._class.FromString(payload)
        except DecodeError:
            errors[at] = f"is not Protobuf of the message {self._message.full_name}"
            return None
        if self._required and not message.IsInitialized():
            errors[at] = (
                f"is not Protobuf of the message {self._message.full_name}: a required field is missing"
            )
            return None
        return message


def _unframed(value: bytes) -> tuple[int, tuple[int, ...], bytes] | None:
    """Schema id, path of the message and payload."""
    if len(value) < 6:
        return None
    number = int.from_bytes(value[1:5], "big")
    count, at = _varint(value, 5)
    if count is None or not 0 <= count <= 32:
        return None
    path = [] if count else [0]
    for _ in range(count):
        index, at = _varint(value, at)
        if index is None or index < 0:
            return None
        path.append(index)
    return number, tuple(path), value[at:]


def _varint(value: bytes, at: int) -> tuple[int | None, int]:
    """A zigzag varint and the position after it; None if it does not end."""
    number = shift = 0
    while at < len(value) and shift < 35:
        byte = value[at]
        at, number, shift = at + 1, number | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    return None, at


def _has_required(message: Descriptor, seen: set[str]) -> bool:
    if message.full_name in seen:
        return False
    seen.add(message.full_name)
    return any(
        label(one) == FieldDescriptorProto.LABEL_REQUIRED
        or (one.message_type is not None and _has_required(one.message_type, seen))
        for one in message.fields
    )


def _struct_reader(message: Descriptor) -> Reader:
    empty = message_factory.GetMessageClass(message)()
    names = [one.name for one in message.fields]
    readers = [_field_reader(one) for one in message.fields]

    def read(messages: Sequence[Any]) -> pa.Array:
        missing = [one is None for one in messages]
        there = [empty if one is None else one for one in messages] if any(missing) else messages
        columns = [reader(there) for reader in readers]
        return pa.StructArray.from_arrays(columns, names=names, mask=pa.array(missing, pa.bool_()))

    return read


def _field_reader(field: FieldDescriptor) -> Reader:
    """A function that reads one field of messages, none of which is None."""
    name = field.name
    get = operator.attrgetter(name)
    if entry := map_entry(field):
        return _map_reader(*entry, get)
    read = _value_reader(field)
    if label(field) == FieldDescriptorProto.LABEL_REPEATED:

        def read_lists(messages: Sequence[Any]) -> pa.Array:
            lists = list(map(get, messages))
            return pa.ListArray.from_arrays(_offsets(lists), read(list(itertools.chain.from_iterable(lists))))

        return read_lists
    if field.has_presence:
        return lambda messages: read([get(one) if one.HasField(name) else None for one in messages])
    return lambda messages: read(list(map(get, messages)))


def _map_reader(key: FieldDescriptor, value: FieldDescriptor, get: Callable[[Any], Any]) -> Reader:
    read_keys, read_values = _value_reader(key), _value_reader(value)

    def read(messages: Sequence[Any]) -> pa.Array:
        maps = list(map(get, messages))
        keys = read_keys(list(itertools.chain.from_iterable(maps)))
        values = read_values([one[key] for one in maps for key in one])
        return pa.MapArray.from_arrays(_offsets(maps), keys, values)

    return read


def _offsets(collections: Sequence[Any]) -> pa.Array:
    return pa.array(itertools.accumulate(map(len, collections), initial=0), pa.int32())


def _value_reader(field: FieldDescriptor) -> Reader:
    message = field.message_type
    if message is not None:
        return _message_reader(message)
    if field.enum_type is not None:
        names = {one.number: one.name for one in reversed(field.enum_type.values)}
        return lambda values: pa.array(
            [None if one is None else names.get(one) or str(one) for one in values], pa.string()
        )
    arrow = _ARROW[SCALARS[field.type]]
    return lambda values: pa.array(values, arrow)


def _message_reader(message: Descriptor) -> Reader:
    if message.full_name == TIMESTAMP:
        return lambda values: pa.array(map(_microseconds, values), pa.timestamp("us", "UTC"))
    if message.full_name in JSON:
        return lambda values: pa.array(map(_json, values), pa.string())
    if message.full_name in WRAPPERS:
        read = _value_reader(message.fields_by_name["value"])
        return lambda values: read([None if one is None else one.value for one in values])
    if not message.fields:
        return lambda values: pa.array([None if one is None else True for one in values], pa.bool_())
    return _struct_reader(message)


def _microseconds(timestamp: Any) -> int | None:
    if timestamp is None:
        return None
    if not _FIRST_SECOND <= timestamp.seconds <= _LAST_SECOND:
        raise ValueError(f"a timestamp of {timestamp.seconds} seconds lies beyond the years 1 to 9999")
    return int(timestamp.seconds) * 1_000_000 + int(timestamp.nanos) // 1_000


def _json(value: Any) -> str | None:
    return None if value is None else json_format.MessageToJson(value, indent=None, ensure_ascii=False)
