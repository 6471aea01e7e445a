"""The history checker: each bad history is flagged with its class, each good one is clean."""

from __future__ import annotations

import random

import pytest

from tests.promises.checker import check
from tests.promises.history import (
    Acked,
    Anomaly,
    Assigned,
    CommitAcked,
    CommitFetched,
    CommitSent,
    EndOffset,
    Event,
    Failed,
    History,
    Read,
    ReadFrom,
    ReadTo,
    Sent,
    Source,
    StableOffset,
    StartOffset,
    TransactionEnded,
    TransactionEnding,
)

T = ("t", 0)
U = ("t", 1)


def sent(
    number: int,
    *,
    producer: str = "p",
    partition: tuple[str, int] = T,
    idempotent: bool = True,
    txn: str | None = None,
) -> Sent:
    return Sent(producer, number, partition, number * 7, idempotent, txn)


def written(*numbers: int, offset: int = 0, producer: str = "p", idempotent: bool = True) -> History:
    """Records sent and acknowledged at the offsets from `offset` on."""
    events: History = []
    for at, number in enumerate(numbers, offset):
        events += [sent(number, producer=producer, idempotent=idempotent), Acked(producer, number, at)]
    return events


def read_all(
    *records: tuple[int, int],
    reader: str = "r",
    start: int = 0,
    end: int | None = None,
    committed: bool = False,
    dense: bool = False,
) -> History:
    """A pass that was given (offset, number) of producer p, and reached the end."""
    reads: list[Event] = [Read(reader, T, offset, "p", number, number * 7) for offset, number in records]
    end = end if end is not None else records[-1][0] + 1 if records else start
    return [ReadFrom(reader, T, start, committed, dense), *reads, ReadTo(reader, T, end)]


def in_order(count: int, start: int = 0) -> list[tuple[int, int]]:
    return [(number, number) for number in range(start, count)]


def copies(*records: tuple[int, int], commit: bool | None = True) -> History:
    """A transaction of (number, offset) that copies these offsets of T to U.

    If `commit` is None, it is left open.
    """
    name = f"copy {records[0][0]}"
    events: History = [
        Sent("c", number, U, number * 7, transaction=name, source=Source("g", T, offset))
        for number, offset in records
    ]
    if commit is None:
        return events
    return [*events, TransactionEnding(name, commit), TransactionEnded(name, commit)]


def read_copies(*records: tuple[int, int]) -> History:
    """A pass over U that was given (offset, number) and reached the end."""
    reads: list[Event] = [Read("s", U, offset, "c", number, number * 7) for offset, number in records]
    end = records[-1][0] + 1 if records else 0
    return [ReadFrom("s", U, 0, True), *reads, ReadTo("s", U, end)]


# Records 0 and 2 of T are committed; what is at offset 1 is not.
LEDGER: History = [
    sent(0, txn="x"), sent(2, txn="x"), TransactionEnding("x", True), TransactionEnded("x", True),
    sent(1, txn="y"), TransactionEnding("y", False),
    ReadFrom("r", T, 0, True), Read("r", T, 0, "p", 0, 0), Read("r", T, 2, "p", 2, 14), ReadTo("r", T, 4),
]  # fmt: skip

A = Anomaly
OTHER = Read("r", T, 0, "q", 9, 63)

