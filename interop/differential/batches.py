"""Record batches, good and bad, as a producer would send them."""

from __future__ import annotations

import struct
from typing import Any

from crc32c import crc32c

from kafkapy.protocol.control_records import ControlType, control_record_key, end_txn_marker_value
from kafkapy.protocol.records import Record, build_batch

START = 1_700_000_000_000
CRC_AT, ATTRIBUTES_AT, LAST_OFFSET_DELTA_AT, MAX_TIMESTAMP_AT, COUNT_AT = 17, 21, 23, 35, 57


def batch(
    count: int = 3, *, timestamp: int = START, key: bytes | None = b"k", size: int = 0, **options: Any
) -> bytes:
    """A batch of `count` records, a millisecond apart; `size` bytes of value each."""
    records = [
        Record(-1, timestamp + index, key, (b"value %d" % index).ljust(size, b"."), [("h", b"x")])
        for index in range(count)
    ]
    return bytes(build_batch(records, **options))


def idempotent(producer_id: int, epoch: int, sequence: int, count: int = 1) -> bytes:
    return batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def patched(data: bytes, position: int, form: str, value: int) -> bytes:
    """The batch with a field changed and a CRC that fits."""
    changed = bytearray(data)
    struct.pack_into(form, changed, position, value)
    struct.pack_into("!I", changed, CRC_AT, crc32c(bytes(changed[ATTRIBUTES_AT:])))
    return bytes(changed)


def control_batch() -> bytes:
    key, value = control_record_key(ControlType.COMMIT), end_txn_marker_value(0)
    record = Record(-1, START, key, value, [])
    return bytes(build_batch([record], control=True, transactional=True, producer_id=5, producer_epoch=0))


def wrong_batches() -> dict[str, bytes]:
    """Batches that a broker must not store, by what is wrong with them."""
    good = batch()
    wrong_crc = good[:-1] + bytes([good[-1] ^ 1])
    return {
        "wrong crc": wrong_crc,
        "half a batch": good[: len(good) // 2],
        "only a header": good[:61],
        "three bytes": good[:3],
        "garbage": b"\xff" * 200,
        "bytes after the batch": good + b"\x00" * 20,
        "count too high": patched(good, COUNT_AT, "!i", 4),
        "count too low": patched(good, COUNT_AT, "!i", 2),
        "count zero": patched(good, COUNT_AT, "!i", 0),
        "count negative": patched(good, COUNT_AT, "!i", -1),
        "count and delta too high": patched(patched(good, COUNT_AT, "!i", 4), LAST_OFFSET_DELTA_AT, "!i", 3),
        "last offset delta too high": patched(good, LAST_OFFSET_DELTA_AT, "!i", 5),
        "last offset delta too low": patched(good, LAST_OFFSET_DELTA_AT, "!i", 1),
        "last offset delta negative": patched(good, LAST_OFFSET_DELTA_AT, "!i", -1),
        "base offset not zero": patched(good, 0, "!q", 5),
        "unknown codec": patched(good, ATTRIBUTES_AT, "!h", 5),
        "says gzip and is not": patched(good, ATTRIBUTES_AT, "!h", 1),
        "says zstd and is not": patched(good, ATTRIBUTES_AT, "!h", 4),
        "log append time": patched(good, ATTRIBUTES_AT, "!h", 8),
        "magic 1": patched(good, 16, "!b", 1),
        "magic 3": patched(good, 16, "!b", 3),
        "control batch": control_batch(),
        "transactional": batch(1, transactional=True, producer_id=5, producer_epoch=0, base_sequence=0),
        "transactional without producer id": batch(1, transactional=True),
        "producer id without sequence": batch(1, producer_id=5, producer_epoch=0, base_sequence=-1),
        "producer id without epoch": batch(1, producer_id=5, producer_epoch=-1, base_sequence=0),
        "two batches": batch(1) + batch(2),
        "two batches, the second broken": batch(1) + wrong_crc,
    }


def odd_batches() -> dict[str, bytes]:
    """Batches with something unusual that is stored."""
    good = batch()
    return {
        "no timestamps": _without_timestamps(),
        "max timestamp too low": patched(good, MAX_TIMESTAMP_AT, "!q", START),
        "max timestamp too high": patched(good, MAX_TIMESTAMP_AT, "!q", START + 1000),
        "null key": batch(key=None),
        "leader epoch set": good[:12] + struct.pack("!i", 77) + good[16:],
        "delete horizon set": patched(good, ATTRIBUTES_AT, "!h", 0x40),
        "unused attribute set": patched(good, ATTRIBUTES_AT, "!h", 0x80),
        "the epoch": batch(1, timestamp=0),
    }


def _without_timestamps() -> bytes:
    return bytes(build_batch([Record(-1, -1, b"k", b"v", []), Record(-1, -1, b"k", b"v", [])]))
