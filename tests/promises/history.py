"""The history of what clients saw: its events, and the anomalies that may be in it.

A history is a list of events in the order in which they were observed: a list index is a time. Whatever
drives a broker writes one down; the checker (checker.py) names every anomaly in it. It knows nothing of how
the broker works, only what Kafka promises:

    an acknowledged record stays, at its offset, unchanged, once, in the order of its producer
    what was read stays, and every reader reads the same
    offsets, committed ones too, do not go back
    a transaction is read whole or not at all, in all its partitions, and only once it is committed
    what is copied in transactions, with the offsets of what was read, is copied once, in order

A record is known by its producer and number. Numbers rise with each record a producer sends, to whichever
partition. No event about a record that was sent means: unknown, it may be there or not.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

Partition = tuple[str, int]
Record = tuple[str, int]
"""Producer and number."""


class Anomaly(StrEnum):
    """What cannot be."""

    LOST_ACKED = "an acknowledged record is gone"
    POLL_SKIP = "a reader was not given a record that is there"
    WRONG_OFFSET = "a record is not at the offset that was acknowledged"
    DUPLICATE = "a record of an idempotent producer is there twice"
    SAME_OFFSET = "two records were acknowledged at one offset"
    INCONSISTENT_OFFSET = "readers found different records at one offset"
    READ_THEN_VANISHED = "a record that was read is gone"
    OFFSET_GAP = "an offset has no record, where each has one"
    NONMONOTONIC_READ = "a reader was given offsets that do not rise"
    END_OFFSET_WENT_BACK = "the end of a partition went back"
    READ_BEYOND_END = "a record was read that lies beyond the end"
    ACK_BEYOND_END = "a record was acknowledged that lies beyond the end"
    START_OFFSET_WENT_BACK = "the start of a partition went back"
    DELETED_READ = "a deleted record was read"
    FAILED_READ = "a record was read whose producer was told that it failed"
    PHANTOM = "a record was read that nobody sent"
    SENT_TWICE = "two records have one producer and number, so that nobody can tell them apart"
    UNSENT_ACK = "a record was acknowledged that nobody sent"
    CHANGED_CONTENT = "a record was read with other content than it was sent with"
    WRONG_PARTITION = "a record was read from another partition than it was sent to"
    REORDERED = "records of one producer are not in the order in which they were sent"
    SEQUENCE_GAP = "an idempotent producer's record is missing before one that is there"
    ACK_CHANGED = "a record was acknowledged at two offsets"
    ACKS_REORDERED = "an idempotent producer's records were acknowledged at offsets that do not rise"
    COMMIT_LOST = "an acknowledged offset commit is gone"
    COMMIT_WENT_BACK = "a committed offset that was fetched is gone"
    PHANTOM_COMMIT = "an offset commit was acknowledged or fetched that nobody sent"
    COMMIT_BEYOND_END = "a committed offset lies beyond the end of its partition"
    DOUBLE_ASSIGNMENT = "two members of a group own a partition in one generation"
    GENERATION_WENT_BACK = "a member was told a generation older than one it knows"
    ABORTED_READ = "a read_committed reader was given a record of an aborted transaction"
    OPEN_TRANSACTION_READ = (
        "a read_committed reader was given a record before its transaction was to be committed"
    )
    TORN_TRANSACTION = "a read_committed reader was given a part of a transaction"
    LOST_TRANSACTION = "nothing is left of a committed transaction"
    STABLE_OFFSET_WENT_BACK = "the last stable offset went back"
    COPY_OF_NOTHING = "a copy was made of a record that no read_committed reader may be given"
    DOUBLED_COPY = "a record was copied twice"
    LOST_COPY = "a record has no copy, although its offset was committed or a later one has a copy"
    COPIES_REORDERED = "copies of one partition's records are not in their order"
    COPY_WITHOUT_OFFSET = "a copy is committed, but not the offset of its transaction"


class Source(NamedTuple):
    """What a record is a copy of, and the group that read it."""

    group: str
    partition: Partition
    offset: int


class Sent(NamedTuple):
    """A producer hands a record over.

    If `idempotent`, its order and uniqueness are promised.

    A copy names the group that reads, and the `source`: a place of which that group commits the offset.
    """

    producer: str
    number: int
    partition: Partition
    checksum: int
    idempotent: bool = True
    transaction: str | None = None
    source: Source | None = None


class Acked(NamedTuple):
    """The producer was told that the record is written."""

    producer: str
    number: int
    offset: int


class Failed(NamedTuple):
    """The producer was told that the record will never be written."""

    producer: str
    number: int


class ReadFrom(NamedTuple):
    """A reader begins a pass at `offset`; if `committed`, it reads only what is committed.

    If the partition is `dense`, each of its offsets has a record: it has no transactions, and its log is
    neither compacted nor cut at its start.
    """

    reader: str
    partition: Partition
    offset: int
    committed: bool = False
    dense: bool = False


class Read(NamedTuple):
    """A reader was given a record."""

    reader: str
    partition: Partition
    offset: int
    producer: str
    number: int
    checksum: int


class ReadTo(NamedTuple):
    """A reader was given everything below `offset`, the end as it saw it.

    To a read_committed reader that is the last stable offset.
    """

    reader: str
    partition: Partition
    offset: int


class EndAsked(NamedTuple):
    """A reader asks for the high watermark.

    The answer need not tell what is written from now on. Without this event nothing happens between the
    question and its answer. If `of_all`, the broker knows what all clients know. In a cluster a client with
    old metadata may ask a former leader, which does not know yet that another one leads: it knows at least
    what this reader does.
    """

    reader: str
    partition: Partition
    of_all: bool = True


class EndOffset(NamedTuple):
    """A client was told the high watermark."""

    partition: Partition
    offset: int
    reader: str = ""
    """The reader that asked for it, if there is an event of that."""


class StartOffset(NamedTuple):
    """A client was told the log start offset."""

    partition: Partition
    offset: int


class StableOffset(NamedTuple):
    """A client was told the last stable offset."""

    partition: Partition
    offset: int


class CommitSent(NamedTuple):
    """A consumer commits `offset`.

    If it `may_be_late`, its request may arrive after later ones of the same consumer, which gave it up.
    """

    group: str
    partition: Partition
    offset: int
    may_be_late: bool = False


class CommitAcked(NamedTuple):
    """It was told that this is done."""

    group: str
    partition: Partition
    offset: int


class CommitFetched(NamedTuple):
    """A consumer was told the committed offset, -1 for none."""

    group: str
    partition: Partition
    offset: int


class Assigned(NamedTuple):
    """A member of a group owns these partitions in this generation."""

    group: str
    generation: int
    member: str
    partitions: tuple[Partition, ...]


class TransactionEnding(NamedTuple):
    """A producer asks to commit or abort its transaction.

    If it never asked, the transaction was never committed.
    """

    transaction: str
    commit: bool


class TransactionEnded(NamedTuple):
    """It was told that this is done."""

    transaction: str
    committed: bool


Event = (
    Sent | Acked | Failed | ReadFrom | Read | ReadTo | EndAsked | EndOffset | StartOffset | StableOffset
    | CommitSent | CommitAcked | CommitFetched | Assigned | TransactionEnding | TransactionEnded
)  # fmt: skip
History = list[Event]


class Finding(NamedTuple):
    """An anomaly, and where."""

    anomaly: Anomaly
    where: str

    def __str__(self) -> str:
        return f"{self.anomaly.name}: {self.anomaly} ({self.where})"


class Pass(NamedTuple):
    """One pass of a reader over a partition: when it began and ended, and what it was given."""

    start: ReadFrom
    began: int
    end: int | None
    """The offset it reached; None where it was broken off."""
    reads: list[Read]


def passes_of(history: History) -> list[Pass]:
    """The passes in the order in which they began."""
    open_passes: dict[tuple[str, Partition], int] = {}
    passes: list[Pass] = []
    for time, event in enumerate(history):
        if isinstance(event, ReadFrom):
            open_passes[event.reader, event.partition] = len(passes)
            passes.append(Pass(event, time, None, []))
        elif isinstance(event, Read):
            passes[open_passes[event.reader, event.partition]].reads.append(event)
        elif isinstance(event, ReadTo):
            index = open_passes.pop((event.reader, event.partition))
            passes[index] = passes[index]._replace(end=event.offset)
    return passes


Check = Callable[[History], Iterable[Finding]]
"""Finds anomalies in a whole history."""

Report = Callable[[Anomaly, str], None]
"""Takes an anomaly, and where it is."""

Looks = Mapping[type, Callable[[Any], None]]
"""What a watch does with each kind of event that it looks at."""


def sent_records(history: History) -> dict[Record, Sent]:
    """Every record that was sent."""
    return {(event.producer, event.number): event for event in history if isinstance(event, Sent)}


def record_name(record: Record) -> str:
    """How findings call a record."""
    return f"record {record[1]} of {record[0]}"


def place_name(partition: Partition, offset: int) -> str:
    """How findings call an offset of a partition."""
    return f"{partition[0]}-{partition[1]}@{offset}"


def checksum_of(key: bytes, value: bytes) -> int:
    """Return the checksum by which records are compared."""
    return zlib.crc32(value, zlib.crc32(key))
