"""Histories of a model of transactional logs.

They are clean as they are, and flagged after each planted violation.

Producers write to two partitions of a ledger in transactions that overlap; a copier reads what is committed
and writes copies and offsets in transactions. Markers are written one partition after the other, and some
producers never learn of the end of their transactions.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.promises.checker import check
from tests.promises.history import (
    Acked,
    Anomaly,
    CommitFetched,
    CommitSent,
    EndOffset,
    History,
    Partition,
    Read,
    ReadFrom,
    ReadTo,
    Sent,
    Source,
    StableOffset,
    TransactionEnded,
    TransactionEnding,
)

GROUP = "copiers"
INDEXES = (0, 1)
PARTITIONS: tuple[Partition, ...] = tuple(
    (topic, index) for topic in ("ledger", "copies") for index in INDEXES
)
SEEDS = range(10)


class Entry(NamedTuple):
    """A record in the log; a marker has no record."""

    transaction: str
    record: Sent | None


class Model:
    """Logs, transactions that end as their coordinator decides, and what clients see of it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.history: History = []
        self.logs: dict[Partition, list[Entry]] = {partition: [] for partition in PARTITIONS}
        self.decided: dict[str, bool] = {}
        self.committed_offset: dict[Partition, int] = {}
        self._numbers: dict[str, int] = {}
        self._count = 0

    def begin(self) -> str:
        self._count += 1
        return f"transaction {self._count}"

    def write(
        self, producer: str, transaction: str, partition: Partition, source: Source | None = None
    ) -> None:
        number = self._numbers[producer] = self._numbers.get(producer, -1) + 1
        record = Sent(producer, number, partition, number * 7, transaction=transaction, source=source)
        self.history += [record, Acked(producer, number, len(self.logs[partition]))]
        self.logs[partition].append(Entry(transaction, record))

    def decide(self, transaction: str, commit: bool) -> None:
        """The producer asks for an end; sometimes it asks for a commit and the coordinator aborts."""
        self.history.append(TransactionEnding(transaction, commit))
        self.decided[transaction] = commit and self.chance.random() < 0.9

    def mark(self, transaction: str) -> None:
        """Write the markers, and tell the producer, unless that has died."""
        for partition, log in self.logs.items():
            if any(entry.transaction == transaction for entry in log):
                log.append(Entry(transaction, None))
                self.observe(partition)
        asked = next(
            event.commit
            for event in self.history
            if isinstance(event, TransactionEnding) and event.transaction == transaction
        )
        if self.decided[transaction] == asked and self.chance.random() < 0.8:
            self.history.append(TransactionEnded(transaction, asked))

    def stable(self, partition: Partition) -> int:
        log = self.logs[partition]
        ended = {entry.transaction for entry in log if entry.record is None}
        return next((at for at, entry in enumerate(log) if entry.transaction not in ended), len(log))

    def observe(self, partition: Partition) -> None:
        self.history += [
            StableOffset(partition, self.stable(partition)),
            EndOffset(partition, len(self.logs[partition])),
        ]

    def committed(self, partition: Partition) -> list[tuple[int, Sent]]:
        """What a read_committed reader is given."""
        entries = enumerate(self.logs[partition][: self.stable(partition)])
        return [
            (at, entry.record) for at, entry in entries if entry.record and self.decided[entry.transaction]
        ]

    def read_all(self, reader: str) -> None:
        for partition in PARTITIONS:
            self.history.append(ReadFrom(reader, partition, 0, True))
            for at, record in self.committed(partition):
                self.history.append(
                    Read(reader, partition, at, record.producer, record.number, record.checksum)
                )
            self.history.append(ReadTo(reader, partition, self.stable(partition)))

    def copy(self) -> None:
        """Copy some records of a partition in a transaction, which may abort."""
        index = self.chance.choice(INDEXES)
        ledger: Partition = ("ledger", index)
        left = [at for at, _ in self.committed(ledger) if at >= self.committed_offset.get(ledger, 0)]
        taken = left[: self.chance.randint(1, 8)]
        if not taken:
            return
        transaction = self.begin()
        for at in taken:
            self.write("copier", transaction, ("copies", index), Source(GROUP, ledger, at))
        self.history.append(CommitSent(GROUP, ledger, taken[-1] + 1))
        self.decide(transaction, self.chance.random() < 0.8)
        self.mark(transaction)
        if self.decided[transaction]:
            self.committed_offset[ledger] = taken[-1] + 1

    def fetch_offsets(self) -> None:
        for index in INDEXES:
            ledger: Partition = ("ledger", index)
            self.history.append(CommitFetched(GROUP, ledger, self.committed_offset.get(ledger, -1)))


def lived(seed: int) -> Model:
    """A model after some dozen transactions that overlap."""
    model = Model(seed)
    open_transactions: dict[str, str] = {}
    undecided: list[str] = []
    for step in range(400):
        producer = model.chance.choice(["p", "q", "r"])
        match model.chance.choice(["write", "write", "write", "end", "mark", "copy", "read"]):
            case "write":
                transaction = open_transactions.setdefault(producer, "") or model.begin()
                open_transactions[producer] = transaction
                model.write(producer, transaction, ("ledger", model.chance.choice(INDEXES)))
            case "end" if open_transactions.get(producer):
                model.decide(open_transactions[producer], model.chance.random() < 0.8)
                undecided.append(open_transactions.pop(producer))
            case "mark" if undecided:
                model.mark(undecided.pop(0))
            case "copy":
                model.copy()
            case "read" if step % 5 == 0:
                model.read_all(f"reader {step}")
    for transaction in open_transactions.values():
        model.decide(transaction, False)
    for transaction in [*undecided, *open_transactions.values()]:
        model.mark(transaction)
    while model.committed_offset != end_of_the_ledger(model):
        model.copy()
    model.fetch_offsets()
    model.read_all("last")
    return model


