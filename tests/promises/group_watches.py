"""Watches over what Kafka promises of committed offsets and assignments."""

from __future__ import annotations

from typing import Final

from tests.promises.history import (
    Anomaly,
    Assigned,
    CommitAcked,
    CommitFetched,
    CommitSent,
    Looks,
    Partition,
    Report,
)

NONE: Final = -1


class _Commits:
    """The commits of a group for a partition, so far."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.settled = 0
        """Commits before this index in `sent` have arrived, or are superseded by one that has."""
        self.late: list[int] = []
        """Commits without an answer, which may arrive even after later ones."""
        self.arrived: int | None = None
        """The newest offset known to be committed."""
        self.by_fetch = False
        """A fetch showed it; no acknowledgement did."""

    def send(self, event: CommitSent) -> None:
        """A commit is on its way."""
        self.sent.append(event.offset)
        if event.may_be_late:
            self.late.append(event.offset)

    def arrive(self, offset: int, *, by_fetch: bool) -> None:
        """The newest unsettled commit of `offset` took place, or a late one."""
        unsettled = [index for index in range(self.settled, len(self.sent)) if self.sent[index] == offset]
        if unsettled:
            self.settled = unsettled[-1] + 1
        elif offset != self.arrived and offset not in self.late:
            return
        if offset == self.arrived and by_fetch:
            return  # a late commit of this offset may still be on its way
        if offset in self.late:
            self.late.remove(offset)
        self.arrived, self.by_fetch = offset, by_fetch

    def allowed(self) -> set[int]:
        """The offsets that a fetch may return."""
        if self.arrived is None:
            return {NONE, *self.sent}
        return {self.arrived, *self.sent[self.settled :], *self.late}


class CommitWatch:
    """A fetch returns the newest commit that is known, or one that was sent after it."""

    def __init__(self, report: Report) -> None:
        self.looks: Final[Looks] = {
            CommitSent: self._sent,
            CommitAcked: self._acked,
            CommitFetched: self._fetched,
        }
        self._report = report
        self._groups: dict[tuple[str, Partition], _Commits] = {}

    def _of(self, event: CommitSent | CommitAcked | CommitFetched) -> _Commits:
        return self._groups.setdefault((event.group, event.partition), _Commits())

    def _sent(self, event: CommitSent) -> None:
        self._of(event).send(event)

    def _acked(self, event: CommitAcked) -> None:
        commits = self._of(event)
        if event.offset not in commits.sent:
            where = f"group {event.group}, {event.partition}: {event.offset} was acknowledged"
            self._report(Anomaly.PHANTOM_COMMIT, where)
        commits.arrive(event.offset, by_fetch=False)

    def _fetched(self, event: CommitFetched) -> None:
        commits = self._of(event)
        if event.offset in commits.allowed():
            commits.arrive(event.offset, by_fetch=True)
            return
        where = f"group {event.group}, {event.partition}: {event.offset}, expected {commits.arrived}"
        if event.offset != NONE and event.offset not in commits.sent:
            self._report(Anomaly.PHANTOM_COMMIT, where)
        elif commits.by_fetch:
            self._report(Anomaly.COMMIT_WENT_BACK, where)
        else:
            self._report(Anomaly.COMMIT_LOST, where)


class AssignmentWatch:
    """A partition has one owner in a generation; generations do not go back for a member."""

    def __init__(self, report: Report) -> None:
        self.looks: Final[Looks] = {Assigned: self._assigned}
        self._report = report
        self._owners: dict[tuple[str, int, Partition], str] = {}
        self._generations: dict[tuple[str, str], int] = {}

    def _assigned(self, event: Assigned) -> None:
        for partition in event.partitions:
            owner = self._owners.setdefault((event.group, event.generation, partition), event.member)
            if owner != event.member:
                where = f"group {event.group} {event.generation}, {partition}: {owner} and {event.member}"
                self._report(Anomaly.DOUBLE_ASSIGNMENT, where)
        member = event.group, event.member
        known = self._generations.get(member, event.generation)
        if event.generation < known:
            where = f"group {event.group}, {event.member}: {event.generation} after {known}"
            self._report(Anomaly.GENERATION_WENT_BACK, where)
        self._generations[member] = event.generation
