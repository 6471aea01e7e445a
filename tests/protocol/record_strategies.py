"""Hypothesis strategies for records, and batches made of raw bytes."""

from __future__ import annotations

from collections.abc import Iterable

from crc32c import crc32c
from hypothesis import strategies as st

from kafkapy.protocol.records import HEADER_SIZE, Record, build_batch

CRC_AT = 17
CRC_FROM = 21

field = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=20), field), max_size=4)
timestamps = st.integers(-1, 10) | st.integers(1_700_000_000_000, 1_700_000_100_000) | st.integers(-1, 2**62)
record = st.builds(Record, timestamp=timestamps, key=field, value=field, headers=headers)
records = st.lists(record, min_size=1, max_size=12)


def varint(value: int) -> bytes:
    raw = value << 1 if value >= 0 else ~value << 1 | 1
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def raw_record(
    body: bytes | None = None,
    *,
    attributes: int = 0,
    timestamp: bytes = b"\x00",
    offset: bytes = b"\x00",
    key: bytes = b"\x01",
    value: bytes = b"\x01",
    headers: bytes = b"\x00",
    length: bytes | None = None,
) -> bytes:
    """A record whose fields the test may make invalid."""
    if body is None:
        body = bytes([attributes]) + timestamp + offset + key + value + headers
    return (varint(len(body)) if length is None else length) + body


def raw_batch(payload: bytes, count: int, *, attributes: int = 0, base_timestamp: int = 0) -> bytearray:
    """A batch around a payload, with a correct CRC."""
    batch = build_batch([Record(timestamp=base_timestamp)])
    del batch[HEADER_SIZE:]
    batch += payload
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[21:23] = attributes.to_bytes(2, "big")
    batch[23:27] = (count - 1).to_bytes(4, "big", signed=True)
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    fix_crc(batch)
    return batch


def fix_crc(batch: bytearray) -> None:
    batch[CRC_AT:CRC_FROM] = crc32c(batch[CRC_FROM:]).to_bytes(4, "big")


def plain(found: Iterable[Record]) -> list[tuple[object, ...]]:
    """Records as tuples: offset, timestamp, key, value, headers."""
    return [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in found]
