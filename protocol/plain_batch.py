"""Reads and checks a plain batch in one call. Most batches of producers are plain.

A batch is plain if it is uncompressed, is whole and alone in its buffer, and there is nothing unusual in it:

- magic 2, base offset 0, and no attribute but the transactional one;
- a last offset delta and a max timestamp that fit its records;
- records that every consumer can read (record_walker.py).

Its CRC is not checked. What is wrong or unusual in another batch, the general way tells (`read_header`,
`walk_batch`). There are two twins: the compiled one (`_walker.c`) is used if it was built, unless
KAFKAPY_PURE_PYTHON is set and not empty in the environment. Tests hold that both agree on every input.
"""

from __future__ import annotations

from typing import TypeAlias

from kafkapy.protocol.compiled import compiled_twin
from kafkapy.protocol.compression import Buffer
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.record_walker import PureWalker
from kafkapy.protocol.records import HEADER_SIZE, MAGIC, TRANSACTIONAL, read_header

PlainBatch: TypeAlias = tuple[tuple[int, ...], int, int]
"""The fields of the header (`records.header_of`), the least timestamp, and the index of the first null key.

The timestamp is that of the records that have one, or NO_TIMESTAMP. The index is -1 if there is no null key.
"""


def read_plain_batch_purely(data: Buffer, /) -> PlainBatch | None:
    """Read the batch that fills `data`; None if it is not plain."""
    try:
        header = read_header(data)
    except DecodeError:
        return None
    if header.magic != MAGIC or header.size != len(data):
        return None
    if header.base_offset or header.attributes & ~TRANSACTIONAL:
        return None
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        return None
    walker = PureWalker(header.base_timestamp, header.record_count)
    walker.feed(memoryview(data)[HEADER_SIZE:])
    _, max_timestamp, _, min_timestamp, first_null_key = walker.summary()
    if walker.finish() is not None or max_timestamp != header.max_timestamp:
        return None
    return tuple(header), min_timestamp, first_null_key


read_plain_batch = compiled_twin("kafkapy.protocol._walker", "read_plain_batch", read_plain_batch_purely)
"""The twin that is used."""
