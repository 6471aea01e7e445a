"""What is told of records: what the headers of their batches say, and the first records."""

from __future__ import annotations

import base64
import codecs
from typing import Any, Final

from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import MAGIC, BatchHeader, Record, iter_headers, iter_records

_MOST_BATCHES: Final = 10
_MOST_RECORDS: Final = 10
"""Of all batches of a field; a request may have thousands of fields with records."""
_MOST_BYTES: Final = 200
"""Of a key, a value or a header."""
_MOST_HEADERS: Final = 20
_MOST_DECOMPRESSED: Final = 1024 * 1024


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


def batches_shown(records: memoryview | bytes) -> Any:
    """The same with the fields of the first batches and the first records, for JSON."""
    told = batches_text(records)
    batches: list[dict[str, Any]] = []
    left = _MOST_RECORDS
    try:
        for position, header in iter_headers(records):
            if header.magic != MAGIC or len(batches) == _MOST_BATCHES:
                break
            batches.append(_batch(header))
            if left and header.record_count:
                batches[-1]["records"] = shown = _first(records, position, header, left)
                left -= len(shown)
    except DecodeError as error:
        if batches:
            batches[-1]["error"] = str(error)
    return {"told": told, "batches": batches} if batches else told


def _first(
    records: memoryview | bytes, position: int, header: BatchHeader, most: int
) -> list[dict[str, Any]]:
    found = []
    for record in iter_records(records, position, header, limit=_MOST_DECOMPRESSED):
        found.append(_record(record))
        if len(found) == most:
            break
    return found


def _batch(header: BatchHeader) -> dict[str, Any]:
    return {
        "baseOffset": header.base_offset,
        "recordCount": header.record_count,
        "bytes": header.size,
        "compression": header.compression.name.lower(),
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
    }


def _record(record: Record) -> dict[str, Any]:
    headers = [{"key": name[:_MOST_BYTES], "value": _content(value)} for name, value in record.headers]
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _content(record.key),
        "value": _content(record.value),
        "headers": headers[:_MOST_HEADERS],
    }


def _content(data: bytes | None) -> Any:
    if data is None:
        return None
    cut = data[:_MOST_BYTES]
    left_out = f"… ({len(data):,} bytes)" if len(data) > _MOST_BYTES else ""
    try:
        # The last character may be cut.
        return codecs.getincrementaldecoder("utf-8")().decode(cut, not left_out) + left_out
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(cut).decode() + left_out}


def record_count(records: memoryview | bytes | None) -> int:
    """How many records the batches have; those of magic 0 and 1 are not counted."""
    try:
        return sum(header.record_count for _, header in iter_headers(records or b""))
    except DecodeError:
        return 0
