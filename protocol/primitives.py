"""Helpers of compiled codecs: long varints, long arrays, unknown tags, invalid UTF-8.

Unsigned varints have seven bits a byte, lowest first. As in Kafka, at most five bytes are read, and padded
varints are accepted. A value above the int32 range is refused, since varints are only lengths, counts and
tags.

Source: Kafka's `ByteUtils`, KIP-482.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, TypeAlias

from kafkapy.protocol.errors import DecodeError, EncodeError, OverBudgetError
from kafkapy.protocol.schema import SIZES
from kafkapy.protocol.text import decode_as_java

Buffer: TypeAlias = bytes | memoryview

SHORT_ARRAY = 16
"""Arrays with fewer numbers than this have a ready-made `Struct` for each length."""

MAX_STRING = 0x7FFF

ONE_BYTE = [bytes([value]) for value in range(0x80)]
"""The varints of one byte."""


def decode_invalid(data: Buffer) -> str:
    """Decode a string that may not be UTF-8.

    Raises:
        DecodeError: with what is replaced, it is longer than a string may be, and could not be sent back.
    """
    text = decode_as_java(bytes(data))
    if len(text.encode()) > MAX_STRING:
        raise DecodeError("a string is not valid UTF-8, and too long to replace that")
    return text


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """Return the value and the position after it.

    Raises:
        IndexError: the data ends within the varint.
        DecodeError: the varint is too long or too large.
    """
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise DecodeError("varint of more than five bytes")
    if value > 0x7FFFFFFF:
        raise DecodeError("varint above the int32 range")
    return value, position


def read_string_length(data: Buffer, position: int) -> tuple[int, int]:
    """Read as `read_uvarint` does the length + 1 of a compact string, at most 32,767 + 1."""
    value, position = read_uvarint(data, position)
    if value > MAX_STRING + 1:
        raise DecodeError("string longer than 32767 bytes")
    return value, position


def skip_tags(data: Buffer, position: int, end: int, budget: int) -> tuple[int, int]:
    """Skip a tagged section without known tags; return the next position and the budget left."""
    count, position = read_uvarint(data, position)
    budget -= count
    if budget < 0:
        raise over_budget()
    for _ in range(count):
        _, position = read_uvarint(data, position)
        size, position = read_uvarint(data, position)
        position += size
        if position > end:
            raise DecodeError("tagged field reaches beyond the end")
    return position, budget


def over_budget() -> OverBudgetError:
    return OverBudgetError("more values than one message may hold")


def encode_uvarint(value: int) -> bytes:
    if value < 0x80:
        return ONE_BYTE[value]
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_string_length(value: int) -> bytes:
    """Encode the length + 1 of a compact string as `encode_uvarint` does."""
    if value > MAX_STRING + 1:
        raise EncodeError("string longer than 32767 bytes")
    return encode_uvarint(value)


def array_unpackers(code: str) -> list[Callable[[Buffer, int], tuple[Any, ...]]]:
    """Return unpackers of 0, 1, … `SHORT_ARRAY` - 1 numbers."""
    return [Struct(">" + code * n).unpack_from for n in range(SHORT_ARRAY)]


def unpack_long_array(code: str, count: int, data: Buffer, position: int) -> list[Any]:
    """Unpack `count` values from `position`; the caller has checked that they are there."""
    end = position + count * SIZES[code]
    return [value for (value,) in Struct(">" + code).iter_unpack(data[position:end])]


def array_packers(code: str, prefix: str) -> list[Callable[..., bytes]]:
    """Return packers of a length and 0, 1, … `SHORT_ARRAY` - 1 numbers."""
    return [Struct(f">{prefix}{code * n}").pack for n in range(SHORT_ARRAY)]


def pack_long_array(code: str, values: Sequence[Any]) -> bytes:
    return Struct(">" + code * len(values)).pack(*values)
