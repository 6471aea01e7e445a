"""How Kafka's metadata log is read: the newest snapshot, then the records after it.

`__cluster_metadata-0` is a log like those of partitions, with snapshots (`<offset>-<epoch>.checkpoint`) next
to its segments. A snapshot replaces everything below its offset. A snapshot without a footer is not complete.
Records after a BeginTransactionRecord count only if the EndTransactionRecord is there (KIP-868). The log is
never compacted: it has every offset after the snapshot, including those of control records.

A topic that is not in the log counts as deleted, so an incomplete log must not be accepted. A log is refused
if

- it is damaged, and there are more records after the damage;
- offsets are missing;
- there is no log;
- it ends too early: below the offset of a snapshot, or, after a clean stop, below the producer snapshot that
  Kafka writes at the end of each log when it stops.

Crash story: a power cut may leave a torn batch at the end of the log. Nothing in it was committed, because
Kafka syncs the log before brokers see a change. The log is read up to there, and the result says so. Nothing
is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest

from kafkapy.protocol.errors import DecodeError
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from kafkapy.protocol.records import Record, decode_records, read_header
from kafkapy.storage.damage.damage import DamagedRange, good_runs
from kafkapy.storage.damage.survey import survey
from kafkapy.storage.disk.file_names import (
    QUORUM_STATE,
    find_logs,
    parse_kraft_snapshot_name,
    snapshot_offset,
)
from kafkapy.storage.disk.files import File
from kafkapy.storage.log.batches import BadBatchError, iter_batches
from kafkapy.storage.offline.metadata_snapshot import read_snapshot
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.tools.migrate.kraft_records import decode_metadata_record
from kafkapy.tools.migrate.migration_error import MigrationError

_REMEDY = (
    "Restore it from a copy. If there is no copy, move {} away: the import then makes topics from the "
    "directories, with retention.ms=-1, so that nothing is deleted."
)


@dataclass(slots=True)
class MetadataLog:
    """The content of the log."""

    messages: list[TopMessage | int] = field(default_factory=list)
    """The records that count, in order; for a record of an unknown type, the number of the type."""
    doubt: str | None = None
    """Why records may be missing at its end, in words; None if it is complete."""


def read_metadata_log(files: ReadOnlyFiles, directory: str, *, clean: bool) -> MetadataLog:
    """Read the metadata log in `directory`.

    Args:
        clean: whether its node was stopped cleanly.

    Raises:
        MigrationError: the log is damaged, or records are missing.
        OSError: the disk failed.
    """
    return _Reader(files, directory, clean=clean).read()


class _Reader:
    def __init__(self, files: ReadOnlyFiles, directory: str, *, clean: bool) -> None:
        self._files = files
        self._directory = directory
        self._clean = clean
        self._names = [entry.name for entry in files.scan(directory)]
        self._snapshots = sorted(
            (snapshot, name)
            for name in self._names
            if (snapshot := parse_kraft_snapshot_name(name)) is not None and snapshot.is_complete
        )
        self._records: list[Record] = []
        self._position = 0
        """The offset after the last record that was read."""
        self._doubt: str | None = None

    def read(self) -> MetadataLog:
        has_snapshot = self._read_newest_snapshot()
        segments = find_logs(self._names)
        if segments and segments[0][0] > self._position:
            raise self._refusal(f"has no valid snapshot for offset {segments[0][0]}, where its log begins")
        # The first start of a node writes quorum-state and the log.
        if not segments and (not has_snapshot or QUORUM_STATE in self._names):
            raise self._refusal("has no log")
        for (base_offset, name), following in zip_longest(segments, segments[1:]):
            end = None if following is None else following[0]
            if end is None or end > self._position:
                self._read_segment(base_offset, name, end)
        if segments and not self._records:
            raise self._refusal("has an empty log")
        self._check_end()
        try:
            return MetadataLog(_in_force(self._records), self._doubt)
        except DecodeError as error:
            raise MigrationError(
                f"{self._directory} was written by an unknown release of Kafka: {error}."
            ) from None

    def _read_newest_snapshot(self) -> bool:
        for snapshot, name in reversed(self._snapshots):
            records: list[Record] = []
            if read_snapshot(self._files, f"{self._directory}/{name}", records.append).wrong is None:
                self._records, self._position = records, snapshot.end_offset
                return True
        return False

    def _read_segment(self, base_offset: int, name: str, end_offset: int | None) -> None:
        """Read a segment; `end_offset` is the base offset of the next segment, if there is one."""
        path = f"{self._directory}/{name}"
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
            raise self._gap(path, end_offset, damage)
        if damage and damage[-1].end_position >= size:
            position = damage[-1].position
            if self._clean:
                raise self._damaged(path, position)
            self._doubt = f"{path} is torn at byte {position}"
        elif end_offset is None and not size:
            self._doubt = f"{path} is empty"

    def _read_run(self, file: File, path: str, start: int, end: int, damage: list[DamagedRange]) -> None:
        """Read good batches, and refuse the log if offsets are missing before them."""
        position = start
        try:
            for position, batch in iter_batches(self._files, file, start, end):
                header = read_header(batch)
                if header.next_offset <= self._position:
                    continue
                if header.base_offset > self._position:
                    before = [each for each in damage if each.position < position]
                    raise self._gap(path, header.base_offset, before)
                if not header.is_control:
                    records = decode_records(batch, 0, header)
                    self._records += [each for each in records if each.offset >= self._position]
                self._position = header.next_offset
        except (BadBatchError, DecodeError):
            raise self._damaged(path, position) from None

    def _check_end(self) -> None:
        reached = [snapshot.end_offset for snapshot, _ in self._snapshots]
        if self._clean:
            reached += [offset for name in self._names if (offset := snapshot_offset(name)) is not None]
        highest = max(reached, default=0)
        if self._position < highest:
            raise self._refusal(f"ends at offset {self._position}, but should reach offset {highest}")

    def _gap(self, path: str, end_offset: int, damage: list[DamagedRange]) -> MigrationError:
        if damage:
            return self._damaged(path, damage[-1].position)
        return self._refusal(f"lacks the offsets {self._position} to {end_offset - 1}")

    def _damaged(self, path: str, position: int) -> MigrationError:
        return MigrationError(f"{path} is damaged at byte {position}. {_REMEDY.format(self._directory)}")

    def _refusal(self, what: str) -> MigrationError:
        return MigrationError(f"{self._directory} {what}. {_REMEDY.format('it')}")


def _in_force(records: list[Record]) -> list[TopMessage | int]:
    """Return the messages, except those of transactions that did not end."""
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
