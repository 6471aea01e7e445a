"""The checker finds an anomaly that one event shows when it sees that event."""

from __future__ import annotations

import pytest

from tests.promises.checker import Checker, check
from tests.promises.history import (
    Acked,
    Anomaly,
    CommitAcked,
    CommitFetched,
    CommitSent,
    EndAsked,
    EndOffset,
    Event,
    Finding,
    History,
    Read,
    ReadFrom,
    ReadTo,
    Sent,
)

T = ("t", 0)
ZERO = Sent("p", 0, T, 7)
ONE = Sent("p", 1, T, 8)

AT_ONCE: dict[Anomaly, History] = {
    Anomaly.SAME_OFFSET: [ZERO, ONE, Acked("p", 0, 3), Acked("p", 1, 3)],
    Anomaly.WRONG_OFFSET: [ZERO, Acked("p", 0, 3), ReadFrom("r", T, 0), Read("r", T, 2, "p", 0, 7)],
    Anomaly.CHANGED_CONTENT: [ZERO, ReadFrom("r", T, 0), Read("r", T, 0, "p", 0, 8)],
    Anomaly.OFFSET_GAP: [ZERO, ReadFrom("r", T, 0, dense=True), Read("r", T, 1, "p", 0, 7)],
    Anomaly.ACK_BEYOND_END: [ZERO, Acked("p", 0, 3), EndAsked("r", T), EndOffset(T, 3, "r")],
    Anomaly.COMMIT_LOST: [CommitSent("g", T, 3), CommitAcked("g", T, 3), CommitFetched("g", T, -1)],
}


@pytest.mark.parametrize("anomaly", AT_ONCE)
def test_an_anomaly_that_one_event_shows_is_found_with_that_event(anomaly: Anomaly) -> None:
    found: list[Finding] = []
    checker = Checker(found.append)
    *before, last = AT_ONCE[anomaly]
    for event in before:
        checker.see(event)
    assert found == []
    checker.see(last)
    assert [finding.anomaly for finding in found] == [anomaly]


def test_a_record_that_another_one_displaced_is_not_where_it_was_acknowledged() -> None:
    history: History = [ZERO, ONE, Acked("p", 0, 0), ReadFrom("r", T, 0), Read("r", T, 0, "p", 1, 8)]
    assert Anomaly.WRONG_OFFSET in {finding.anomaly for finding in check(history)}
    history = [ZERO, ONE, ReadFrom("r", T, 0), Read("r", T, 0, "p", 1, 8), Acked("p", 0, 0)]
    assert Anomaly.WRONG_OFFSET in {finding.anomaly for finding in check(history)}


ENDS: dict[str, tuple[History, set[Anomaly]]] = {
    "what is acknowledged while the answer is on its way may be above it": (
        [EndAsked("r", T), ZERO, Acked("p", 0, 0), EndOffset(T, 0, "r")],
        set(),
    ),
    "what was acknowledged before the question is below the answer": (
        [ZERO, Acked("p", 0, 0), EndAsked("r", T), EndOffset(T, 0, "r")],
        {Anomaly.ACK_BEYOND_END},
    ),
    "a former leader need not know what others were told": (
        [ZERO, Acked("p", 0, 0), EndOffset(T, 1), EndAsked("r", T, of_all=False), EndOffset(T, 0, "r")],
        set(),
    ),
    "a former leader tells a reader no end below one that it was told": (
        [
            *(EndAsked("r", T, of_all=False), EndOffset(T, 4, "r")),
            *(EndAsked("r", T, of_all=False), EndOffset(T, 3, "r")),
        ],
        {Anomaly.END_OFFSET_WENT_BACK},
    ),
    "a former leader tells a reader no end below what it was given": (
        [
            *(ZERO, ReadFrom("r", T, 0), Read("r", T, 0, "p", 0, 7)),
            *(EndAsked("r", T, of_all=False), EndOffset(T, 0, "r")),
        ],
        {Anomaly.READ_BEYOND_END},
    ),
    "a pass over everything reaches what was told": (
        [EndOffset(T, 4), ReadFrom("r", T, 0), ReadTo("r", T, 3)],
        {Anomaly.END_OFFSET_WENT_BACK},
    ),
    "the last stable offset may be below the end, and not below what is committed": (
        [EndOffset(T, 4), ReadFrom("r", T, 0, committed=True), ReadTo("r", T, 3)],
        set(),
    ),
    "a group has committed nothing beyond the last stable offset": (
        [
            *(CommitSent("g", T, 4), CommitFetched("g", T, 4)),
            *(ReadFrom("r", T, 0, committed=True), ReadTo("r", T, 3)),
        ],
        {Anomaly.COMMIT_BEYOND_END},
    ),
}


@pytest.mark.parametrize("case", ENDS)
def test_an_end_is_compared_with_what_was_known_when_it_was_asked_for(case: str) -> None:
    history, expected = ENDS[case]
    assert {finding.anomaly for finding in check(history)} == expected


def late(offset: int) -> Event:
    return CommitSent("g", T, offset, may_be_late=True)


def fetched(*offsets: int) -> History:
    return [CommitFetched("g", T, offset) for offset in offsets]


COMMITS: dict[str, tuple[History, set[Anomaly]]] = {
    "a commit without an answer takes place after a later one": (
        [late(3), late(5), CommitAcked("g", T, 5), *fetched(5, 3, 3)],
        set(),
    ),
    "it takes place once": (
        [late(3), late(5), CommitAcked("g", T, 5), *fetched(3, 5)],
        {Anomaly.COMMIT_WENT_BACK},
    ),
    "of two commits of one offset, the other one may take place later": (
        [late(3), CommitAcked("g", T, 3), late(3), *fetched(3), late(5), CommitAcked("g", T, 5), *fetched(3)],
        set(),
    ),
    "a consumer that waits for each answer has no late commits": (
        [CommitSent("g", T, 3), CommitSent("g", T, 5), CommitAcked("g", T, 5), *fetched(3)],
        {Anomaly.COMMIT_LOST},
    ),
    "an acknowledged commit is not gone because an earlier one may be late": (
        [late(3), late(5), CommitAcked("g", T, 5), *fetched(-1)],
        {Anomaly.COMMIT_LOST},
    ),
    "a commit is acknowledged that nobody sent": ([CommitAcked("g", T, 5)], {Anomaly.PHANTOM_COMMIT}),
}


@pytest.mark.parametrize("case", COMMITS)
def test_a_commit_that_was_given_up_may_take_place_later(case: str) -> None:
    history, expected = COMMITS[case]
    assert {finding.anomaly for finding in check(history)} == expected
