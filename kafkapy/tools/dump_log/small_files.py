"""The small files of a data directory: snapshots, checkpoints, properties and others.

storage/log/producer_snapshots.py and storage/disk/checkpoints.py describe their formats. kafka-dump-log knows
only the producer snapshots.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kafkapy.protocol.codec import decode
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.messages.storage_files import ProducerSnapshot
from kafkapy.protocol.records import NO_SEQUENCE
from kafkapy.protocol.types import uuid_to_text
from kafkapy.storage.disk.checkpoints import (
    CorruptCheckpointError,
    read_leader_epochs,
    read_meta_properties,
    read_numbers,
    read_offsets,
    read_partition_metadata,
)
from kafkapy.storage.disk.properties import parse_properties
from kafkapy.storage.log.producer_snapshots import CorruptSnapshotError, decode_snapshot
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.dump_log.batches import Offsets
from kafkapy.tools.dump_log.fact import Fact, Values, error
from kafkapy.tools.dump_log.file_kinds import FileKind

_SEQUENCES = 1 << 31


def dump_small_file(files: ReadOnlyFiles, path: str, kind: FileKind, *, offsets: Offsets) -> Iterator[Fact]:
    """Yield what the file says; if it cannot be read, end with one error.

    Raises:
        OSError: the disk failed.
    """
    try:
        yield from _READERS[kind](files, path, offsets)
    except (CorruptCheckpointError, CorruptSnapshotError, DecodeError, ValueError) as problem:
        yield error(str(problem).removeprefix(f"{path}: "))


def _producers(files: ReadOnlyFiles, path: str, offsets: Offsets) -> Iterator[Fact]:
    data = files.read(path)
    decode_snapshot(data)
    for entry in decode(ProducerSnapshot, data[2:], 1).producer_entries:
        open_from = entry.current_txn_first_offset
        values: Values = {
            "producerId": entry.producer_id,
            "producerEpoch": entry.epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": None if open_from < 0 else open_from,
            "lastTimestamp": entry.timestamp,
        }
        if entry.last_offset >= 0:
            first = entry.last_sequence
            if first != NO_SEQUENCE:
                first = (first - entry.offset_delta) % _SEQUENCES
            values |= {
                "firstSequence": first,
                "lastSequence": entry.last_sequence,
                "lastOffset": entry.last_offset,
                "offsetDelta": entry.offset_delta,
                "timestamp": entry.timestamp,
            }
        yield Fact("producer", values)


def _offsets(files: ReadOnlyFiles, path: str, _: Offsets) -> Iterator[Fact]:
    for (topic, partition), offset in read_offsets(files, path).items():
        yield Fact("offset", {"topic": topic, "partition": partition, "offset": offset})


def _epochs(files: ReadOnlyFiles, path: str, _: Offsets) -> Iterator[Fact]:
    for epoch, start_offset in read_leader_epochs(files, path):
        yield Fact("epoch", {"epoch": epoch, "startOffset": start_offset})


def _damage(files: ReadOnlyFiles, path: str, _: Offsets) -> Iterator[Fact]:
    names = ("segment", "position", "endPosition", "firstOffset", "endOffset")
    for line in read_numbers(files, path, columns=len(names)):
        yield Fact("damage", dict(zip(names, line, strict=True)))


def _partition_metadata(files: ReadOnlyFiles, path: str, _: Offsets) -> Iterator[Fact]:
    topic_id = read_partition_metadata(files, path)
    if topic_id is not None:
        yield Fact("properties", {"version": 0, "topicId": uuid_to_text(topic_id)})


def _meta_properties(files: ReadOnlyFiles, path: str, _: Offsets) -> Iterator[Fact]:
    yield Fact("properties", dict(sorted(parse_properties(files.read(path).decode()).items())))
    read_meta_properties(files, path)  # raises an error that says what is missing


def _json_file(files: ReadOnlyFiles, path: str, _: Offsets) -> Iterator[Fact]:
    text = files.read(path).decode()
    found: Any = json.loads(text) if text.strip() else {}
    if not isinstance(found, dict):
        raise CorruptCheckpointError(path, f"{text!r} is not a JSON object")
    yield Fact("properties", found)


_READERS = {
    FileKind.PRODUCER_SNAPSHOT: _producers,
    FileKind.OFFSET_CHECKPOINT: _offsets,
    FileKind.LEADER_EPOCHS: _epochs,
    FileKind.PARTITION_METADATA: _partition_metadata,
    FileKind.META_PROPERTIES: _meta_properties,
    FileKind.CLEAN_SHUTDOWN: _json_file,
    FileKind.QUORUM_STATE: _json_file,
    FileKind.DAMAGED_OFFSETS: _damage,
}
