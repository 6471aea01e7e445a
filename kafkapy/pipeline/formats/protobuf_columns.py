"""The columns of a Protobuf message.

    bool, string, bytes                  BOOLEAN, STRING, BINARY
    int32, sint32, sfixed32              INT
    int64, sint64, sfixed64              BIGINT
    uint32, fixed32                      BIGINT          Spark has no unsigned numbers,
    uint64, fixed64                      DECIMAL(20,0)   and these hold all of their values
    float, double                        FLOAT, DOUBLE
    enum                                 STRING, the name; the number where this schema has no name for it
    message                              STRUCT; BOOLEAN (true) for one without fields, such as Empty
    repeated, map                        ARRAY, MAP; empty, never null
    google.protobuf.Timestamp            TIMESTAMP, to the microsecond
    google.protobuf.Int64Value ...       the type wrapped, null where the wrapper is not set
    google.protobuf.Struct, Value, ListValue   STRING, JSON
    google.protobuf.Duration, Any, FieldMask   STRUCT of their fields

A field that is not set is null if it has presence: messages, members of a oneof, `optional` fields, and all
fields of proto2. Other fields of proto3 have their default value (0, "") then. A recursive message cannot
become columns.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

from kafkapy.pipeline.formats.spark_types import (
    SparkType,
    Struct,
    array,
    checked_columns,
    map_of,
    struct,
)
from kafkapy.pipeline.pipeline_error import PipelineError

TIMESTAMP: Final = "google.protobuf.Timestamp"
JSON: Final = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))
WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
SCALARS: Final[dict[int, str]] = {
    FieldDescriptor.TYPE_BOOL: "boolean",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "binary",
    FieldDescriptor.TYPE_INT32: "integer",
    FieldDescriptor.TYPE_SINT32: "integer",
    FieldDescriptor.TYPE_SFIXED32: "integer",
    FieldDescriptor.TYPE_INT64: "long",
    FieldDescriptor.TYPE_SINT64: "long",
    FieldDescriptor.TYPE_SFIXED64: "long",
    FieldDescriptor.TYPE_UINT32: "long",
    FieldDescriptor.TYPE_FIXED32: "long",
    FieldDescriptor.TYPE_UINT64: "decimal(20,0)",
    FieldDescriptor.TYPE_FIXED64: "decimal(20,0)",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_ENUM: "string",
}


def protobuf_columns(message: Descriptor) -> Struct:
    """The columns of a message.

    Raises PipelineError if it is recursive.
    """
    columns = _struct(message, "", ())
    return checked_columns(columns)


def label(field: FieldDescriptor) -> int:
    """LABEL_REPEATED, LABEL_REQUIRED or LABEL_OPTIONAL.

    The descriptor's own attributes vary by version.
    """
    proto = DescriptorProto()
    assert field.containing_type is not None
    field.containing_type.CopyToProto(proto)
    return next(one.label for one in proto.field if one.number == field.number)


def map_entry(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor] | None:
    """The key and the value of a map, None for any other field."""
    message = field.message_type
    if message is None or not message.GetOptions().map_entry:
        return None
    return message.fields_by_name["key"], message.fields_by_name["value"]


def _struct(message: Descriptor, path: str, within: tuple[str, ...]) -> Struct:
    if message.full_name in within:
        raise PipelineError(
            f"{path} is recursive ({message.full_name} within itself), but columns cannot be recursive; "
            "use format raw"
        )
    fields = {
        one.name: _field(one, f"{path}.{one.name}".removeprefix("."), (*within, message.full_name))
        for one in message.fields
    }
    return struct(fields)


def _field(field: FieldDescriptor, path: str, within: tuple[str, ...]) -> SparkType:
    if entry := map_entry(field):
        key, item = entry
        return map_of(_value(key, path, within), _value(item, path, within))
    value = _value(field, path, within)
    return array(value) if label(field) == FieldDescriptorProto.LABEL_REPEATED else value


def _value(field: FieldDescriptor, path: str, within: tuple[str, ...]) -> SparkType:
    message = field.message_type
    if message is None:
        return SCALARS[field.type]
    if message.full_name == TIMESTAMP:
        return "timestamp"
    if message.full_name in JSON:
        return "string"
    if message.full_name in WRAPPERS:
        return SCALARS[message.fields_by_name["value"].type]
    return _struct(message, path, within) if message.fields else "boolean"
