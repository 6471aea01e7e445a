"""Segment files and KRaft snapshots: their batches, and with `deep` their records.

If a batch is torn or has an impossible length, the output ends with one `error` for the rest of the file. A
batch with a wrong CRC is shown with isvalid false; its records are shown as far as they can be read.

Source: Kafka's DumpLogSegments.dumpLog.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import (
    MAGIC,
    NO_SEQUENCE,
    BatchHeader,
    Compression,
    Record,
    crc_is_valid,
    decode_records,
    increment_sequence,
    read_header,
)
from kafkapy.storage.log.batches import BadBatchError, iter_batches
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.dump_log.control_records import control_values
from kafkapy.tools.dump_log.decoders import Decoder
from kafkapy.tools.dump_log.fact import Fact, Values, error
from kafkapy.tools.dump_log.legacy_messages import TIMESTAMP_TYPES, message_values, messages_in

MAX_BATCH = 1 << 30
"""How many bytes the records of one batch may decompress to."""


class Offsets(NamedTuple):
    """The first and the last offset to show."""

    first: int = 0
    last: int = 2**63 - 1


ALL = Offsets()


class What(NamedTuple):
    """The options of the dump of a log."""

    deep: bool
    data: bool
    decoder: Decoder | None
    offsets: Offsets


def dump_log(files: ReadOnlyFiles, path: str, what: What) -> Iterator[Fact]:
    """Yield the batches in file order, each followed by its records.

    Raises:
        OSError: the disk failed.
    """
    first, last = what.offsets
    file = files.open(path)
    end = 0
    previous: int | None = None
    size = files.size_of(file)
    try:
        for position, batch in iter_batches(files, file, 0, size):
            header = read_header(batch)
            end = position + len(batch)
            if _last_offset(header) < first:
                continue
            if header.magic == MAGIC and header.base_offset > last:
                return
            values = _batch_values(header, batch, position)
            if header.magic != MAGIC:
                values = message_values(header.base_offset, batch, position)
            yield Fact("batch", values)
            if what.deep:
                for fact in _records(header, batch, what):
                    if fact.kind == "record":
                        offset = fact.values["offset"]
                        if not first <= offset <= last:
                            continue
                        if previous is not None and offset != previous + 1:
                            yield Fact("gap", {"offset": previous, "next": offset})
                        previous = offset
                    yield fact
    except BadBatchError as problem:
        yield error(
            f"Found {size - end} invalid bytes at the end of {os.path.basename(path)}: {problem.reason}",
            position=problem.position,
            bytes=size - end,
        )
    except DecodeError as problem:
        yield error(
            f"Found {size - end} invalid bytes at the end of {os.path.basename(path)}: {problem}",
            position=end,
            bytes=size - end,
        )
    finally:
        file.release()


def _last_offset(header: BatchHeader) -> int:
    return header.last_offset if header.magic == MAGIC else header.base_offset


def _batch_values(header: BatchHeader, batch: memoryview, position: int) -> Values:
    try:
        codec = Compression(header.attributes & 7).name.lower()
    except ValueError:
        codec = f"unknown({header.attributes & 7})"
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": header.base_timestamp if header.has_delete_horizon else None,
        "position": position,
        "timestampType": TIMESTAMP_TYPES[header.timestamp_type],
        "timestamp": header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "compresscodec": codec,
        "crc": header.crc,
        "isvalid": crc_is_valid(batch, 0, header),
    }


def _records(header: BatchHeader, batch: memoryview, what: What) -> Iterator[Fact]:
    try:
        if header.magic != MAGIC:
            for values, legacy in messages_in(batch, limit=MAX_BATCH):
                yield Fact("record", values | (_contents(legacy, what.decoder) if what.data else {}))
            return
        records = decode_records(batch, 0, header, limit=MAX_BATCH)
    except DecodeError as problem:
        yield error(
            f"The records from offset {header.base_offset} cannot be read: {problem}",
            offset=header.base_offset,
        )
        return
    for record in records:
        yield Fact("record", _record_values(header, record, what))


def _record_values(header: BatchHeader, record: Record, what: What) -> Values:
    sequence = NO_SEQUENCE
    if header.base_sequence >= 0:
        sequence = increment_sequence(header.base_sequence, record.offset - header.base_offset)
    values: Values = {
        "offset": record.offset,
        "timestampType": TIMESTAMP_TYPES[header.timestamp_type],
        "timestamp": record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": sequence,
        "headerKeys": [name for name, _ in record.headers],
    }
    if header.is_control:
        values |= control_values(record)
    elif what.data:
        values |= _contents(record, what.decoder)
    return values


def _contents(record: Record, decoder: Decoder | None) -> Values:
    values: Values = {}
    if decoder is not None:
        key, value = decoder(record)
        return {name: shown for name, shown in (("key", key), ("payload", value)) if shown is not None}
    values |= _content("key", record.key) | _content("payload", record.value)
    if record.headers:
        values["headers"] = [{"name": name, **_content("value", value)} for name, value in record.headers]
    return values


def _content(name: str, data: bytes | None) -> dict[str, Any]:
    """Return text if the data is text, else bytes."""
    if data is None:
        return {}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {name: data}
