"""A snapshot of KRaft's metadata: batches of records between a header and a footer.

A snapshot that was not written to its end has no footer.

Source: RecordsSnapshotReader; KIP-630.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkapy.protocol.control_records import ControlType, parse_control_record_key
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.records import Record, crc_is_valid, decode_records, read_header
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.batches import BadBatchError, iter_batches


class SnapshotEnd(NamedTuple):
    """Where the reading of a snapshot ended."""

    position: int
    """The first byte of the last batch, or of what is wrong."""
    wrong: str | None
    """The reason why the snapshot is not complete; None if it is."""


def read_snapshot(files: FileSystem, path: str, take: Callable[[Record], object]) -> SnapshotEnd:
    """Read a snapshot up to its footer, and take each of its metadata records.

    Raises:
        OSError: the disk failed.
    """
    file = files.open(path)
    position, has_footer = 0, False
    try:
        for position, batch in iter_batches(files, file, 0, files.size_of(file)):
            header = read_header(batch)
            if not crc_is_valid(batch, 0, header):
                return SnapshotEnd(position, "the CRC is wrong")
            has_footer = False
            for record in decode_records(batch, 0, header):
                if header.is_control:
                    has_footer = parse_control_record_key(record.key) == ControlType.SNAPSHOT_FOOTER
                else:
                    take(record)
    except BadBatchError as error:
        return SnapshotEnd(error.position, error.reason)
    except DecodeError as error:
        return SnapshotEnd(position, str(error))
    finally:
        file.release()
    return SnapshotEnd(position, None if has_footer else "its footer is missing")
