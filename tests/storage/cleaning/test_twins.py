"""The compiled half of compaction and its twin in Python do the same.

They get good batches and damaged ones.
"""

from __future__ import annotations

import os
import random
import struct

import pytest

from kafkapy.protocol.records import (
    Compression,
    Record,
    TimestampType,
    build_batch,
    crc_is_valid,
    decode_records,
    iter_headers,
)
from kafkapy.storage.cleaning.batch_filter import PureBatchFilter
from kafkapy.storage.cleaning.key_index import (
    END,
    FULL,
    SPECIAL,
    index_batches_purely,
    index_records_purely,
)
from kafkapy.storage.cleaning.offset_map import OffsetMap

compactor = pytest.importorskip("kafkapy.storage.cleaning._compactor")

SEED = int(os.environ.get("KAFKAPY_SEED", str(random.SystemRandom().randrange(10**6))))
ROUNDS = 150
NOW = 1_450_000


def some_batches(chance: random.Random) -> bytes:
    """Batches of all kinds.

    They have gaps, keys of all lengths around MD5's blocks, null keys, tombstones and horizons.
    """
    out, offset = bytearray(), 0
    for _ in range(chance.randrange(1, 40)):
        records = []
        for _ in range(chance.randrange(1, 8)):
            offset += chance.choice((1, 1, 1, 3))
            key = chance.choice(
                [None, chance.randbytes(chance.choice((0, 3, 10, 55, 56, 63, 64, 65, 130)))]
                + [b"k%d" % chance.randrange(20)] * 6
            )
            value = chance.choice([None, b"", b"v" * chance.randrange(200)])
            headers = [("h", b"x")] * chance.choice((0, 0, 1))
            records.append(Record(offset, chance.randrange(10**6, 2 * 10**6), key, value, headers))
        out += build_batch(
            records,
            base_offset=records[0].offset,
            producer_id=chance.choice((-1, 5, 6)),
            producer_epoch=0,
            base_sequence=0,
            delete_horizon=chance.choice((None, None, NOW - 50_000, NOW + 50_000)),
            timestamp_type=chance.choice(list(TimestampType)),
            compression=chance.choice([Compression.NONE] * 12 + [Compression.GZIP]),
            transactional=chance.random() < 0.03,
        )
    return bytes(out)


def damaged(data: bytes, chance: random.Random) -> bytes:
    broken = bytearray(data)
    broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
    return bytes(broken)


def test_both_index_the_same_keys() -> None:
    for number in range(ROUNDS):
        chance = random.Random(SEED * 1000 + number)
        data = some_batches(chance)
        if chance.random() < 0.3:
            data = damaged(data, chance)
        key_map = OffsetMap(chance.choice((24 * 10, 24 * 100, 10**5)), keys=1000)
        other = bytearray(key_map.slots)
        arguments = (0, key_map.limit, chance.randrange(30), -1, data, 0, len(data), 0, 10**6)
        expected = index_batches_purely(key_map.slots, *arguments)
        assert compactor.index_batches(other, *arguments) == expected, f"KAFKAPY_SEED={SEED}, {number}"
        assert key_map.slots == other, f"KAFKAPY_SEED={SEED}, {number}"


def test_both_index_the_records_of_one_batch() -> None:
    for number in range(ROUNDS):
        chance = random.Random(SEED * 1000 + number)
        data = some_batches(chance)
        _, header = next(iter_headers(data))
        records = data[61 : header.size] if chance.random() < 0.7 else damaged(data[61 : header.size], chance)
        key_map = OffsetMap(chance.choice((24 * 4, 10**5)), keys=1000)
        other = bytearray(key_map.slots)
        arguments = (0, key_map.limit, 0, -1, records, header.base_offset, header.record_count)
        expected = index_records_purely(key_map.slots, *arguments)
        assert compactor.index_records(other, *arguments) == expected, f"KAFKAPY_SEED={SEED}, {number}"
        assert key_map.slots == other, f"KAFKAPY_SEED={SEED}, {number}"


def test_both_keep_the_same_records() -> None:
    stops = set()
    for number in range(ROUNDS):
        chance = random.Random(SEED * 1000 + number)
        data = some_batches(chance)
        key_map = OffsetMap(10**5, keys=1000)
        _, last_offset, _, _, _, _ = index_batches_purely(
            key_map.slots, 0, key_map.limit, 0, -1, data, 0, len(data), 0, 10**6
        )
        producers = struct.pack("=qqqq", 5, chance.randrange(100), 6, chance.randrange(100))
        broken = chance.random() < 0.3
        if broken:
            data = damaged(data, chance)
        arguments = (
            key_map.slots,
            chance.choice((last_offset, last_offset // 2)),
            NOW,
            NOW + 7_000_000,
            producers,
            0,
            10**6,
            chance.randrange(100),
            chance.choice((0, 100, 4096)),
        )
        pure, compiled = PureBatchFilter(*arguments), compactor.BatchFilter(*arguments)
        size, final = chance.choice((len(data) // 2, len(data) * 3 + 2000)), chance.random() < 0.5
        out, other = bytearray(size), bytearray(size)
        at = at_other = 0
        while True:
            at, end, stop = pure.run(data, at, len(data), final, out, 0)
            at_other, end_other, stop_other = compiled.run(data, at_other, len(data), final, other, 0)
            assert (at, end, stop) == (at_other, end_other, stop_other), f"KAFKAPY_SEED={SEED}, {number}"
            assert out[:end] == other[:end], f"KAFKAPY_SEED={SEED}, {number}"
            assert pure.written() == compiled.written()
            assert pure.seen() == compiled.seen()
            kept = bytes(out[:end])
            for position, header in iter_headers(kept):
                assert crc_is_valid(kept, position, header)
                decode_records(kept, position, header)
            stops.add(stop)
            if stop == SPECIAL and not broken:
                _, header = next(iter_headers(data, at))
                assert pure.accept(header.base_offset, header.last_offset)
                assert compiled.accept(header.base_offset, header.last_offset)
                at += header.size
                at_other = at
            elif stop != FULL or end == 0:
                break
    assert {END, SPECIAL, FULL} <= stops


def test_both_choose_the_same_of_decompressed_records() -> None:
    for number in range(ROUNDS):
        chance = random.Random(SEED * 1000 + number)
        data = some_batches(chance)
        key_map = OffsetMap(10**5, keys=1000)
        index_batches_purely(key_map.slots, 0, key_map.limit, 0, -1, data, 0, len(data), 0, 10**6)
        arguments = (key_map.slots, 10**6, NOW, NOW + 7_000_000, b"", 0, 10**6, 0, 100)
        pure, compiled = PureBatchFilter(*arguments), compactor.BatchFilter(*arguments)
        for position, header in iter_headers(data):
            records = data[position + 61 : position + header.size]
            if chance.random() < 0.2:
                records = damaged(records, chance)
            of_batch = (
                records, header.base_offset, header.base_timestamp, header.record_count,
                header.has_delete_horizon,
            )  # fmt: skip
            assert compiled.filter_records(*of_batch) == pure.filter_records(*of_batch), (
                f"KAFKAPY_SEED={SEED}, {number}"
            )


def test_a_map_that_could_get_full_is_refused() -> None:
    slots = bytearray(24 * 4)
    for index in (index_batches_purely, compactor.index_batches):
        with pytest.raises(ValueError, match="empty slot"):
            index(slots, 0, 4, 0, -1, b"", 0, 0, 0, 10)
