"""A FileDescriptorProto as the text of a .proto file.

Options of their own that a file defines are not written: what becomes of the text is compared by its users.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)
from google.protobuf.message import Message

_TYPES: Final = {
    FieldDescriptorProto.TYPE_DOUBLE: "double",
    FieldDescriptorProto.TYPE_FLOAT: "float",
    FieldDescriptorProto.TYPE_INT64: "int64",
    FieldDescriptorProto.TYPE_UINT64: "uint64",
    FieldDescriptorProto.TYPE_INT32: "int32",
    FieldDescriptorProto.TYPE_FIXED64: "fixed64",
    FieldDescriptorProto.TYPE_FIXED32: "fixed32",
    FieldDescriptorProto.TYPE_BOOL: "bool",
    FieldDescriptorProto.TYPE_STRING: "string",
    FieldDescriptorProto.TYPE_BYTES: "bytes",
    FieldDescriptorProto.TYPE_UINT32: "uint32",
    FieldDescriptorProto.TYPE_SFIXED32: "sfixed32",
    FieldDescriptorProto.TYPE_SFIXED64: "sfixed64",
    FieldDescriptorProto.TYPE_SINT32: "sint32",
    FieldDescriptorProto.TYPE_SINT64: "sint64",
}
_LABELS: Final = {
    FieldDescriptorProto.LABEL_OPTIONAL: "optional ",
    FieldDescriptorProto.LABEL_REQUIRED: "required ",
    FieldDescriptorProto.LABEL_REPEATED: "repeated ",
}
_QUOTED: Final = (FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES)
_LAST_TAG: Final = 2**29
_LAST_ENUM: Final = 2**31 - 1


def proto_text(file: FileDescriptorProto) -> str:
    """The file that defines what the descriptor does."""
    return "\n".join(_file(file)) + "\n"


def json_name(name: str) -> str:
    """The name in JSON that protoc gives a field."""
    first, *others = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in others)


def _file(file: FileDescriptorProto) -> Iterator[str]:
    syntax = file.syntax or "proto2"
    yield f'syntax = "{syntax}";'
    if file.package:
        yield f"package {file.package};"
    for number, name in enumerate(file.dependency):
        public = "public " if number in file.public_dependency else ""
        yield f"import {public}{json.dumps(name)};"
    for option in _options(file.options):
        yield f"option {option};"
    for enum in file.enum_type:
        yield from _enum(enum)
    for message in file.message_type:
        yield from _message(message, syntax)
    yield from _extends(file.extension, syntax)
    for service in file.service:
        yield from _service(service)


def _message(message: DescriptorProto, syntax: str) -> Iterator[str]:
    yield f"message {message.name} {{"
    yield from _indented(_body(message, syntax))
    yield "}"


def _body(message: DescriptorProto, syntax: str) -> Iterator[str]:
    entries = {each.name: each for each in message.nested_type if each.options.map_entry}
    groups = {_last(each.type_name) for each in message.field if each.type == each.TYPE_GROUP}
    nested = {each.name: each for each in message.nested_type}
    for option in _options(message.options):
        yield f"option {option};"
    for enum in message.enum_type:
        yield from _enum(enum)
    for each in message.nested_type:
        if each.name not in entries and each.name not in groups:
            yield from _message(each, syntax)
    written: set[int] = set()
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            if field.oneof_index not in written:
                written.add(field.oneof_index)
                members = [
                    other
                    for other in message.field
                    if other.HasField("oneof_index") and other.oneof_index == field.oneof_index
                ]
                yield f"oneof {message.oneof_decl[field.oneof_index].name} {{"
                for option in _options(message.oneof_decl[field.oneof_index].options):
                    yield f"  option {option};"
                for member in members:
                    yield from _indented(_field(member, "", entries, nested, syntax))
                yield "}"
        else:
            yield from _field(field, _label(field, syntax), entries, nested, syntax)
    yield from _extends(message.extension, syntax)
    for extensible in message.extension_range:
        yield f"extensions {_range(extensible.start, extensible.end - 1, _LAST_TAG - 1)};"
    for reserved in message.reserved_range:
        yield f"reserved {_range(reserved.start, reserved.end - 1, _LAST_TAG - 1)};"
    for name in message.reserved_name:
        yield f"reserved {json.dumps(name)};"


def _label(field: FieldDescriptorProto, syntax: str) -> str:
    if syntax == "proto3" and field.label == field.LABEL_OPTIONAL and not field.proto3_optional:
        return ""
    return _LABELS[field.label]


def _field(
    field: FieldDescriptorProto,
    label: str,
    entries: dict[str, DescriptorProto],
    nested: dict[str, DescriptorProto],
    syntax: str,
) -> Iterator[str]:
    options = []
    if field.HasField("default_value"):
        quoted = field.type in _QUOTED
        options.append(f"default = {_string(field) if quoted else field.default_value}")
    if field.HasField("json_name") and field.json_name != json_name(field.name):
        options.append(f"json_name = {json.dumps(field.json_name)}")
    shown = _bracketed([*options, *_options(field.options)])
    if field.type == field.TYPE_GROUP:
        name = _last(field.type_name)
        yield f"{label}group {name} = {field.number}{shown} {{"
        if name in nested:
            yield from _indented(_body(nested[name], syntax))
        yield "}"
        return
    entry = entries.get(_last(field.type_name))
    if entry is not None:
        key, value = entry.field
        yield f"map<{_type(key)}, {_type(value)}> {field.name} = {field.number}{shown};"
    else:
        yield f"{label}{_type(field)} {field.name} = {field.number}{shown};"


def _string(field: FieldDescriptorProto) -> str:
    """A default in quotes: that of bytes is escaped as in C already."""
    if field.type == field.TYPE_BYTES:
        return f'"{field.default_value}"'
    return json.dumps(field.default_value, ensure_ascii=False)


def _extends(fields: Iterable[FieldDescriptorProto], syntax: str) -> Iterator[str]:
    for field in fields:
        yield f"extend {field.extendee} {{"
        yield from _indented(_field(field, _label(field, syntax), {}, {}, syntax))
        yield "}"


def _enum(enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    for option in _options(enum.options):
        yield f"  option {option};"
    for value in enum.value:
        yield f"  {value.name} = {value.number}{_bracketed(_options(value.options))};"
    for reserved in enum.reserved_range:
        yield f"  reserved {_range(reserved.start, reserved.end, _LAST_ENUM)};"
    for name in enum.reserved_name:
        yield f"  reserved {json.dumps(name)};"
    yield "}"


def _service(service: ServiceDescriptorProto) -> Iterator[str]:
    yield f"service {service.name} {{"
    for option in _options(service.options):
        yield f"  option {option};"
    for method in service.method:
        taken = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
        given = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
        options = list(_options(method.options))
        yield f"  rpc {method.name}({taken}) returns ({given}){' {' if options else ';'}"
        for option in options:
            yield f"    option {option};"
        if options:
            yield "  }"
    yield "}"


def _options(options: Message) -> Iterator[str]:
    """The options that descriptor.proto defines, but those that have a syntax of their own."""
    for field, value in options.ListFields():
        if field.is_extension or field.name == "map_entry":
            continue
        for each in value if field.is_repeated else (value,):
            if field.message_type is not None:
                continue
            if field.enum_type is not None:
                shown = field.enum_type.values_by_number[each].name
            elif isinstance(each, bool):
                shown = str(each).lower()
            else:
                shown = json.dumps(each) if isinstance(each, str) else str(each)
            yield f"{field.name} = {shown}"


def _bracketed(options: Iterable[str]) -> str:
    shown = ", ".join(options)
    return f" [{shown}]" if shown else ""


def _type(field: FieldDescriptorProto) -> str:
    return field.type_name or _TYPES[field.type]


def _range(first: int, last: int, most: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last == most else last}"


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