BAD: dict[Anomaly, History] = {
    A.LOST_ACKED: [*written(0, 1), *read_all((0, 0))],
    A.POLL_SKIP: [*written(0, 1, 2), *read_all((0, 0), (2, 2)), *read_all(*in_order(3), reader="s")],
    A.WRONG_OFFSET: [*written(0, offset=4), *read_all((3, 0), end=9)],
    A.DUPLICATE: [*written(0), *read_all((0, 0), (1, 0))],
    A.SAME_OFFSET: [*written(0), *written(1)],
    A.INCONSISTENT_OFFSET: [
        sent(0), sent(1), *read_all((0, 0)), *read_all((0, 1), reader="s"),
    ],
    A.READ_THEN_VANISHED: [sent(0), sent(1), *read_all((0, 0), (1, 1)), *read_all((0, 0), reader="s", end=2)],
    A.OFFSET_GAP: [sent(0), sent(1), *read_all((0, 0), (2, 1), dense=True)],
    A.NONMONOTONIC_READ: [*written(0, 1), *read_all((0, 0), (1, 1), (0, 0), end=2)],
    A.END_OFFSET_WENT_BACK: [EndOffset(T, 5), EndOffset(T, 4)],
    A.READ_BEYOND_END: [sent(0), ReadFrom("r", T, 0), Read("r", T, 3, "p", 0, 0), EndOffset(T, 3)],
    A.ACK_BEYOND_END: [*written(0, offset=3), EndOffset(T, 3)],
    A.START_OFFSET_WENT_BACK: [StartOffset(T, 5), StartOffset(T, 4)],
    A.DELETED_READ: [*written(0, 1), StartOffset(T, 1), *read_all((0, 0), (1, 1))],
    A.FAILED_READ: [sent(0), Failed("p", 0), *read_all((0, 0))],
    A.PHANTOM: [sent(0), *read_all((0, 0), (1, 1))],
    A.SENT_TWICE: [sent(0), sent(0, partition=U)],
    A.UNSENT_ACK: [Acked("p", 0, 0)],
    A.CHANGED_CONTENT: [*written(0), ReadFrom("r", T, 0), Read("r", T, 0, "p", 0, 1), ReadTo("r", T, 1)],
    A.WRONG_PARTITION: [sent(0, partition=U), *read_all((0, 0))],
    A.REORDERED: [sent(0), sent(1), *read_all((0, 1), (1, 0))],
    A.SEQUENCE_GAP: [sent(0), sent(1), *read_all((0, 1))],
    A.ACK_CHANGED: [*written(0), Acked("p", 0, 1)],
    A.ACKS_REORDERED: [sent(0), sent(1), Acked("p", 0, 5), Acked("p", 1, 4)],
    A.COMMIT_LOST: [
        CommitSent("g", T, 3), CommitAcked("g", T, 3), CommitSent("g", T, 5), CommitAcked("g", T, 5),
        CommitFetched("g", T, 3),
    ],
    A.COMMIT_WENT_BACK: [
        CommitSent("g", T, 3), CommitAcked("g", T, 3), CommitSent("g", T, 5), CommitFetched("g", T, 5),
        CommitFetched("g", T, 3),
    ],
    A.PHANTOM_COMMIT: [CommitSent("g", T, 3), CommitAcked("g", T, 3), CommitFetched("g", T, 4)],
    A.COMMIT_BEYOND_END: [CommitSent("g", T, 3), CommitFetched("g", T, 3), EndOffset(T, 2)],
    A.DOUBLE_ASSIGNMENT: [Assigned("g", 1, "a", (T, U)), Assigned("g", 1, "b", (U,))],
    A.GENERATION_WENT_BACK: [Assigned("g", 2, "a", (T,)), Assigned("g", 1, "a", ())],
    A.ABORTED_READ: [
        sent(0, txn="x"), TransactionEnding("x", False), TransactionEnded("x", False),
        *read_all((0, 0), committed=True),
    ],
    A.OPEN_TRANSACTION_READ: [
        sent(0, txn="x"), *read_all((0, 0), committed=True), TransactionEnding("x", True),
    ],
    A.TORN_TRANSACTION: [
        sent(0, txn="x"), sent(1, txn="x"), TransactionEnding("x", True),
        *read_all((0, 0), end=3, committed=True),
    ],
    A.LOST_TRANSACTION: [
        sent(0, txn="x"), TransactionEnding("x", True), TransactionEnded("x", True),
        *read_all(end=2, committed=True),
    ],
    A.STABLE_OFFSET_WENT_BACK: [StableOffset(T, 4), StableOffset(T, 3)],
    A.COPY_OF_NOTHING: [*LEDGER, *copies((1, 1)), *read_copies()],
    A.DOUBLED_COPY: [*LEDGER, *copies((0, 0), (1, 0)), *read_copies((0, 0), (1, 1))],
    A.LOST_COPY: [
        *LEDGER, *copies((0, 0), (1, 2)), CommitSent("g", T, 3), CommitFetched("g", T, 3),
        *read_copies((0, 0)),
    ],
    A.COPIES_REORDERED: [*LEDGER, *copies((0, 2), (1, 0)), *read_copies((0, 0), (1, 1))],
    A.COPY_WITHOUT_OFFSET: [
        *LEDGER, *copies((0, 0)), *read_copies((0, 0)), CommitSent("g", T, 0), CommitFetched("g", T, 0),
    ],
}  # fmt: skip

