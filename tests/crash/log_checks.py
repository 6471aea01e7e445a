"""Checks of what Kafka promises about the records in a partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.crash.history import (
    Acked,
    Anomaly,
    Check,
    EndOffset,
    Failed,
    Finding,
    History,
    Partition,
    Pass,
    Read,
    ReadFrom,
    ReadTo,
    Sent,
    StartOffset,
    passes_of,
)

Record = tuple[str, int]
"""Producer and number."""


def sent_records(history: History) -> dict[Record, Sent]:
    """Every record that was sent."""
    return {(event.producer, event.number): event for event in history if isinstance(event, Sent)}


def check_reads(history: History) -> Iterator[Finding]:
    """Each record that is read was sent, there, with this content, and did not fail."""
    sent = sent_records(history)
    failed = {(event.producer, event.number) for event in history if isinstance(event, Failed)}
    for read in dict.fromkeys(event for event in history if isinstance(event, Read)):
        record = (read.producer, read.number)
        where = f"{_name(record)} at {_place(read.partition, read.offset)}, read by {read.reader}"
        original = sent.get(record)
        if original is None:
            yield Finding(Anomaly.PHANTOM, where)
            continue
        if original.partition != read.partition:
            yield Finding(Anomaly.WRONG_PARTITION, where)
        if original.checksum != read.checksum:
            yield Finding(Anomaly.CHANGED_CONTENT, where)
        if record in failed:
            yield Finding(Anomaly.FAILED_READ, where)


def check_acks(history: History) -> Iterator[Finding]:
    """An acknowledgement is for a record that was sent, names one offset, and nobody else's."""
    sent = sent_records(history)
    offsets: dict[Record, int] = {}
    owners: dict[tuple[Partition, int], Record] = {}
    for event in history:
        if not isinstance(event, Acked):
            continue
        record = (event.producer, event.number)
        original = sent.get(record)
        if original is None:
            yield Finding(Anomaly.UNSENT_ACK, f"{_name(record)} at offset {event.offset}")
            continue
        place = (original.partition, event.offset)
        if offsets.setdefault(record, event.offset) != event.offset:
            yield Finding(Anomaly.ACK_CHANGED, f"{_name(record)}: {offsets[record]}, then {event.offset}")
        if owners.setdefault(place, record) != record:
            both = f"{_name(owners[place])} and {_name(record)}"
            yield Finding(Anomaly.SAME_OFFSET, f"{both} at {_place(*place)}")


def check_ack_order(history: History) -> Iterator[Finding]:
    """What an idempotent producer sent later has a higher offset."""
    acked = {(event.producer, event.number): event.offset for event in history if isinstance(event, Acked)}
    last: dict[tuple[str, Partition], tuple[int, int]] = {}
    for record, original in sorted(sent_records(history).items()):
        if not original.idempotent or record not in acked:
            continue
        key = (original.producer, original.partition)
        number, offset = last.get(key, (-1, -1))
        if acked[record] <= offset:
            where = f"{_name(record)} at {acked[record]}, number {number} at {offset}"
            yield Finding(Anomaly.ACKS_REORDERED, where)
        last[key] = (record[1], acked[record])


def check_places(history: History) -> Iterator[Finding]:
    """A record has one place, the acknowledged one; a place has one record."""
    sent = sent_records(history)
    acked = {(event.producer, event.number): event.offset for event in history if isinstance(event, Acked)}
    at: dict[tuple[Partition, int], Record] = {}
    places: dict[tuple[Record, Partition], set[int]] = defaultdict(set)
    for event in history:
        if isinstance(event, Read):
            record = (event.producer, event.number)
            place = (event.partition, event.offset)
            places[record, event.partition].add(event.offset)
            if at.setdefault(place, record) != record:
                both = f"{_name(at[place])} and {_name(record)}"
                yield Finding(Anomaly.INCONSISTENT_OFFSET, f"{both} at {_place(*place)}")
    for (record, partition), offsets in places.items():
        original = sent.get(record)
        if original is None or original.partition != partition:
            continue
        where = f"{_name(record)} at {sorted(offsets)} of {partition[0]}-{partition[1]}"
        if len(offsets) > 1 and original.idempotent:
            yield Finding(Anomaly.DUPLICATE, where)
        if record not in acked or acked[record] in offsets:
            continue
        # Without idempotence a copy may have been read before the one was written that is acknowledged; that
        # it is there, a later pass shows (check_presence).
        if original.idempotent or max(offsets) > acked[record]:
            yield Finding(Anomaly.WRONG_OFFSET, f"{where}, acknowledged at {acked[record]}")


