"""Fuzz targets: record batches in every codec, their records, and the codecs' streams.

A batch that passes the walker must decode, and the walker's twins must agree on it.
"""

import random
import struct
from collections.abc import Sequence
from itertools import pairwise

from kafkapy.protocol import record_walker
from kafkapy.protocol.compression import Compression, compress, decompress
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.record_walker import BatchSummary, PureWalker, RecordWalker, walk_batch
from kafkapy.protocol.records import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    Record,
    build_batch,
    decode_records,
    iter_headers,
    read_header,
)
from tests.fuzz.fuzzing import Target

LIMIT = 64 * 1024


def some_records(source: random.Random) -> list[Record]:
    def field() -> bytes | None:
        size = source.choice([None, 0, 1, 5, 63, 64, 70, 3000])
        return None if size is None else (source.randbytes(4) * 750)[:size]

    return [
        Record(
            timestamp=source.choice([-1, 0, 10**12 + source.randrange(10**6), 2**62]),
            key=field(),
            value=field(),
            headers=[
                (source.choice(["", "é", "日本", "x" * 70]), field()) for _ in range(source.choice([0, 0, 2]))
            ],
        )
        for _ in range(source.choice([1, 1, 2, 5, 30]))
    ]


def outcome(data: bytes, walker: type[RecordWalker]) -> BatchSummary | None:
    """What the walk over a batch finds; None if the batch is refused."""
    chosen = record_walker.Walker
    record_walker.Walker = walker
    try:
        return walk_batch(data, 0, read_header(data), max_decompressed=LIMIT)
    except DecodeError:
        return None
    finally:
        record_walker.Walker = chosen


def headers_end(data: bytes) -> None:
    """The list of headers stays within the data."""
    end = 0
    try:
        for position, header in iter_headers(data):
            assert position == end
            end += header.size
    except DecodeError:
        pass
    assert end <= len(data)


def batch_target(compression: Compression) -> Target:
    def seeds(source: random.Random) -> Sequence[bytes]:
        return [bytes(build_batch(some_records(source), compression=compression)) for _ in range(20)]

    def run(data: bytes) -> None:
        headers_end(data)
        # A length that is right lets the rest of the damage through to the records.
        whole = data[:8] + struct.pack(">i", len(data) - LOG_OVERHEAD) + data[12:]
        for batch in (data, whole):
            try:
                decoded = len(decode_records(batch, limit=LIMIT))
            except DecodeError:
                decoded = -1
            summary = outcome(batch, record_walker.Walker)
            assert summary == outcome(batch, PureWalker), "the walkers differ"
            assert summary is None or summary.record_count == decoded, "it passes and does not decode"

    return Target(f"record-batch-{compression.name.lower()}", seeds, run)


def pieces_target() -> Target:
    """Records as a stream that is cut into pieces, by lengths in front of it."""

    def seeds(source: random.Random) -> Sequence[bytes]:
        batches = [build_batch(some_records(source)[:5]) for _ in range(20)]
        return [source.randbytes(6) + batch[57:] for batch in batches]  # six cuts, record count, records

    def run(data: bytes) -> None:
        stream = data[10:]
        count = int.from_bytes(data[6:10], "big", signed=True)
        edges = [0, *sorted(len(stream) * cut // 256 for cut in data[:6]), len(stream)]
        found = []
        for twin in (record_walker.Walker, PureWalker):
            walker = twin(0, count)
            for start, end in pairwise(edges):
                walker.feed(stream[start:end])
            found.append(walker.summary() if walker.finish() is None else walker.summary()[:1])
        assert found[0] == found[1], "the walkers differ"

    return Target("record-pieces", seeds, run)


def stream_target(compression: Compression) -> Target:
    def seeds(source: random.Random) -> Sequence[bytes]:
        payloads = [bytes(build_batch(some_records(source))[HEADER_SIZE:]) for _ in range(10)]
        return [compress(compression, payload * source.choice([1, 1, 50])) for payload in payloads]

    def run(data: bytes) -> None:
        try:
            assert len(decompress(compression, data, limit=LIMIT)) <= LIMIT
        except DecodeError:
            return

    return Target(f"record-stream-{compression.name.lower()}", seeds, run)


TARGETS = [
    *(batch_target(compression) for compression in Compression),
    pieces_target(),
    *(stream_target(compression) for compression in Compression if compression),
]
