"""A watch over records.

Each is as it was sent, at one offset of its partition, and no other record is there.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from tests.promises.history import (
    Acked,
    Anomaly,
    Failed,
    Looks,
    Partition,
    Read,
    Record,
    Report,
    Sent,
    place_name,
    record_name,
)


class RecordWatch:
    """What was sent, acknowledged and read so far, and at which offsets."""

    def __init__(self, sent: dict[Record, Sent], report: Report) -> None:
        """Note in `sent` what is sent."""
        self.looks: Final[Looks] = {
            Sent: self._sent_one,
            Acked: self._acked_one,
            Failed: self._failed_one,
            Read: self._read_one,
        }
        self._sent, self._report = sent, report
        self._failed: set[Record] = set()
        self._acked: dict[Record, int] = {}
        self._acked_at: dict[tuple[Partition, int], Record] = {}
        self._read_at: dict[tuple[Partition, int], Record] = {}
        self._offsets_read: dict[Record, set[int]] = defaultdict(set)
        """In the partition to which the record was sent."""

    def _sent_one(self, event: Sent) -> None:
        record = event.producer, event.number
        if self._sent.setdefault(record, event) != event:
            self._report(Anomaly.SENT_TWICE, f"{record_name(record)}: {self._sent[record]}, then {event}")

    def _failed_one(self, event: Failed) -> None:
        record = event.producer, event.number
        self._failed.add(record)
        for offset in sorted(self._offsets_read.get(record, ())):
            where = f"{record_name(record)} at {place_name(self._sent[record].partition, offset)}"
            self._report(Anomaly.FAILED_READ, where)

    def _acked_one(self, event: Acked) -> None:
        record, offset = (event.producer, event.number), event.offset
        original = self._sent.get(record)
        if original is None:
            self._report(Anomaly.UNSENT_ACK, f"{record_name(record)} at offset {offset}")
            return
        known = self._acked.setdefault(record, offset)
        if known != offset:
            self._report(Anomaly.ACK_CHANGED, f"{record_name(record)}: {known}, then {offset}")
        place = original.partition, offset
        owner = self._acked_at.setdefault(place, record)
        if owner != record:
            both = f"{record_name(owner)} and {record_name(record)}"
            self._report(Anomaly.SAME_OFFSET, f"{both} at {place_name(*place)}")
        there = self._read_at.get(place, record)
        if there != record:
            self._displaced(record, place, there)
        read = self._offsets_read.get(record, ())
        if read and offset not in read and original.idempotent:
            self._elsewhere(record, original.partition, read, offset)

    def _read_one(self, event: Read) -> None:
        record, place = (event.producer, event.number), (event.partition, event.offset)
        original = self._sent.get(record)
        if original is None:
            self._report(Anomaly.PHANTOM, self._read_by(event))
        else:
            if original.partition != event.partition:
                self._report(Anomaly.WRONG_PARTITION, self._read_by(event))
            if original.checksum != event.checksum:
                self._report(Anomaly.CHANGED_CONTENT, self._read_by(event))
            if record in self._failed:
                self._report(Anomaly.FAILED_READ, self._read_by(event))
        there = self._read_at.setdefault(place, record)
        if there != record:
            both = f"{record_name(there)} and {record_name(record)}"
            self._report(Anomaly.INCONSISTENT_OFFSET, f"{both} at {place_name(*place)}")
        owner = self._acked_at.get(place, record)
        if owner != record:
            self._displaced(owner, place, record)
        if original is not None and original.partition == event.partition:
            self._place(record, original, event.offset)

    def _place(self, record: Record, original: Sent, offset: int) -> None:
        """Judge where a record was read.

        Without idempotence it may be there several times (`check_last_copies`).
        """
        read = self._offsets_read[record]
        if offset in read:
            return
        read.add(offset)
        if not original.idempotent:
            return
        if len(read) > 1:
            where = f"{record_name(record)} at {sorted(read)} of {original.partition}"
            self._report(Anomaly.DUPLICATE, where)
        elif self._acked.get(record, offset) != offset:
            self._elsewhere(record, original.partition, read, self._acked[record])

    def _elsewhere(self, record: Record, partition: Partition, read: set[int], acked: int) -> None:
        where = f"{record_name(record)} at {sorted(read)} of {partition}, acknowledged at {acked}"
        self._report(Anomaly.WRONG_OFFSET, where)

    def _displaced(self, acked: Record, place: tuple[Partition, int], read: Record) -> None:
        where = f"{record_name(acked)}, acknowledged at {place_name(*place)}, where {record_name(read)} is"
        self._report(Anomaly.WRONG_OFFSET, where)

    def _read_by(self, event: Read) -> str:
        name = record_name((event.producer, event.number))
        return f"{name} at {place_name(event.partition, event.offset)}, read by {event.reader}"