def end_of_the_ledger(model: Model) -> dict[Partition, int]:
    """The offsets that are committed when all is copied."""
    ends = {("ledger", index): model.committed(("ledger", index)) for index in INDEXES}
    return {partition: records[-1][0] + 1 for partition, records in ends.items() if records}


def reads_of(history: History, reader: str, topic: str) -> list[int]:
    """Where in the history a reader was given the records of a topic."""
    return [
        at
        for at, event in enumerate(history)
        if isinstance(event, Read) and event.reader == reader and event.partition[0] == topic
    ]


def lose_a_record(model: Model) -> None:
    del model.history[model.chance.choice(reads_of(model.history, "last", "ledger"))]


def lose_a_copy(model: Model) -> None:
    del model.history[model.chance.choice(reads_of(model.history, "last", "copies"))]


def lose_a_transaction_in_one_partition(model: Model) -> None:
    """Its marker there says abort."""
    sent = {(each.producer, each.number): each for each in model.history if isinstance(each, Sent)}
    reads = reads_of(model.history, "last", "ledger")
    places: dict[str | None, set[Partition]] = {}
    for at in reads:
        read = model.history[at]
        assert isinstance(read, Read)
        places.setdefault(sent[read.producer, read.number].transaction, set()).add(read.partition)
    torn = model.chance.choice([name for name, found in places.items() if len(found) > 1])
    told = {each.transaction for each in model.history if isinstance(each, TransactionEnded)}
    if torn in told:
        model.history.remove(TransactionEnded(str(torn), True))
    model.history = [
        event
        for event in model.history
        if not (
            isinstance(event, Read)
            and event.partition == ("ledger", 0)
            and sent[event.producer, event.number].transaction == torn
        )
    ]


def double_a_transaction_of_copies(model: Model) -> None:
    """Its copies were committed, its offsets were not: another copies them again."""
    copies = [entry.record for entry in model.logs["copies", 0] if entry.record]
    visible = [record for _, record in model.committed(("copies", 0))]
    twice = model.chance.choice([record for record in copies if record in visible])
    transaction = model.begin()
    model.write("other copier", transaction, twice.partition, twice.source)
    model.history.append(TransactionEnding(transaction, True))
    model.decided[transaction] = True
    model.mark(transaction)
    model.read_all("later")


def forget_the_offsets_of_copies(model: Model) -> None:
    """A reader has the copies, and the group has the offset from before."""
    model.history.append(CommitSent(GROUP, ("ledger", 0), 0))
    model.history.append(CommitFetched(GROUP, ("ledger", 0), 0))


def show_an_aborted_record(model: Model) -> None:
    at, aborted = next(
        (at, entry.record)
        for at, entry in enumerate(model.logs["ledger", 0])
        if entry.record
        and not model.decided[entry.transaction]
        and TransactionEnding(entry.transaction, False) in model.history
    )
    place = model.history.index(ReadFrom("last", ("ledger", 0), 0, True))
    read = Read("last", ("ledger", 0), at, aborted.producer, aborted.number, aborted.checksum)
    model.history.insert(place + 1, read)


def show_an_open_transaction(model: Model) -> None:
    at, first = next(
        (at, event)
        for at, event in enumerate(model.history)
        if isinstance(event, Sent) and event.partition == ("ledger", 1)
    )
    read = Read("hasty", ("ledger", 1), 0, first.producer, first.number, first.checksum)
    model.history[at + 2 : at + 2] = [ReadFrom("hasty", ("ledger", 1), 0, True), read]


def move_the_stable_offset_back(model: Model) -> None:
    partition = model.chance.choice(PARTITIONS)
    model.history.append(StableOffset(partition, model.stable(partition) - 1))


def copy_an_aborted_record(model: Model) -> None:
    at = next(
        at
        for at, entry in enumerate(model.logs["ledger", 0])
        if entry.record and not model.decided[entry.transaction]
    )
    model.write("copier", model.begin(), ("copies", 0), Source(GROUP, ("ledger", 0), at))


PLANTED: dict[Callable[[Model], None], set[Anomaly]] = {
    lose_a_record: {Anomaly.TORN_TRANSACTION, Anomaly.LOST_TRANSACTION},
    lose_a_copy: {Anomaly.LOST_COPY},
    lose_a_transaction_in_one_partition: {Anomaly.TORN_TRANSACTION},
    double_a_transaction_of_copies: {Anomaly.DOUBLED_COPY},
    forget_the_offsets_of_copies: {Anomaly.COPY_WITHOUT_OFFSET},
    show_an_aborted_record: {Anomaly.ABORTED_READ},
    show_an_open_transaction: {Anomaly.OPEN_TRANSACTION_READ},
    move_the_stable_offset_back: {Anomaly.STABLE_OFFSET_WENT_BACK},
    copy_an_aborted_record: {Anomaly.COPY_OF_NOTHING},
}
"""What is planted, and of which at least one must be found."""


@pytest.mark.parametrize("seed", SEEDS)
def test_transactions_that_overlap_are_no_anomaly(seed: int) -> None:
    model = lived(seed)
    assert check(model.history) == []
    assert len(model.committed(("copies", 0))) > 10


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__.replace("_", " "))
def test_a_planted_violation_is_found(plant: Callable[[Model], None], seed: int) -> None:
    model = lived(seed)
    plant(model)
    found = {finding.anomaly for finding in check(model.history)}
    assert found & PLANTED[plant], found