GOOD: dict[Anomaly, History] = {
    A.LOST_ACKED: [*written(0, 1), sent(2), *read_all((0, 0), (1, 1))],
    A.POLL_SKIP: [*written(0), *read_all((0, 0)), *written(1, offset=1), *read_all((1, 1), start=1)],
    A.WRONG_OFFSET: [*written(0, offset=4), *read_all((4, 0), end=9)],
    A.DUPLICATE: [sent(0, idempotent=False), *read_all((0, 0), (1, 0))],
    A.SAME_OFFSET: [*written(0), sent(1, partition=U), Acked("p", 1, 0)],
    A.INCONSISTENT_OFFSET: [*written(0, 1), *read_all(*in_order(2)), *read_all(*in_order(2), reader="s")],
    A.READ_THEN_VANISHED: [
        *written(0, 1), *read_all(*in_order(2)), StartOffset(T, 1), *read_all((1, 1), start=1),
    ],
    A.OFFSET_GAP: [
        *written(0, 1), *read_all((0, 0), (1, 1), dense=True), *read_all((1, 1), start=1, dense=True),
        Sent("q", 0, U, 0), ReadFrom("r", U, 0), Read("r", U, 5, "q", 0, 0), ReadTo("r", U, 9),
    ],
    A.NONMONOTONIC_READ: [*written(0, 1), *read_all(*in_order(2)), *read_all(*in_order(2))],
    A.END_OFFSET_WENT_BACK: [EndOffset(T, 5), EndOffset(U, 4), EndOffset(T, 5), EndOffset(T, 6)],
    A.READ_BEYOND_END: [sent(0), ReadFrom("r", T, 0), Read("r", T, 3, "p", 0, 0), EndOffset(T, 4)],
    A.ACK_BEYOND_END: [EndOffset(T, 3), *written(0, offset=3), EndOffset(T, 4)],
    A.START_OFFSET_WENT_BACK: [StartOffset(T, 4), StartOffset(T, 4), StartOffset(T, 5)],
    A.DELETED_READ: [*written(0, 1), *read_all(*in_order(2)), StartOffset(T, 1), *read_all((1, 1), start=1)],
    A.FAILED_READ: [sent(0), sent(1), Failed("p", 0), *read_all((0, 1))],
    A.PHANTOM: [sent(0), sent(1), *read_all((0, 0), (1, 1))],
    A.SENT_TWICE: [sent(0), sent(0, producer="q", partition=U)],
    A.UNSENT_ACK: [sent(0), Acked("p", 0, 0)],
    A.CHANGED_CONTENT: [*written(0), *read_all((0, 0))],
    A.WRONG_PARTITION: [sent(0), sent(1, partition=U), *read_all((0, 0))],
    A.REORDERED: [sent(0, idempotent=False), sent(1, idempotent=False), *read_all((0, 1), (1, 0))],
    A.SEQUENCE_GAP: [
        sent(0), sent(1, idempotent=False), sent(2, partition=U), sent(3), *read_all((0, 0), (1, 3)),
    ],
    A.ACK_CHANGED: [*written(0), Acked("p", 0, 0)],
    A.ACKS_REORDERED: [
        sent(0), sent(1, partition=U), Acked("p", 0, 5), Acked("p", 1, 4),
        *written(8, 9, offset=6, producer="q"),
    ],
    A.COMMIT_LOST: [
        CommitSent("g", T, 3), CommitAcked("g", T, 3), CommitSent("g", T, 5), CommitFetched("g", T, 3),
        CommitFetched("g", T, 5), CommitFetched("g", U, -1), CommitFetched("h", T, -1),
    ],
    A.COMMIT_WENT_BACK: [
        CommitSent("g", T, 5), CommitFetched("g", T, 5), CommitSent("g", T, 3), CommitFetched("g", T, 3),
    ],
    A.PHANTOM_COMMIT: [CommitSent("g", T, 3), CommitFetched("g", T, -1), CommitFetched("g", T, 3)],
    A.COMMIT_BEYOND_END: [CommitSent("g", T, 3), CommitFetched("g", T, 3), EndOffset(T, 3)],
    A.DOUBLE_ASSIGNMENT: [
        Assigned("g", 1, "a", (T, U)), Assigned("g", 2, "b", (U,)), Assigned("h", 1, "b", (T,)),
    ],
    A.GENERATION_WENT_BACK: [
        Assigned("g", 2, "a", (T,)), Assigned("g", 1, "b", ()), Assigned("g", 3, "a", ()),
    ],
    A.ABORTED_READ: [sent(0, txn="x"), TransactionEnding("x", False), *read_all((0, 0))],
    A.OPEN_TRANSACTION_READ: [
        sent(0, txn="x"), TransactionEnding("x", True), *read_all((0, 0), committed=True),
    ],
    A.TORN_TRANSACTION: [
        sent(0, txn="x"), sent(1, txn="x"), sent(2, txn="x", partition=U), TransactionEnding("x", True),
        *read_all((0, 0), (1, 1), end=3, committed=True), *read_all(end=3, committed=True, reader="s"),
    ],
    A.LOST_TRANSACTION: [
        sent(0, txn="x"), TransactionEnding("x", True), *read_all(end=2, committed=True),
        TransactionEnded("x", True),
    ],
    A.STABLE_OFFSET_WENT_BACK: [
        StableOffset(T, 3), StableOffset(T, 4), StableOffset(U, 1), StableOffset(T, 4),
    ],
    A.COPY_OF_NOTHING: [*LEDGER, *copies((0, 4), commit=None), *read_copies(), StableOffset(T, 3)],
    A.DOUBLED_COPY: [
        *LEDGER, *copies((0, 0), commit=False), *copies((1, 0), (2, 2)), *read_copies((1, 1), (2, 2)),
    ],
    A.LOST_COPY: [
        *LEDGER, *copies((0, 0), (1, 2), commit=None), CommitSent("g", T, 3), CommitFetched("g", T, -1),
        EndOffset(U, 2), *read_copies(), CommitFetched("g", T, 3),
    ],
    A.COPIES_REORDERED: [*LEDGER, *copies((0, 0), (1, 2)), *read_copies((0, 0), (1, 1))],
    A.COPY_WITHOUT_OFFSET: [
        *LEDGER, *copies((0, 0)), CommitSent("g", T, 1), CommitFetched("g", T, -1), *read_copies((0, 0)),
        CommitFetched("g", T, 1),
    ],
}  # fmt: skip


