"""A slow and simple codec, with which the compiled one must agree.

It walks the schema value by value. It follows Kafka's protocol guide and KIP-482, and shares only the
schemas and the message classes with `codec`. It has no budget for the number of values.

    bool, int8 … int64, uint16, uint32, float64, uuid    big-endian, 1 to 16 bytes
    string    int16 length, -1 for null                  compact: varint of length + 1, 0 for null
    bytes     int32 length, -1 for null                  compact: varint of length + 1, 0 for null
    records   as bytes
    array     int32 count, -1 for null                   compact: varint of count + 1, 0 for null
    struct    its fields; a nullable struct follows an int8, which is negative for null
              In flexible versions it ends with a tagged section: the number of tagged fields, then the tag,
              size and value of each, in the order of tags. Fields at their default are left out. In a tagged
              section a nullable struct follows a varint: 1, or 0 for null.
"""

from importlib import import_module
from struct import pack, unpack
from typing import Any, TypeVar

from kafkapy.protocol.codec import schema_of
from kafkapy.protocol.errors import DecodeError, EncodeError
from kafkapy.protocol.message import Message, TopMessage
from kafkapy.protocol.schema import Field, MessageSchema, Struct, at_default, element_size
from kafkapy.protocol.text import decode_as_java

M = TypeVar("M", bound=TopMessage)

INTEGERS = {
    "int8": (1, True),
    "int16": (2, True),
    "uint16": (2, False),
    "int32": (4, True),
    "uint32": (4, False),
    "int64": (8, True),
}


def encode(message: TopMessage, version: int) -> bytes:
    schema = schema_of(type(message))
    if version not in schema.versions:
        raise EncodeError("no such version")
    return _Writer(schema, version).struct(schema.root, message)


def decode(message_class: type[M], data: bytes, version: int) -> M:
    schema = schema_of(message_class)
    if version not in schema.versions:
        raise DecodeError("no such version")
    found = _Reader(schema, version, data, import_module(message_class.__module__)).struct(schema.root)
    assert isinstance(found, message_class)
    return found


class _Writer:
    def __init__(self, schema: MessageSchema, version: int) -> None:
        self.version = version
        self.flexible = version in schema.flexible
        self.drops = schema.kind == "response"

    def struct(self, struct: Struct, value: Message) -> bytes:
        encoded = b""
        for field in struct.absent(self.version):
            if not (self.drops or field.ignorable or at_default(field, getattr(value, field.name))):
                raise EncodeError(f"{field.name} is not in version {self.version}")
        for field in struct.untagged(self.version):
            encoded += self.field(field, getattr(value, field.name), tagged=False)
        if self.flexible:
            section = b""
            count = 0
            for field in struct.tagged(self.version):
                if not at_default(field, getattr(value, field.name)):
                    content = self.field(field, getattr(value, field.name), tagged=True)
                    section += varint(field.tag) + varint(len(content)) + content
                    count += 1
            encoded += varint(count) + section
        return encoded

    def field(self, field: Field, value: Any, *, tagged: bool) -> bytes:
        if value is None and self.version not in field.nullable:
            raise EncodeError(f"{field.name} may not be null")
        compact = self.flexible and not field.never_flexible
        if field.is_array:
            if value is None:
                return varint(0) if compact else number(-1, 4)
            head = varint(len(value) + 1) if compact else number(len(value), 4)
            return head + b"".join(self.element(field, element, compact) for element in value)
        if field.struct is not None and self.version in field.nullable:
            if value is None:
                return varint(0) if tagged else number(-1, 1)
            return (varint(1) if tagged else number(1, 1)) + self.struct(field.struct, value)
        return self.element(field, value, compact)

    def element(self, field: Field, value: Any, compact: bool) -> bytes:
        if field.struct is not None:
            return self.struct(field.struct, value)
        match field.type:
            case "bool":
                return b"\1" if value else b"\0"
            case "float64":
                return pack(">d", float(value))
            case "uuid":
                return bytes(value)
            case "string":
                if value is None:
                    return varint(0) if compact else number(-1, 2)
                encoded: bytes = value.encode("utf-8")
                if len(encoded) > 0x7FFF:
                    raise EncodeError("string longer than 32767 bytes")
                return (varint(len(encoded) + 1) if compact else number(len(encoded), 2)) + encoded
            case "bytes" | "records":
                if value is None:
                    return varint(0) if compact else number(-1, 4)
                return (varint(len(value) + 1) if compact else number(len(value), 4)) + bytes(value)
            case _:
                size, signed = INTEGERS[field.type]
                return int(value).to_bytes(size, "big", signed=signed)


