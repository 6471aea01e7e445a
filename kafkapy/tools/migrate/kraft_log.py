"""Reading Kafka's metadata log: the newest snapshot, then what the log holds after it.

`__cluster_metadata-0` is a log like those of partitions, with snapshots (`<offset>-<epoch>.checkpoint`)
beside its segments. A snapshot stands for everything below its offset; one without a footer is not complete.
Records between BeginTransactionRecord and EndTransactionRecord count when the latter is there (KIP-868). The
log is never compacted: each offset after the snapshot is there, control records included.

A topic that is not in the log is one that was deleted, so half of the log must never pass for all of it.
These logs are refused:

- one with bad bytes and more after them;
- one with a hole;
- one that is gone;
- one that ends below what is known to have been in it: below a snapshot, or, after a clean stop, below the
  producer snapshot that Kafka then leaves at the end of each log.

Crash story: a power cut may tear the end of the log, where nothing was committed: Kafka syncs the log before
its brokers hear of anything. It is read up to there, and the caller is told. Nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from kafkapy.protocol.control_records import parse_control_record_key
from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from kafkapy.protocol.records import Record, crc_is_valid, decode_records, read_header
from kafkapy.storage.damage.damage import DamagedRange, good_runs
from kafkapy.storage.damage.survey import survey
from kafkapy.storage.disk.files import File
from kafkapy.storage.log.batches import BadBatchError, iter_batches
from kafkapy.storage.log.producer_snapshots import snapshot_offset
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.migrate.kraft_records import SNAPSHOT_FOOTER, decode_metadata_record
from kafkapy.tools.migrate.migration_error import MigrationError

_SNAPSHOT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_SEGMENT = re.compile(r"([0-9]{20})\.log")
_QUORUM_STATE = "quorum-state"
"""Written by the first start: the log is there as well, then."""

_REMEDY = (
    "Restore it from a copy. Without one, move {} away: topics are made of the directories then, with "
    "settings from which nothing is deleted."
)


@dataclass(slots=True)
class MetadataLog:
    """What the log says."""

    messages: list[TopMessage | int] = field(default_factory=list)
    """The records in force, in order; those of unknown types by their number."""
    doubt: str | None = None
    """Why something may be missing at its end, in words."""


def read_metadata_log(files: ReadOnlyFiles, directory: str, *, clean: bool) -> MetadataLog:
    """Read it; `clean`: its node stopped in order.

    Raises:
        MigrationError: something is missing, or damaged where it was complete once.
        OSError: the disk failed.
    """
    return _Reader(files, directory, clean=clean).read()


class _Reader:
    def __init__(self, files: ReadOnlyFiles, directory: str, *, clean: bool) -> None:
        self._files = files
        self._directory = directory
        self._clean = clean
        self._names = [entry.name for entry in files.scan(directory)]
        self._records: list[Record] = []
        self._position = 0
        """The offset after what was read."""
        self._doubt: str | None = None

    def read(self) -> MetadataLog:
        has_snapshot = self._read_newest_snapshot()
        segments = sorted(name for name in self._names if _SEGMENT.fullmatch(name))
        if segments and int(segments[0][:20]) > self._position:
            raise self._refusal(f"has no good snapshot at {segments[0][:20]}, where its log begins")
        if not segments and (not has_snapshot or _QUORUM_STATE in self._names):
            raise self._refusal("has no log")
        for name, following in zip_longest(segments, segments[1:]):
            end = None if following is None else int(following[:20])
            if end is None or end > self._position:
                self._read_segment(name, end)
        if segments and not self._records:
            raise self._refusal("has an empty log")
        self._check_end()
        try:
            return MetadataLog(_in_force(self._records), self._doubt)
        except DecodeError as error:
            raise MigrationError(
                f"{self._directory} was written by a release that is not known here: {error}."
            ) from None

    def _read_newest_snapshot(self) -> bool:
        for name in sorted((name for name in self._names if _SNAPSHOT.fullmatch(name)), reverse=True):
            found = _read_snapshot(self._files, f"{self._directory}/{name}")
            if found is not None:
                self._records, self._position = found, int(name[:20])
                return True
        return False

    def _read_segment(self, name: str, end_offset: int | None) -> None:
        """Read a segment; `end_offset` is where the next begins."""
        base_offset, path = int(name[:20]), f"{self._directory}/{name}"
        file = self._files.open(path)
        try:
            size = self._files.size_of(file)
            damage = survey(
                self._files,
                file,
                0,
                size,
                base_offset=base_offset,
                expected=base_offset,
                end_offset=base_offset if end_offset is None else end_offset,
                end_is_known=end_offset is not None,
            ).damage
            for start, end in good_runs(damage, 0, size):
                self._read_run(file, path, start, end, damage)
        finally:
            file.release()
        if end_offset is not None and self._position < end_offset:
            raise self._hole(path, end_offset, damage)
        if damage and damage[-1].end_position >= size:
            position = damage[-1].position
            if self._clean:
                raise self._damaged(path, position)
            self._doubt = f"{path} is torn at byte {position}"
        elif end_offset is None and not size:
            self._doubt = f"{path} is empty"

    def _read_run(self, file: File, path: str, start: int, end: int, damage: list[DamagedRange]) -> None:
        """Read good batches, which go on where the last ones ended."""
        position = start
        try:
            for position, batch in iter_batches(self._files, file, start, end):
                header = read_header(batch)
                if header.next_offset <= self._position:
                    continue
                if header.base_offset > self._position:
                    before = [each for each in damage if each.position < position]
                    raise self._hole(path, header.base_offset, before)
                if not header.is_control:
                    records = decode_records(batch, 0, header)
                    self._records += [each for each in records if each.offset >= self._position]
                self._position = header.next_offset
        except (BadBatchError, DecodeError):
            raise self._damaged(path, position) from None

    def _check_end(self) -> None:
        reached = [int(name[:20]) for name in self._names if _SNAPSHOT.fullmatch(name)]
        if self._clean:
            reached += [offset for name in self._names if (offset := snapshot_offset(name)) is not None]
        highest = max(reached, default=0)
        if self._position < highest:
            raise self._refusal(f"ends at offset {self._position}, and had reached {highest}")

    def _hole(self, path: str, end_offset: int, damage: list[DamagedRange]) -> MigrationError:
        if damage:
            return self._damaged(path, damage[-1].position)
        return self._refusal(f"has no records of the offsets {self._position} to {end_offset - 1}")

    def _damaged(self, path: str, position: int) -> MigrationError:
        return MigrationError(f"{path} is damaged at byte {position}. {_REMEDY.format(self._directory)}")

    def _refusal(self, what: str) -> MigrationError:
        return MigrationError(f"{self._directory} {what}. {_REMEDY.format('it')}")


def _read_snapshot(files: ReadOnlyFiles, path: str) -> list[Record] | None:
    """The records of a snapshot; None for one that is not complete."""
    records: list[Record] = []
    for is_control, record in _records_of(files, path):
        if not is_control:
            records.append(record)
        elif parse_control_record_key(record.key) == SNAPSHOT_FOOTER:
            return records
    return None


def _records_of(files: ReadOnlyFiles, path: str) -> Iterator[tuple[bool, Record]]:
    """The records of a snapshot up to its first bad batch; whether each is a control record."""
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
