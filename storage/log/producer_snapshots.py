"""Producer snapshots: the producers of a log (producers.py) as they were at an offset.

Format of `<20-digit offset>.snapshot`, big-endian:

    version              int16   1
    crc                  uint32  CRC-32C of all that follows
    count                int32
    then for each entry, 46 bytes:
    producer id          int64
    producer epoch       int16
    last sequence        int32   -1 if the producer wrote no batch in this epoch
    last offset          int64   -1 likewise
    offset delta         int32   of the last batch
    timestamp            int64   of the last batch or marker
    coordinator epoch    int32
    transaction offset   int64   first offset of the open transaction, -1 if there is none

Apache Kafka writes one entry for each producer, so that a batch before the last one is not recognised as a
duplicate after a restart. Here each of the up to five cached batches has an entry, the newest last: Kafka's
own reader keeps the last entry of a producer, which is the one it would have written.

A snapshot is taken when a segment is rolled, at the base offset of the new one, and when the log is closed.
If there are many producers, a roll only copies them, to save time. The next flush writes the snapshot in its
thread (flush.py) to a temporary file, which the event loop renames if the snapshot is still wanted.

Crash story: snapshots only save time. A torn or damaged one is deleted, and an older one is used, or the
state is rebuilt from the start of the log. A snapshot above the log end offset is deleted: it includes
batches that are gone.

Source: ProducerStateManager, ProducerSnapshot.json.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from kafkapy.protocol.crc import crc32c
from kafkapy.protocol.records import NO_SEQUENCE
from kafkapy.storage.disk.errors import is_disk_full, is_exhausted
from kafkapy.storage.disk.file_names import SNAPSHOT_SUFFIX, TEMPORARY_SUFFIX, path_stem
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.producers import NO_OFFSET, CachedBatch, ProducerEntry, ProducerStates

logger = logging.getLogger(__name__)

WRITTEN_AT_ONCE: Final = 1000
"""With more producers, the next flush writes the snapshot of a roll. So many take some 3 ms."""

_VERSION = 1
_HEADER = struct.Struct("!hIi")
_CRC_END = 6
_ENTRY = struct.Struct("!qhiqiqiq")


class CorruptSnapshotError(ValueError):
    """A snapshot that is torn or damaged."""


def encode_snapshot(producers: Mapping[int, ProducerEntry]) -> bytes:
    """The content of a snapshot."""
    parts, count = [], 0
    for producer_id, entry in producers.items():
        batches = entry.batches or [CachedBatch(NO_SEQUENCE, NO_OFFSET, 0, entry.last_timestamp)]
        newest = len(batches) - 1
        fields: list[int] = []
        for index, (last_sequence, last_offset, offset_delta, timestamp) in enumerate(batches):
            # Kafka drops expired entries one by one: the newest must expire last.
            last = entry.last_timestamp
            timestamp = last if index == newest else min(timestamp, last)
            fields += (producer_id, entry.epoch, last_sequence, last_offset, offset_delta, timestamp)
            fields += (entry.coordinator_epoch, entry.txn_first_offset)
        parts.append(_entries(len(batches)).pack(*fields))
        count += len(batches)
    body = count.to_bytes(4, "big") + b"".join(parts)
    return struct.pack("!hI", _VERSION, crc32c(body)) + body


@cache
def _entries(count: int) -> struct.Struct:
    return struct.Struct("!" + _ENTRY.format.removeprefix("!") * count)


def decode_snapshot(data: bytes) -> dict[int, ProducerEntry]:
    """The producers of a snapshot.

    Raises:
        CorruptSnapshotError: it is torn or damaged, or of another version.
    """
    if len(data) < _HEADER.size:
        raise CorruptSnapshotError(f"{len(data)} bytes are not a snapshot")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshotError(f"unknown version {version}")
    if crc32c(memoryview(data)[_CRC_END:]) != crc:
        raise CorruptSnapshotError("the CRC is wrong")
    if len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptSnapshotError(f"{len(data)} bytes cannot hold {count} producers")
    producers: dict[int, ProducerEntry] = {}
    for fields in _ENTRY.iter_unpack(memoryview(data)[_HEADER.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn_offset = (
            fields
        )
        entry = producers.get(producer_id)
        if entry is None:
            entry = producers[producer_id] = ProducerEntry()
        entry.set_epoch(epoch)
        if last_offset >= 0:
            entry.add_batch(last_sequence, last_offset, delta, timestamp)
        entry.last_timestamp = timestamp
        entry.coordinator_epoch = coordinator_epoch
        entry.txn_first_offset = txn_offset if txn_offset >= 0 else NO_OFFSET
    return producers


class PendingSnapshot:
    """A snapshot to write: the producers as they were at `offset`."""

    __slots__ = ("_is_written", "_producers", "_snapshots", "is_wanted", "offset")

    def __init__(self, snapshots: ProducerSnapshots, states: ProducerStates) -> None:
        self._snapshots = snapshots
        self._producers = states.copy_producers()
        self._is_written = False
        self.offset = states.end_offset
        self.is_wanted = True
        """Whether the log still has the batches that the snapshot covers."""

    def write(self, files: FileSystem, *, durable: bool) -> None:
        """Write the file under a temporary name, which a start removes.

        Any thread may call this.

        Raises:
            OSError: the disk failed. If only space, a descriptor or memory is lacking, no file is written.
        """
        path = self._snapshots.path(self.offset) + TEMPORARY_SUFFIX
        try:
            data = encode_snapshot(self._producers)
            files.create(path)
            file = files.open(path)
            try:
                files.write_at(file, [data], 0)
                if durable:
                    files.sync_data(file)
            finally:
                file.release()
        except FileNotFoundError:
            return  # the partition's directory was renamed
        except (OSError, MemoryError) as error:
            if is_exhausted(error) or is_disk_full(error):
                return  # A snapshot merely saves time after a crash.
            raise
        self._is_written = True

    def settle(self) -> None:
        """Rename the file to its final name, or remove it; on the event loop, after `write`."""
        self._snapshots.settle(self, is_written=self._is_written)


class ProducerSnapshots:
    """The snapshot files of one partition's directory.

    Raises OSError if the disk fails.
    """

    __slots__ = ("_files", "_pending", "directory", "last_offset", "offsets")

    def __init__(self, files: FileSystem, directory: str, offsets: Iterable[int] = ()) -> None:
        self._files = files
        self.directory = directory
        """The partition's directory; set it again when the directory is renamed."""
        self.offsets = tuple(sorted(offsets))
        """The offsets of the existing snapshots."""
        self.last_offset = 0
        """The offset of the state last saved or loaded. No other snapshot is needed there."""
        self._pending: tuple[PendingSnapshot, ...] = ()
        """Snapshots that are not written yet."""

    def path(self, offset: int) -> str:
        return path_stem(self.directory, offset) + SNAPSHOT_SUFFIX

    def take(self, states: ProducerStates, *, durable: bool = True) -> str | None:
        """Save the states at their end offset; return the path, or None if they are saved already."""
        offset = states.end_offset
        if offset <= self.last_offset:
            return None
        path = self.path(offset)
        self._files.write_atomically(path, encode_snapshot(dict(states)), durable=durable)
        self._taken(offset)
        return path

    def _taken(self, offset: int) -> None:
        if offset not in self.offsets:
            self.offsets = tuple(sorted((*self.offsets, offset)))
        self.last_offset = max(self.last_offset, offset)

    def begin(self, states: ProducerStates) -> PendingSnapshot | None:
        """A copy of the states, for another thread to write; None if they are saved already."""
        if states.end_offset <= self.last_offset:
            return None
        pending = PendingSnapshot(self, states)
        self._pending += (pending,)
        return pending

    def settle(self, pending: PendingSnapshot, *, is_written: bool) -> None:
        """Note whether `pending` is written, and rename or remove its file."""
        self._pending = tuple(each for each in self._pending if each is not pending)
        path = self.path(pending.offset)
        if is_written and pending.is_wanted:
            self._files.rename(path + TEMPORARY_SUFFIX, path)
            self._taken(pending.offset)
        else:
            self._files.unlink(path + TEMPORARY_SUFFIX)

    def load(
        self, states: ProducerStates, *, log_start_offset: int, log_end_offset: int, now_ms: int
    ) -> None:
        """Load the newest good snapshot within the log into `states`.

        The caller has to replay the batches from `states.end_offset` to the log end offset. States that are
        already at the log end offset are kept. Snapshots outside the log are deleted.
        """
        known = (*self.offsets, *(pending.offset for pending in self._pending))
        for offset in [o for o in known if o > log_end_offset or o <= log_start_offset]:
            self.delete(offset)
        if states.end_offset == log_end_offset and len(states):
            self.last_offset = self.offsets[-1] if self.offsets else log_start_offset
            return
        while self.offsets:
            offset = self.offsets[-1]
            path = self.path(offset)
            try:
                producers = decode_snapshot(self._files.read(path))
            except (CorruptSnapshotError, FileNotFoundError) as error:
                logger.warning("Deleting the producer snapshot %s: %s", path, error)
                self.delete(offset)
                continue
            states.restore(producers, offset)
            states.expire(now_ms)
            self.last_offset = offset
            return
        states.clear(log_start_offset)
        self.last_offset = log_start_offset

    def delete(self, offset: int) -> None:
        """Delete the snapshot at `offset`, if there is one."""
        for pending in self._pending:
            if pending.offset == offset:
                pending.is_wanted = False
        self.offsets = tuple(each for each in self.offsets if each != offset)
        self._files.unlink(self.path(offset))

    def delete_all(self) -> None:
        """Delete every snapshot: the log was emptied."""
        for pending in self._pending:
            pending.is_wanted = False
        for offset in self.offsets:
            self.delete(offset)
        self.last_offset = 0

    def delete_strays(self, base_offsets: Iterable[int]) -> None:
        """Delete the snapshots that belong to no segment.

        The last one is kept if it is above all base offsets: it was taken when the log was closed.
        """
        bases = set(base_offsets)
        strays = [offset for offset in self.offsets if offset not in bases]
        if strays and bases and strays[-1] > max(bases):
            strays.pop()
        for offset in strays:
            self.delete(offset)
