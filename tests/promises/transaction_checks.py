"""What Kafka promises of transactions to readers of committed records (KIP-98)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from tests.promises.history import (
    Acked,
    Anomaly,
    Check,
    Finding,
    History,
    Partition,
    Read,
    ReadFrom,
    Record,
    StableOffset,
    TransactionEnded,
    TransactionEnding,
    passes_of,
    sent_records,
)


def check_visibility(history: History) -> Iterator[Finding]:
    """read_committed readers get a record only after the commit of its transaction began."""
    sent = sent_records(history)
    committed_readers: set[tuple[str, Partition]] = set()
    ending: dict[str, bool] = {}
    for event in history:
        if isinstance(event, ReadFrom):
            (committed_readers.add if event.committed else committed_readers.discard)(
                (event.reader, event.partition)
            )
        elif isinstance(event, TransactionEnding):
            ending[event.transaction] = event.commit
        elif isinstance(event, Read) and (event.reader, event.partition) in committed_readers:
            original = sent.get((event.producer, event.number))
            if original is None or original.transaction is None:
                continue
            where = f"{original.transaction}: record {event.number}, offset {event.offset}, {event.reader}"
            commit = ending.get(original.transaction)
            if commit is None:
                yield Finding(Anomaly.OPEN_TRANSACTION_READ, where)
            elif not commit:
                yield Finding(Anomaly.ABORTED_READ, where)


def check_atomicity(history: History) -> Iterator[Finding]:
    """Check that a pass misses no record of a committed transaction, in any partition.

    A transaction is committed if its producer was told so, or if anybody was given a record of it. A pass
    may end between two records of one transaction, where another transaction is open. So it misses a record
    only if it went past the acknowledged offset, or if no acknowledgement came.
    """
    sent = sent_records(history)
    acked = {(event.producer, event.number): event.offset for event in history if isinstance(event, Acked)}
    members: dict[Partition, dict[str, set[Record]]] = defaultdict(lambda: defaultdict(set))
    for record, original in sent.items():
        if original.transaction is not None:
            members[original.partition][original.transaction].add(record)
    told: dict[str, int] = {}
    for time, event in enumerate(history):
        if isinstance(event, TransactionEnded) and event.committed:
            told.setdefault(event.transaction, time)
    passes = [one for one in passes_of(history) if one.start.committed and one.start.offset == 0]
    shown = {
        sent[read.producer, read.number].transaction
        for one in passes
        for read in one.reads
        if (read.producer, read.number) in sent
    }
    for one in passes:
        found = {(read.producer, read.number) for read in one.reads}
        reached = one.end if one.end is not None else max((read.offset for read in one.reads), default=-1) + 1
        for transaction, records in members[one.start.partition].items():
            here = records & found
            passed = {record for record in records - found if acked.get(record, reached) < reached}
            unknown = {record for record in records - found if record not in acked and one.end is not None}
            where = f"{transaction}, {one.start.partition}: {len(here)} of {len(records)}, {one.start.reader}"
            if (here and (passed or unknown)) or (passed and transaction in shown):
                yield Finding(Anomaly.TORN_TRANSACTION, where)
            elif (passed and transaction in told) or (
                unknown and told.get(transaction, one.began) < one.began
            ):
                yield Finding(Anomaly.LOST_TRANSACTION, where)


def check_stable_offsets(history: History) -> Iterator[Finding]:
    """The last stable offset does not go back.

    Nor does it go below what a read_committed reader was given.
    """
    stable: dict[Partition, int] = {}
    committed: dict[tuple[str, Partition], bool] = {}
    for event in history:
        if isinstance(event, ReadFrom):
            committed[event.reader, event.partition] = event.committed
        elif isinstance(event, Read) and committed.get((event.reader, event.partition)):
            stable[event.partition] = max(event.offset + 1, stable.get(event.partition, 0))
        elif isinstance(event, StableOffset):
            if event.offset < stable.get(event.partition, 0):
                where = f"{event.partition}: {event.offset} after {stable[event.partition]}"
                yield Finding(Anomaly.STABLE_OFFSET_WENT_BACK, where)
            stable[event.partition] = max(event.offset, stable.get(event.partition, 0))


TRANSACTION_CHECKS: Final[tuple[Check, ...]] = (check_visibility, check_atomicity, check_stable_offsets)
