"""What the produce path does with a record batch: header, CRC, every record, stamp.

scripts/bench records [--seconds 0.5]

For batches of several shapes and codecs: CPU microseconds a batch, nanoseconds a record and seconds a GB (of
the batch as sent), with the compiled walker, if it was built, and with its twin in Python.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

from kafkapy.protocol import record_walker
from kafkapy.protocol.compression import MAX_DECOMPRESSED, Compression
from kafkapy.protocol.record_walker import PureWalker, RecordWalker, walk_batch
from kafkapy.protocol.records import Record, build_batch, crc_is_valid, read_header, stamp_batch
from scripts.benchmarks.options import parser_of
from scripts.benchmarks.table import aligned
from scripts.benchmarks.timing import cpu_seconds

_WORDS = [bytes(random.Random(i).choices(range(97, 123), k=1 + i % 9)) for i in range(400)]


def _batch_of(count: int, size: int, compression: Compression = Compression.NONE) -> bytearray:
    """Records of words, with keys, some milliseconds apart."""
    words = random.Random(count)
    text = b" ".join(words.choices(_WORDS, k=count * size // 5 + 10))
    return build_batch(
        (
            Record(
                timestamp=1_700_000_000_000 + i // 10,
                key=b"key-%d" % i,
                value=text[i * size : (i + 1) * size],
            )
            for i in range(count)
        ),
        compression=compression,
    )


def _produce(batch: bytearray) -> None:
    header = read_header(batch)
    assert crc_is_valid(batch, 0, header)
    walk_batch(batch, 0, header, max_decompressed=MAX_DECOMPRESSED)
    stamp_batch(batch, base_offset=0, leader_epoch=7)


def main(options: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each row")
    seconds = parser.parse_args(options).seconds
    twins: list[type[RecordWalker]] = [record_walker.Walker]
    if twins[0] is not PureWalker:
        twins.append(PureWalker)
    cases = [(1, 100), (10, 100), (160, 100), (10_000, 100), (16, 1024), (1000, 1024), (1, 1_000_000)]
    plain = [(count, size, Compression.NONE) for count, size in cases]
    packed = [(160, 100, codec) for codec in list(Compression)[1:]]
    packed += [(10_000, 100, codec) for codec in list(Compression)[1:]]
    rows = []
    for twin in twins:
        record_walker.Walker = twin
        for count, size, codec in plain + packed:
            batch = _batch_of(count, size, codec)
            spent = cpu_seconds(partial(_produce, batch), seconds)
            costs = [f"{spent * 1e6:.1f}", f"{spent / count * 1e9:.1f}", f"{spent / len(batch) * 1e9:.2f}"]
            rows.append([twin.__name__, codec.name.lower(), *map(str, (count, size, len(batch))), *costs])
    print(aligned(["walker", "codec", "records", "of", "batch", "µs/batch", "ns/rec", "s/GB"], rows))
    return 0
