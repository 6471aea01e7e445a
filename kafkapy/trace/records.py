"""What is told of records: what the headers of their batches say."""

from __future__ import annotations

from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import MAGIC, iter_headers


def batches_text(records: memoryview | bytes) -> str:
    """Their number and offsets, as in "3 records in 1 batch, offsets 5-7, 99 bytes"."""
    count, batches, first, last = 0, 0, -1, -1
    try:
        for _, header in iter_headers(records):
            batches += 1
            if header.magic != MAGIC:
                return f"{len(records)} bytes of magic {header.magic}"
            count += header.record_count
            first = header.base_offset if first < 0 else first
            last = header.last_offset
    except DecodeError as error:
        return f"{len(records)} bytes: {error}"
    if not batches:
        return f"{len(records)} bytes" if len(records) else "no records"
    end = "batch" if batches == 1 else "batches"
    plural = "record" if count == 1 else "records"
    return f"{count} {plural} in {batches} {end}, offsets {first}-{last}, {len(records)} bytes"


def record_count(records: memoryview | bytes | None) -> int:
    """How many records the batches have; those of magic 0 and 1 are not counted."""
    try:
        return sum(header.record_count for _, header in iter_headers(records or b""))
    except DecodeError:
        return 0
