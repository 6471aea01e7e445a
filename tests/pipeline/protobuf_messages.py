"""Protobuf descriptor sets for tests, made without protoc."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    EnumValueDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

TYPES = {name.removeprefix("TYPE_").lower(): number for name, number in FieldDescriptorProto.Type.items()}


def field(name: str, number: int, kind: str, **further: Any) -> FieldDescriptorProto:
    """Make a field; `kind` is `int32` ..., `.shop.Item` (a message) or `enum .shop.Status`."""
    label = FieldDescriptorProto.LABEL_REPEATED if further.pop("repeated", False) else None
    made = FieldDescriptorProto(
        name=name, number=number, label=label or FieldDescriptorProto.LABEL_OPTIONAL, **further
    )
    if kind.startswith("."):
        made.type, made.type_name = FieldDescriptorProto.TYPE_MESSAGE, kind
    elif kind.startswith("enum "):
        made.type, made.type_name = FieldDescriptorProto.TYPE_ENUM, kind.removeprefix("enum ")
    else:
        made.type = TYPES[kind]
    return made


def optional(message: DescriptorProto, name: str, number: int, kind: str) -> None:
    """`optional` of proto3: a oneof of its own."""
    message.field.append(field(name, number, kind, proto3_optional=True, oneof_index=len(message.oneof_decl)))
    message.oneof_decl.add(name=f"_{name}")


def map_field(message: DescriptorProto, name: str, number: int, key: str, value: str, scope: str) -> None:
    """Make `map<key, value>`, a repeated nested message; `scope` is the message's full name."""
    entry = f"{name.title().replace('_', '')}Entry"
    nested = message.nested_type.add(name=entry, field=[field("key", 1, key), field("value", 2, value)])
    nested.options.map_entry = True
    message.field.append(field(name, number, f".{scope}.{entry}", repeated=True))


def enum(name: str, *values: str) -> EnumDescriptorProto:
    numbered = [EnumValueDescriptorProto(name=one, number=number) for number, one in enumerate(values)]
    return EnumDescriptorProto(name=name, value=numbered)


def descriptor_set(*files: FileDescriptorProto) -> bytes:
    return FileDescriptorSet(file=files).SerializeToString()


def order_file() -> FileDescriptorProto:
    """shop/order.proto of proto3: one field of every kind in shop.Order."""
    scalars = [
        "bool", "int32", "sint32", "sfixed32", "uint32", "fixed32", "int64", "sint64", "sfixed64", "uint64",
        "fixed64", "float", "double", "string", "bytes",
    ]  # fmt: skip
    order = DescriptorProto(
        name="Order", field=[field(f"a_{kind}", number, kind) for number, kind in enumerate(scalars, 1)]
    )
    order.field.extend(
        [
            field("status", 20, "enum .shop.Status"),
            field("item", 21, ".shop.Item"),
            field("items", 22, ".shop.Item", repeated=True),
            field("tags", 23, "string", repeated=True),
            field("at", 24, ".google.protobuf.Timestamp"),
            field("took", 25, ".google.protobuf.Duration"),
            field("score", 26, ".google.protobuf.Int64Value"),
            field("extra", 27, ".google.protobuf.Struct"),
            field("nothing", 28, ".google.protobuf.Empty"),
        ]
    )
    map_field(order, "counts", 30, "string", "int64", "shop.Order")
    map_field(order, "by_id", 31, "int32", ".shop.Item", "shop.Order")
    order.oneof_decl.add(name="payment")
    order.field.extend(
        [field("card", 32, "string", oneof_index=0), field("cash", 33, "double", oneof_index=0)]
    )
    optional(order, "note", 34, "string")
    item = DescriptorProto(name="Item", field=[field("sku", 1, "string"), field("amount", 2, "int32")])
    node = DescriptorProto(name="Node", field=[field("child", 1, ".shop.Node")])
    return FileDescriptorProto(
        name="shop/order.proto",
        package="shop",
        syntax="proto3",
        dependency=[
            f"google/protobuf/{one}.proto" for one in ("timestamp", "duration", "wrappers", "struct", "empty")
        ],
        message_type=[item, order, node],
        enum_type=[enum("Status", "NEW", "PAID")],
    )
