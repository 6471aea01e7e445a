"""Fuzz targets: message sets of magic 0 and 1, and their conversion from and to batches.

A set that is stored holds what a client would read of it; a batch that passes the walker can be converted.
"""

import random
import struct
from collections.abc import Sequence

from kafkapy.protocol.compression import Compression
from kafkapy.protocol.down_conversion import down_convert
from kafkapy.protocol.errors import DecodeError, KafkaError
from kafkapy.protocol.legacy_records import build_message_set, decode_message_set
from kafkapy.protocol.record_walker import walk_batch
from kafkapy.protocol.records import LOG_OVERHEAD, Record, build_batch, decode_records, read_header
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.up_conversion import prepare_messages
from tests.fuzz.fuzz_records import LIMIT, some_records
from tests.fuzz.fuzzing import Target
from tests.protocol.record_strategies import fix_crc

CODECS = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)
CONFIG = LogConfig(message_timestamp_after_max_ms=2**62, max_message_bytes=LIMIT)
NOW_MS = 10**12


def content(records: Sequence[Record]) -> list[tuple[object, ...]]:
    return [(record.timestamp, record.key, record.value) for record in records]


def numbered(records: Sequence[Record]) -> list[Record]:
    return [Record(i, each.timestamp, each.key, each.value) for i, each in enumerate(records)]


def set_target(magic: int, compression: Compression) -> Target:
    def seeds(source: random.Random) -> Sequence[bytes]:
        return [
            bytes(build_message_set(numbered(some_records(source)), magic, compression=compression))
            for _ in range(20)
        ]

    def run(data: bytes) -> None:
        try:
            read = decode_message_set(data, limit=LIMIT)
        except DecodeError:
            read = None
        try:
            prepared = prepare_messages(data, config=CONFIG, now_ms=NOW_MS, max_decompressed=LIMIT)
        except KafkaError:
            return
        assert read is not None, "it is stored and cannot be read"
        if prepared is None:
            assert not read, "there is a message, and it is not stored"
            return
        (batch,) = prepared.batches
        assert content(decode_records(batch.buffer)) == content(read), "what is stored differs"

    return Target(f"message-set-{magic}-{compression.name.lower()}", seeds, run)


def down_target(magic: int, compression: Compression) -> Target:
    def seeds(source: random.Random) -> Sequence[bytes]:
        return [bytes(build_batch(some_records(source), compression=compression)) for _ in range(20)]

    def run(data: bytes) -> None:
        # A length and a CRC that are right let the rest of the damage through to the records.
        batch = bytearray(data[:8] + struct.pack(">i", len(data) - LOG_OVERHEAD) + data[12:])
        fix_crc(batch)
        try:
            header = read_header(batch)
            walk_batch(batch, 0, header, max_decompressed=LIMIT)
        except DecodeError:
            return
        if header.is_control or header.compression is Compression.ZSTD:
            return
        if not 0 <= header.base_offset <= header.last_offset < 2**63:
            return  # no log has them
        first = header.base_offset
        messages, records = down_convert(batch, magic, first, limit=0, max_decompressed=LIMIT)
        expected = content(decode_records(batch))
        assert records == len(expected), "the count differs"
        if magic == 0:
            expected = [(-1, *rest) for _, *rest in expected]
        assert content(decode_message_set(messages)) == expected, "what is answered differs"

    return Target(f"down-conversion-{magic}-{compression.name.lower()}", seeds, run)


TARGETS = [
    target(magic, compression)
    for target in (set_target, down_target)
    for magic in (0, 1)
    for compression in CODECS
]