@pytest.mark.parametrize("anomaly", Anomaly)
def test_a_bad_history_is_flagged_with_its_class(anomaly: Anomaly) -> None:
    found = check(BAD[anomaly])
    assert anomaly in {finding.anomaly for finding in found}, found


@pytest.mark.parametrize("anomaly", Anomaly)
def test_a_good_history_is_clean(anomaly: Anomaly) -> None:
    assert check(GOOD[anomaly]) == []


def one_of(reader: str, *records: tuple[int, int], end: int) -> History:
    """A pass over a compacted partition, from its start to `end`."""
    return read_all(*records, reader=reader, end=end)


# Record 0 is written at offset 0, and again by a producer that retries; compaction keeps the last copy.
RETRIED: History = [
    sent(0, idempotent=False), *written(1, 2, offset=1), *one_of("a", (0, 0), (1, 1), (2, 2), end=3),
]  # fmt: skip

LAST_COPIES: dict[str, tuple[History, set[Anomaly]]] = {
    "the last copy lies at the end of the pass": (
        [*one_of("b", (1, 1), (2, 2), end=3), *one_of("c", (1, 1), (2, 2), (3, 0), end=4)], set(),
    ),
    "the last copy lies beyond the end of the pass": (
        [*one_of("b", (1, 1), (2, 2), end=3), *one_of("c", (1, 1), (2, 2), (7, 0), end=8)], set(),
    ),
    "the last copy is acknowledged and read by nobody yet": (
        [*one_of("b", (1, 1), (2, 2), end=3), Acked("p", 0, 4)], set(),
    ),
    "the pass has the last copy": ([*one_of("b", (1, 1), (2, 2), (4, 0), end=5)], set()),
    "the same copy is read later": (
        [*one_of("b", (1, 1), (2, 2), end=3), *one_of("c", (0, 0), (1, 1), (2, 2), end=3)], {A.POLL_SKIP},
    ),
    "the same copy is read later, and another beyond the end of the pass": (
        [*one_of("b", (1, 1), (2, 2), end=3), *one_of("c", (0, 0), (1, 1), (2, 2), (3, 0), end=4)],
        {A.POLL_SKIP},
    ),
    "the last copy lies before the end of the pass": (
        [*one_of("b", (1, 1), (2, 2), end=9), *one_of("c", (1, 1), (2, 2), (4, 0), end=9)], {A.POLL_SKIP},
    ),
    "there is no copy any more": ([*one_of("b", (1, 1), (2, 2), end=3)], {A.READ_THEN_VANISHED}),
    "the acknowledged copy is gone and the one before it is back": (
        [Acked("p", 0, 3), *one_of("b", (0, 0), (1, 1), (2, 2), end=4)],
        {A.READ_THEN_VANISHED},
    ),
    "the last copy is gone from a later pass": (
        [
            *one_of("b", (1, 1), (2, 2), end=3), *one_of("c", (1, 1), (2, 2), (3, 0), end=4),
            *one_of("d", (1, 1), (2, 2), end=4),
        ],
        {A.READ_THEN_VANISHED},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LAST_COPIES)
def test_a_pass_has_to_find_the_last_copy_of_a_record_unless_that_came_after_its_end(case: str) -> None:
    events, expected = LAST_COPIES[case]
    found = check([*RETRIED, *events])
    assert {finding.anomaly for finding in found} == expected, found


def test_a_record_that_is_acknowledged_has_no_later_copy() -> None:
    history = [sent(0, idempotent=False), Acked("p", 0, 4), *read_all((6, 0), end=9)]
    assert {finding.anomaly for finding in check(history)} == {A.WRONG_OFFSET}


# Transaction x has records 0 and 1 in T, and 2 in U; somebody else's transaction is open from offset 1 on.
INTERLEAVED: History = [
    sent(0, txn="x"), Acked("p", 0, 0), sent(1, txn="x"), Acked("p", 1, 2),
    sent(2, txn="x", partition=U), Acked("p", 2, 0), TransactionEnding("x", True),
]  # fmt: skip
READ_IN_T: History = read_all((0, 0), (2, 1), end=3, committed=True)

PARTS: dict[str, tuple[History, set[Anomaly]]] = {
    "a pass ends where another transaction is open": (read_all((0, 0), end=1, committed=True), set()),
    "a pass continues, and has not come to the other records": (
        [ReadFrom("r", T, 0, True), Read("r", T, 0, "p", 0, 0)], set(),
    ),
    "one partition has its marker, the other waits for it": (
        [*READ_IN_T, ReadFrom("s", U, 0, True), ReadTo("s", U, 0)], set(),
    ),
    "one partition shows it, a pass over the other went past it": (
        [*READ_IN_T, ReadFrom("s", U, 0, True), ReadTo("s", U, 2)], {A.TORN_TRANSACTION},
    ),
    "a pass went past one of its records": (read_all((0, 0), end=3, committed=True), {A.TORN_TRANSACTION}),
    "a pass that continues went past one of its records": (
        [ReadFrom("r", T, 0, True), Read("r", T, 0, "p", 0, 0), sent(5), Read("r", T, 5, "p", 5, 35)],
        {A.TORN_TRANSACTION},
    ),
    "nobody knows whether it is committed, and nobody is given it": (
        [*read_all(end=3, committed=True), ReadFrom("s", U, 0, True), ReadTo("s", U, 2)], set(),
    ),
    "it is committed, and all passes went past it": (
        [TransactionEnded("x", True), *read_all(end=3, committed=True), ReadFrom("s", U, 0, True)],
        {A.LOST_TRANSACTION},
    ),
    "the last stable offset goes back to before a record that was given": (
        [*READ_IN_T, StableOffset(T, 1)], {A.STABLE_OFFSET_WENT_BACK},
    ),
    "the end of a read_committed pass is not the end of the partition": (
        [EndOffset(T, 5), *READ_IN_T, EndOffset(T, 5)], set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PARTS)
def test_a_transaction_is_whole_or_not_there_in_all_its_partitions(case: str) -> None:
    events, expected = PARTS[case]
    found = check([*INTERLEAVED, *events])
    assert {finding.anomaly for finding in found} == expected, found


def test_all_classes_have_their_histories() -> None:
    assert set(BAD) == set(GOOD) == set(Anomaly)
    assert len(Anomaly) >= 25


def long_history(records: int) -> History:
    """A broker's life without faults: three producers, three restarts, readers and a group."""
    chance = random.Random(1)
    history: History = []
    log: list[tuple[str, int]] = []
    for number in range(records):
        producer = chance.choice(["p", "q", "s"])
        history.append(sent(number, producer=producer))
        log.append((producer, number))
        history.append(Acked(producer, number, len(log) - 1))
        if number % (records // 4) == 0:
            reads = [Read("r", T, offset, *record, record[1] * 7) for offset, record in enumerate(log)]
            history += [ReadFrom("r", T, 0), *reads, ReadTo("r", T, len(log)), EndOffset(T, len(log))]
            history += [
                CommitSent("g", T, len(log)),
                CommitAcked("g", T, len(log)),
                CommitFetched("g", T, len(log)),
            ]
    return history


def test_a_long_history_without_faults_is_clean() -> None:
    assert check(long_history(4000)) == []


def test_one_lost_record_in_a_long_history_is_found() -> None:
    history = long_history(4000)
    last = max(index for index, event in enumerate(history) if isinstance(event, ReadFrom))
    del history[last + 1000]
    assert {finding.anomaly for finding in check(history)} >= {A.READ_THEN_VANISHED, A.SEQUENCE_GAP}