def check_passes(history: History) -> Iterator[Finding]:
    """Offsets rise in a pass; records of an idempotent producer are in order, without gaps.

    Gaps are looked for in passes from the start of the partition that reached its end.
    """
    sent = sent_records(history)
    failed = {(event.producer, event.number) for event in history if isinstance(event, Failed)}
    numbers: dict[tuple[str, Partition], list[int]] = defaultdict(list)
    for record, original in sorted(sent.items()):
        if original.idempotent and record not in failed and original.transaction is None:
            numbers[original.producer, original.partition].append(record[1])
    for one in passes_of(history):
        partition = one.start.partition
        position = one.start.offset - 1
        newest: dict[str, int] = {}
        seen: set[Record] = set()
        for read in one.reads:
            record = (read.producer, read.number)
            if read.offset <= position:
                where = f"{read.reader}: {_place(partition, read.offset)} after {position}"
                yield Finding(Anomaly.NONMONOTONIC_READ, where)
            position = read.offset
            if record in sent and sent[record].idempotent and record not in seen:
                if read.number < newest.get(read.producer, -1):
                    where = f"{_name(record)} after number {newest[read.producer]}"
                    yield Finding(Anomaly.REORDERED, where)
                newest[read.producer] = max(read.number, newest.get(read.producer, -1))
            seen.add(record)
        if one.start.offset == 0 and one.end is not None:
            for producer, last in newest.items():
                for number in numbers[producer, partition]:
                    if number < last and (producer, number) not in seen:
                        where = f"{_name((producer, number))} is missing, number {last} is there"
                        yield Finding(Anomaly.SEQUENCE_GAP, where)


def check_presence(history: History) -> Iterator[Finding]:
    """A pass finds what was acknowledged or read before it began, unless that was deleted.

    A producer that is not idempotent may write a record several times, and compaction keeps the last copy. So
    a pass has to find the last copy that was known when it began, or a later one. One that lies at the end of
    the pass or beyond will do: it was written meanwhile, and only a later pass can have read it.
    """
    sent = sent_records(history)
    started = _deletions(history)
    known: dict[Partition, dict[Record, tuple[int, bool]]] = defaultdict(dict)
    """Offset of the last copy of each record that must be there, and whether somebody read one."""
    passes = [one for one in passes_of(history) if one.end is not None]
    by_begin = {one.began: index for index, one in enumerate(passes)}
    copies = _copies(history, sent)
    for time, event in enumerate(history):
        if isinstance(event, Acked | Read):
            record = (event.producer, event.number)
            original = sent.get(record)
            if original is not None and original.transaction is None:
                partition = event.partition if isinstance(event, Read) else original.partition
                offset, was_read = known[partition].get(record, (-1, False))
                known[partition][record] = max(offset, event.offset), was_read or isinstance(event, Read)
        elif time in by_begin:
            one = passes[by_begin[time]]
            deleted = started.get(one.start.partition, [])
            yield from _missing(one, known[one.start.partition], copies, deleted)


class _Copies(NamedTuple):
    """The offsets at which a record is known to have been, at any time."""

    acked: set[int]
    read: dict[int, int]
    """And the time at which it was last read there."""


def _copies(history: History, sent: dict[Record, Sent]) -> dict[tuple[Partition, Record], _Copies]:
    copies: dict[tuple[Partition, Record], _Copies] = defaultdict(lambda: _Copies(set(), {}))
    for time, event in enumerate(history):
        if isinstance(event, Read):
            copies[event.partition, (event.producer, event.number)].read[event.offset] = time
        elif isinstance(event, Acked) and (original := sent.get((event.producer, event.number))):
            copies[original.partition, (event.producer, event.number)].acked.add(event.offset)
    return copies


