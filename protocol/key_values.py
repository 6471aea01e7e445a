"""Decodes the records of a batch to keys and values: what a coordinator reads of its topic.

Coordinators' batches are not compressed, and their records have no headers, small deltas of time, and keys
and values of a few bytes. `decode_key_values` reads those at once. What it does not expect it leaves to
`decode_records`, which it equals on every input. The format is described in records.py.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from kafkapy.protocol.compression import Buffer
from kafkapy.protocol.records import HEADER_SIZE, MAGIC, BatchHeader, decode_records

KeyValueAt: TypeAlias = tuple[int, bytes | None, bytes | None]
"""The offset, key and value of a record."""

_NULL: Final = 1
"""The varint of the length of a null."""


def decode_key_values(buffer: Buffer, position: int, header: BatchHeader) -> list[KeyValueAt]:
    """Return offset, key and value of each record of the batch at `position`.

    The CRC is not checked.

    Raises:
        DecodeError: a consumer could not read the batch.
    """
    if header.magic == MAGIC and not header.compression:
        data = bytes(memoryview(buffer)[position + HEADER_SIZE : position + header.size])
        try:
            found = _read_plain(data, header.base_offset, header.record_count)
        except IndexError:
            found = None
        if found is not None:
            return found
    return [(record.offset, record.key, record.value) for record in decode_records(buffer, position, header)]


def _read_plain(data: bytes, base_offset: int, count: int) -> list[KeyValueAt] | None:
    """The records that fill `data`; None if one of them is not plain.

    The varints of a plain record have one byte or two, and only its value may be null. Raises IndexError if
    the data ends within a record.
    """
    found: list[KeyValueAt] = []
    at = 0
    for _ in range(count):
        length, at = data[at], at + 1
        if length >= 0x80:
            length, at = length + (data[at] - 1 << 7), at + 1
        end = at + (length >> 1)
        time_delta, delta, at = data[at + 1], data[at + 2], at + 3
        if delta >= 0x80:
            delta, at = delta + (data[at] - 1 << 7), at + 1
        key_length, at = data[at], at + 1
        if key_length >= 0x80:
            key_length, at = key_length + (data[at] - 1 << 7), at + 1
        key_end = at + (key_length >> 1)
        key: bytes = data[at:key_end]
        value: bytes | None
        value_length, at = data[key_end], key_end + 1
        if value_length == _NULL:
            value, value_length = None, 0
        else:
            if value_length >= 0x80:
                value_length, at = value_length + (data[at] - 1 << 7), at + 1
            value_end = at + (value_length >> 1)
            value, at = data[at:value_end], value_end
        varints = length | delta | key_length | value_length
        # A second byte above 0x7F, which is not the last one, makes the number greater than two bytes can be.
        if varints & 1 or varints > 0x3FFF or time_delta >= 0x80 or data[at] or at + 1 != end:
            return None
        found.append((base_offset + (delta >> 1), key, value))
        at = end
    return found if at == len(data) else None