class _Reader:
    def __init__(self, schema: MessageSchema, version: int, data: bytes, module: Any) -> None:
        self.version = version
        self.flexible = version in schema.flexible
        self.data = data
        self.position = 0
        self.module = module

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.position:
            raise DecodeError("ends too early")
        taken = self.data[self.position : self.position + size]
        self.position += size
        return taken

    def number(self, size: int, *, signed: bool = True) -> int:
        return int.from_bytes(self.take(size), "big", signed=signed)

    def varint(self) -> int:
        value = 0
        for index in range(5):
            byte = self.number(1, signed=False)
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                if value > 0x7FFFFFFF:
                    raise DecodeError("varint above the int32 range")
                return value
        raise DecodeError("varint of more than five bytes")

    def length(self, field: Field, kind: str, compact: bool, *, nullable: bool) -> int | None:
        length = self.varint() - 1 if compact else self.number(2 if kind == "string" else 4)
        if length < -1 or (length == -1 and not nullable):
            raise DecodeError(f"{field.name} may not be null")
        if kind == "string" and length > 0x7FFF:
            raise DecodeError("string longer than 32767 bytes")
        return None if length == -1 else length

    def struct(self, struct: Struct) -> Message:
        found: Message = getattr(self.module, struct.class_name)()
        for field in struct.untagged(self.version):
            setattr(found, field.name, self.field(field, tagged=False))
        if self.flexible:
            known = {field.tag: field for field in struct.tagged(self.version)}
            for _ in range(self.varint()):
                tag = self.varint()
                size = self.varint()
                end = self.position + size
                if end > len(self.data):
                    raise DecodeError("tagged field reaches beyond the end")
                if tag in known:
                    setattr(found, known[tag].name, self.field(known[tag], tagged=True))
                    if self.position != end:
                        raise DecodeError("tagged field is not of the size it claims")
                self.position = end
        return found

    def field(self, field: Field, *, tagged: bool) -> Any:
        compact = self.flexible and not field.never_flexible
        nullable = self.version in field.nullable
        if field.is_array:
            count = self.length(field, "array", compact, nullable=nullable)
            if count is None:
                return None
            if (
                count * max(1, element_size(field, self.version, self.flexible))
                > len(self.data) - self.position
            ):
                raise DecodeError("more elements than bytes")
            return [self.element(field, compact, nullable=False) for _ in range(count)]
        if field.struct is not None and nullable:
            if (self.varint() == 0) if tagged else (self.number(1) < 0):
                return None
            return self.struct(field.struct)
        return self.element(field, compact, nullable=nullable)

    def element(self, field: Field, compact: bool, *, nullable: bool) -> Any:
        if field.struct is not None:
            return self.struct(field.struct)
        match field.type:
            case "bool":
                return self.take(1) != b"\0"
            case "float64":
                return unpack(">d", self.take(8))[0]
            case "uuid":
                return self.take(16)
            case "string" | "bytes" | "records":
                length = self.length(field, field.type, compact, nullable=nullable)
                if length is None:
                    return None
                taken = self.take(length)
                if field.type != "string":
                    return taken
                text = decode_as_java(taken)
                if len(text.encode()) > 0x7FFF:
                    raise DecodeError("too long with what is replaced")
                return text
            case _:
                size, signed = INTEGERS[field.type]
                return self.number(size, signed=signed)


def number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big", signed=True)


def varint(value: int) -> bytes:
    encoded = b""
    while value > 0x7F:
        encoded += bytes([value & 0x7F | 0x80])
        value >>= 7
    return encoded + bytes([value])
