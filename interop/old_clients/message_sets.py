"""Message sets, good and bad, as old producers would send them."""

from __future__ import annotations

import struct
from typing import Any
from zlib import crc32

from kafkapy.protocol.compression import Compression, compress
from kafkapy.protocol.legacy_compression import with_header_checksum
from kafkapy.protocol.legacy_records import append_message, build_message_set
from kafkapy.protocol.records import Record, TimestampType, build_batch

START = 1_700_000_000_000
CODECS = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)
SIZE_AT, CRC_AT, MAGIC_AT, ATTRIBUTES_AT, TIMESTAMP_AT = 8, 12, 16, 17, 18


def some_records(count: int = 3, *, key: bytes | None = b"k", size: int = 0) -> list[Record]:
    """Records a millisecond apart; `size` bytes of value each."""
    return [Record(i, START + i, key, (b"value %d" % i).ljust(size, b".")) for i in range(count)]


def messages(
    count: int = 3, magic: int = 1, *, size: int = 0, key: bytes | None = b"k", **options: Any
) -> bytes:
    return bytes(build_message_set(some_records(count, key=key, size=size), magic, **options))


def patched(data: bytes, position: int, form: str, value: int) -> bytes:
    """The first message with a field changed and a CRC that fits."""
    (size,) = struct.unpack_from(">i", data, SIZE_AT)
    changed = bytearray(data)
    struct.pack_into(form, changed, position, value)
    struct.pack_into(">I", changed, CRC_AT, crc32(changed[MAGIC_AT : size + CRC_AT]))
    return bytes(changed)


def wrapped(
    content: bytes | None, *, magic: int = 1, offset: int = 0, codec: Compression = Compression.GZIP
) -> bytes:
    """A wrapper around any bytes."""
    data = bytearray()
    value = None if content is None else compress(codec, content)
    append_message(data, magic, offset, codec, START, None, value)
    return bytes(data)


def lz4_with_standard_checksum() -> bytes:
    """lz4 in magic 0 as a client that does not know the old checksum would send it."""
    good = messages(magic=0, compression=Compression.LZ4)
    value = with_header_checksum(good[26:], from_byte=4)
    data = bytearray()
    append_message(data, 0, 2, Compression.LZ4, -1, None, value)
    return bytes(data)


def good_sets() -> dict[str, bytes]:
    """Sets that a broker stores, by what is special about them."""
    one, two = messages(1), messages(2)
    null = Record(0, START, None, None)
    from_5 = [Record(5, START, b"a", b"b"), Record(6, START, b"c", b"d")]
    return {
        f"{magic} {codec.name}": messages(magic=magic, compression=codec)
        for magic in (0, 1)
        for codec in CODECS
    } | {
        "null key and value": bytes(build_message_set([null], 1)),
        "no timestamps": bytes(build_message_set([Record(0, -1, b"k", b"v"), Record(1, -1, b"k", b"v")], 1)),
        "falling timestamps": bytes(
            build_message_set([Record(0, START, b"k", b"v"), Record(1, START - 9, b"k", b"v")], 1)
        ),
        "any offsets": patched(one, 0, ">q", 77) + patched(one, 0, ">q", -5) + one,
        "cut short": two + one[:-1],
        "cut short within the size": two + one[:10],
        "cut short before the magic": two + one[:15],
        "wrapper with offset 0": patched(messages(compression=Compression.GZIP), 0, ">q", 0),
        "wrapper with a large offset": patched(messages(compression=Compression.GZIP), 0, ">q", 1000),
        "wrapper with a wrong timestamp": patched(
            messages(compression=Compression.GZIP), TIMESTAMP_AT, ">q", START - 5
        ),
        "wrapper whose last message is cut short": wrapped(two + one[:-1], offset=1),
        "relative offsets from 5": wrapped(bytes(build_message_set(from_5, 1)), offset=6),
        "equal offsets in a wrapper": wrapped(one + one),
        "unused attributes": patched(one, ATTRIBUTES_AT, ">b", 0x10),
        "lz4 in magic 0 with the standard checksum": lz4_with_standard_checksum(),
        "a record batch": bytes(build_batch(some_records(1))),
        "nothing": b"",
        "three bytes": one[:3],
        "half a message": one[: len(one) // 2],
    }


def wrong_sets() -> dict[str, bytes]:
    """Sets that a broker refuses, by what is wrong with them."""
    one, zero, gzip = messages(1), messages(1, 0), messages(compression=Compression.GZIP)
    return {
        "wrong crc": one[:-1] + bytes([one[-1] ^ 1]),
        "wrong crc in the second": one + one[:-1] + bytes([one[-1] ^ 1]),
        "wrong crc within a wrapper": wrapped(one[:-1] + bytes([one[-1] ^ 1])),
        "garbage": b"\xff" * 100,
        "size too small": patched(one, SIZE_AT, ">i", 13),
        "negative size": one[:SIZE_AT] + b"\xff\xff\xff\xfe" + one[12:],
        "magic 3": patched(one, MAGIC_AT, ">b", 3),
        "both magics": one + zero,
        "a batch after a message": one + bytes(build_batch(some_records(1))),
        "a message after a batch": bytes(build_batch(some_records(1))) + one,
        "two batches": bytes(build_batch(some_records(1))) * 2,
        "a wrapper after a message": one + gzip,
        "a message after a wrapper": gzip + one,
        "two wrappers": gzip + gzip,
        "a wrapper in a wrapper": wrapped(gzip),
        "another magic in a wrapper": wrapped(zero),
        "a wrapper without a value": wrapped(None),
        "an empty wrapper": wrapped(b""),
        "wrapper offset below the last": patched(gzip, 0, ">q", 1),
        "unknown codec": patched(one, ATTRIBUTES_AT, ">b", 7),
        "zstd": wrapped(one, codec=Compression.ZSTD),
        "says gzip and is not": patched(one, ATTRIBUTES_AT, ">b", 1),
        "log append time": messages(timestamp_type=TimestampType.LOG_APPEND_TIME),
        "log append time and no timestamp": bytes(
            build_message_set([Record(0, -1, b"k", b"v")], 1, timestamp_type=TimestampType.LOG_APPEND_TIME)
        ),
        "negative timestamp": bytes(build_message_set([Record(0, -5, b"k", b"v")], 1)),
        "key beyond its message": patched(zero, 18, ">i", 100),
        "bytes after the value": patched(zero, 18 + 5, ">i", 2),
    }
