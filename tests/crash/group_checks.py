"""Checks Kafka's guarantees for committed offsets and assignments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.crash.history import (
    Anomaly,
    Assigned,
    Check,
    CommitAcked,
    CommitFetched,
    CommitSent,
    EndOffset,
    Finding,
    History,
    Partition,
    ReadTo,
)

NONE: Final = -1

Key = tuple[str, Partition]


class _Commits:
    """The commits of a group for a partition, so far."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.settled = 0
        """Commits before this index in `sent` are superseded by the one at it, which arrived."""
        self.arrived: int | None = None
        """The newest offset known to be committed."""
        self.by_fetch = False
        """A fetch showed it; no acknowledgement did."""

    def arrive(self, offset: int, *, by_fetch: bool) -> None:
        """The newest unsettled commit of `offset` took place."""
        for index in range(len(self.sent) - 1, self.settled - 1, -1):
            if self.sent[index] == offset:
                if offset != self.arrived or not by_fetch:
                    self.by_fetch = by_fetch
                self.settled = index
                self.arrived = offset
                return

    def allowed(self) -> set[int]:
        """The offsets that a fetch may return."""
        if self.arrived is None:
            return {NONE, *self.sent}
        return {self.arrived, *self.sent[self.settled :]}


def check_commits(history: History) -> Iterator[Finding]:
    """A fetch returns the newest commit that is known, or one that was sent after it."""
    groups: dict[Key, _Commits] = {}
    for event in history:
        if not isinstance(event, (CommitSent, CommitAcked, CommitFetched)):
            continue
        commits = groups.setdefault((event.group, event.partition), _Commits())
        if isinstance(event, CommitSent):
            commits.sent.append(event.offset)
        elif isinstance(event, CommitAcked):
            commits.arrive(event.offset, by_fetch=False)
        elif event.offset in commits.allowed():
            commits.arrive(event.offset, by_fetch=True)
        else:
            where = f"group {event.group}, {event.partition}: {event.offset}, expected {commits.arrived}"
            if event.offset != NONE and event.offset not in commits.sent:
                yield Finding(Anomaly.PHANTOM_COMMIT, where)
            elif commits.by_fetch:
                yield Finding(Anomaly.COMMIT_WENT_BACK, where)
            else:
                yield Finding(Anomaly.COMMIT_LOST, where)


def check_commits_against_ends(history: History) -> Iterator[Finding]:
    """A committed offset is never above the end of the partition: records were lost then."""
    fetched: dict[Partition, CommitFetched] = {}
    for event in history:
        if isinstance(event, CommitFetched):
            known = fetched.get(event.partition)
            if known is None or event.offset > known.offset:
                fetched[event.partition] = event
        elif isinstance(event, (EndOffset, ReadTo)) and event.partition in fetched:
            commit = fetched[event.partition]
            if commit.offset > event.offset:
                where = f"group {commit.group}, {commit.partition}: {commit.offset}, end {event.offset}"
                yield Finding(Anomaly.COMMIT_BEYOND_END, where)


def check_assignments(history: History) -> Iterator[Finding]:
    """A partition has one owner in a generation; generations do not go back for a member."""
    owners: dict[tuple[str, int, Partition], str] = {}
    generations: dict[tuple[str, str], int] = {}
    for event in history:
        if not isinstance(event, Assigned):
            continue
        for partition in event.partitions:
            owner = owners.setdefault((event.group, event.generation, partition), event.member)
            if owner != event.member:
                where = f"group {event.group} {event.generation}, {partition}: {owner} and {event.member}"
                yield Finding(Anomaly.DOUBLE_ASSIGNMENT, where)
        member = (event.group, event.member)
        if event.generation < generations.get(member, event.generation):
            where = f"group {event.group}, {event.member}: {event.generation} after {generations[member]}"
            yield Finding(Anomaly.GENERATION_WENT_BACK, where)
        generations[member] = event.generation


GROUP_CHECKS: Final[tuple[Check, ...]] = (check_commits, check_commits_against_ends, check_assignments)
