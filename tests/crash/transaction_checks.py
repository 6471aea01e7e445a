"""What Kafka promises of transactions to readers of committed records (KIP-98)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from tests.crash.history import (
    Anomaly,
    Check,
    Finding,
    History,
    Partition,
    Read,
    ReadFrom,
    StableOffset,
    TransactionEnded,
    TransactionEnding,
    passes_of,
)
from tests.crash.log_checks import Record, sent_records


def check_visibility(history: History) -> Iterator[Finding]:
    """A record is given to read_committed readers only after its transaction was to be committed."""
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
    """A pass that read any record of a transaction read all it has in that partition; one that began after a
    transaction was committed read it."""
    members: dict[tuple[str, Partition], set[Record]] = defaultdict(set)
    for record, original in sent_records(history).items():
        if original.transaction is not None:
            members[original.transaction, original.partition].add(record)
    committed: dict[str, int] = {}
    for time, event in enumerate(history):
        if isinstance(event, TransactionEnded) and event.committed:
            committed.setdefault(event.transaction, time)
    for one in passes_of(history):
        if not one.start.committed or one.start.offset != 0 or one.end is None:
            continue
        found = {(read.producer, read.number) for read in one.reads}
        for (transaction, partition), records in members.items():
            if partition != one.start.partition or records <= found:
                continue
            where = (
                f"{transaction}, {partition}: {len(records & found)} of {len(records)}, {one.start.reader}"
            )
            if records & found:
                yield Finding(Anomaly.TORN_TRANSACTION, where)
            elif committed.get(transaction, one.began) < one.began:
                yield Finding(Anomaly.LOST_TRANSACTION, where)


def check_stable_offsets(history: History) -> Iterator[Finding]:
    """The last stable offset does not go back."""
    stable: dict[Partition, int] = {}
    for event in history:
        if isinstance(event, StableOffset):
            if event.offset < stable.get(event.partition, 0):
                where = f"{event.partition}: {event.offset} after {stable[event.partition]}"
                yield Finding(Anomaly.STABLE_OFFSET_WENT_BACK, where)
            stable[event.partition] = max(event.offset, stable.get(event.partition, 0))


TRANSACTION_CHECKS: Final[tuple[Check, ...]] = (check_visibility, check_atomicity, check_stable_offsets)