def _missing(
    one: Pass,
    known: dict[Record, tuple[int, bool]],
    copies: dict[tuple[Partition, Record], _Copies],
    deleted: list[int],
) -> Iterator[Finding]:
    found = {(read.producer, read.number): read.offset for read in one.reads}
    partition, end = one.start.partition, one.end
    assert end is not None
    for record, (offset, was_read) in known.items():
        if found.get(record, -1) >= offset or offset < one.start.offset:
            continue
        if deleted and offset < max(deleted):
            continue
        where = f"{_name(record)} at {_place(partition, offset)}, missed by {one.start.reader}"
        acked, read = copies[partition, record]
        if any(offset <= at < end and one.began < time for at, time in read.items()):
            yield Finding(Anomaly.POLL_SKIP, where)
        elif any(at > offset and at >= end for at in (*acked, *read)):
            continue
        elif was_read:
            yield Finding(Anomaly.READ_THEN_VANISHED, where)
        else:
            yield Finding(Anomaly.LOST_ACKED, where)


def check_bounds(history: History) -> Iterator[Finding]:
    """Start and end of a partition do not go back, and hold what was read and acknowledged."""
    sent = sent_records(history)
    starts: dict[Partition, int] = {}
    ends: dict[Partition, int] = {}
    highest_read: dict[Partition, int] = {}
    highest_acked: dict[Partition, int] = {}
    committed: dict[tuple[str, Partition], bool] = {}
    for event in history:
        if isinstance(event, ReadFrom):
            committed[event.reader, event.partition] = event.committed
        elif isinstance(event, ReadTo) and committed.get((event.reader, event.partition)):
            continue
        elif isinstance(event, StartOffset):
            if event.offset < starts.get(event.partition, 0):
                where = f"{_place(event.partition, event.offset)} after {starts[event.partition]}"
                yield Finding(Anomaly.START_OFFSET_WENT_BACK, where)
            starts[event.partition] = event.offset
        elif isinstance(event, (EndOffset, ReadTo)):
            place = _place(event.partition, event.offset)
            if event.offset < ends.get(event.partition, 0):
                yield Finding(Anomaly.END_OFFSET_WENT_BACK, f"{place} after {ends[event.partition]}")
            if event.offset <= highest_read.get(event.partition, -1):
                where = f"end {place}, read {highest_read[event.partition]}"
                yield Finding(Anomaly.READ_BEYOND_END, where)
            if event.offset <= highest_acked.get(event.partition, -1):
                where = f"end {place}, acknowledged {highest_acked[event.partition]}"
                yield Finding(Anomaly.ACK_BEYOND_END, where)
            ends[event.partition] = max(event.offset, ends.get(event.partition, 0))
        elif isinstance(event, Read):
            highest_read[event.partition] = max(event.offset, highest_read.get(event.partition, -1))
            if event.offset < starts.get(event.partition, 0):
                where = f"{_place(event.partition, event.offset)}, start {starts[event.partition]}"
                yield Finding(Anomaly.DELETED_READ, where)
        elif isinstance(event, Acked) and (event.producer, event.number) in sent:
            partition = sent[event.producer, event.number].partition
            highest_acked[partition] = max(event.offset, highest_acked.get(partition, -1))


def _deletions(history: History) -> dict[Partition, list[int]]:
    """The log start offsets that were seen."""
    starts: dict[Partition, list[int]] = defaultdict(list)
    for event in history:
        if isinstance(event, StartOffset):
            starts[event.partition].append(event.offset)
    return starts


def _name(record: Record) -> str:
    return f"record {record[1]} of {record[0]}"


def _place(partition: Partition, offset: int) -> str:
    return f"{partition[0]}-{partition[1]}@{offset}"


LOG_CHECKS: Final[tuple[Check, ...]] = (
    check_reads,
    check_acks,
    check_ack_order,
    check_places,
    check_passes,
    check_presence,
    check_bounds,
)
