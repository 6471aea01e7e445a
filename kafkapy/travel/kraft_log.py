"""Reading Kafka's metadata log: the newest snapshot, then what the log holds behind it.

`__cluster_metadata-0` is a log like those of partitions, with snapshots (`<offset>-<epoch>.checkpoint`)
beside its segments. A snapshot stands for everything below its offset; one without a footer is not
complete. Records between BeginTransactionRecord and EndTransactionRecord count when the latter is there
(KIP-868).

Crash story: the log is read up to its first bad batch, where a crash may have torn it. Nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kafkapy.log_source.read_only_files import ReadOnlyFiles
from kafkapy.protocol.control_records import parse_control_record_key
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from kafkapy.protocol.records import Record, crc_is_valid, decode_records, read_header
from kafkapy.storage.batches import BadBatchError, iter_batches
from kafkapy.travel.kraft_records import SNAPSHOT_FOOTER, decode_metadata_record
from kafkapy.travel.travel_error import TravelError

_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_SEGMENT = re.compile(r"([0-9]{20})\.log")


def read_metadata_log(files: ReadOnlyFiles, directory: str) -> list[TopMessage | int]:
    """The records in force, in order; those of unknown types by their number.

    Raises:
        TravelError: something is missing, or damaged where it was complete once.
        OSError: the disk failed.
    """
    names = [entry.name for entry in files.scan(directory)]
    records: list[Record] = []
    position = 0
    for name in sorted((name for name in names if _SNAPSHOT.fullmatch(name)), reverse=True):
        found = _read_snapshot(files, f"{directory}/{name}")
        if found is not None:
            records, position = found, int(name[:20])
            break
    segments = sorted(name for name in names if _SEGMENT.fullmatch(name))
    behind = [name for name in segments if int(name[:20]) > position]
    if len(behind) == len(segments) and segments and files.size(f"{directory}/{segments[0]}"):
        raise TravelError(f"{directory} has no good snapshot at {segments[0][:20]}, where its log begins.")
    for record in _read_segments(files, directory, segments):
        if record.offset >= position:
            records.append(record)
            position = record.offset + 1
    try:
        return _in_force(records)
    except DecodeError as error:
        raise TravelError(f"{directory} was written by a release that is not known here: {error}.") from None


def _read_snapshot(files: ReadOnlyFiles, path: str) -> list[Record] | None:
    """The records of a snapshot; None for one that is not complete."""
    records: list[Record] = []
    for is_control, record in _records_of(files, path):
        if not is_control:
            records.append(record)
        elif parse_control_record_key(record.key) == SNAPSHOT_FOOTER:
            return records
    return None


def _read_segments(files: ReadOnlyFiles, directory: str, names: list[str]) -> Iterator[Record]:
    for name in names:
        for is_control, record in _records_of(files, f"{directory}/{name}"):
            if not is_control:
                yield record


def _records_of(files: ReadOnlyFiles, path: str) -> Iterator[tuple[bool, Record]]:
    """The records of a file up to the first bad batch, and whether each is a control record."""
    file = files.open(path)
    try:
        for _, batch in iter_batches(files, file, 0, files.size_of(file)):
            header = read_header(batch)
            if not crc_is_valid(batch, 0, header):
                return
            for record in decode_records(batch, 0, header):
                yield header.is_control, record
    except (BadBatchError, DecodeError):
        return
    finally:
        file.release()


def _in_force(records: list[Record]) -> list[TopMessage | int]:
    """The messages without those of transactions that did not end."""
    messages: list[TopMessage | int] = []
    pending: list[TopMessage | int] | None = None
    for record in records:
        message = decode_metadata_record(record.value)
        if isinstance(message, BeginTransactionRecord):
            pending = []
        elif isinstance(message, EndTransactionRecord):
            messages += pending or []
            pending = None
        elif isinstance(message, AbortTransactionRecord):
            pending = None
        else:
            (messages if pending is None else pending).append(message)
    return messages
