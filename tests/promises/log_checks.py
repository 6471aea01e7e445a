"""Checks of what Kafka promises about records, which need the whole history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.promises.history import (
    Acked,
    Anomaly,
    Check,
    Failed,
    Finding,
    History,
    Partition,
    Pass,
    Read,
    Record,
    Sent,
    StartOffset,
    passes_of,
    place_name,
    record_name,
    sent_records,
)


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
            where = f"{record_name(record)} at {acked[record]}, number {number} at {offset}"
            yield Finding(Anomaly.ACKS_REORDERED, where)
        last[key] = (record[1], acked[record])


def check_last_copies(history: History) -> Iterator[Finding]:
    """A record that is not idempotent has no copy after the acknowledged one.

    A copy before that may have been read, which compaction removed; that the acknowledged one is there, a
    later pass shows (`check_presence`).
    """
    sent = sent_records(history)
    acked = {(event.producer, event.number): event.offset for event in history if isinstance(event, Acked)}
    offsets: dict[Record, set[int]] = defaultdict(set)
    for event in history:
        if isinstance(event, Read):
            record = event.producer, event.number
            original = sent.get(record)
            if original and not original.idempotent and original.partition == event.partition:
                offsets[record].add(event.offset)
    for record, read in offsets.items():
        if record in acked and acked[record] not in read and max(read) > acked[record]:
            where = f"{record_name(record)} at {sorted(read)}, acknowledged at {acked[record]}"
            yield Finding(Anomaly.WRONG_OFFSET, where)


def check_passes(history: History) -> Iterator[Finding]:
    """Records of an idempotent producer are in order, without gaps.

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
        newest: dict[str, int] = {}
        seen: set[Record] = set()
        for read in one.reads:
            record = (read.producer, read.number)
            if record in sent and sent[record].idempotent and record not in seen:
                if read.number < newest.get(read.producer, -1):
                    where = f"{record_name(record)} after number {newest[read.producer]}"
                    yield Finding(Anomaly.REORDERED, where)
                newest[read.producer] = max(read.number, newest.get(read.producer, -1))
            seen.add(record)
        if one.start.offset == 0 and one.end is not None:
            for producer, last in newest.items():
                for number in numbers[producer, partition]:
                    if number < last and (producer, number) not in seen:
                        where = f"{record_name((producer, number))} is missing, number {last} is there"
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
        where = f"{record_name(record)} at {place_name(partition, offset)}, missed by {one.start.reader}"
        acked, read = copies[partition, record]
        if any(offset <= at < end and one.began < time for at, time in read.items()):
            yield Finding(Anomaly.POLL_SKIP, where)
        elif any(at > offset and at >= end for at in (*acked, *read)):
            continue
        elif was_read:
            yield Finding(Anomaly.READ_THEN_VANISHED, where)
        else:
            yield Finding(Anomaly.LOST_ACKED, where)


def _deletions(history: History) -> dict[Partition, list[int]]:
    """The log start offsets that were seen."""
    starts: dict[Partition, list[int]] = defaultdict(list)
    for event in history:
        if isinstance(event, StartOffset):
            starts[event.partition].append(event.offset)
    return starts


LOG_CHECKS: Final[tuple[Check, ...]] = (
    check_ack_order,
    check_last_copies,
    check_passes,
    check_presence,
)
