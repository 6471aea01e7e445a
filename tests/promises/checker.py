"""The checker of what Kafka promises its clients.

The simulation gives it each event as it happens, and ends at the first anomaly (tests/simulation/witness.py).
Tests of real brokers write a history down, and have it checked at the end.

What one event can show, compared with all before it, is found by the watches when that event is seen. What
only later events can show, such as whether a record that a reader did not get was there, is found by
`check_history`.

The events say what was promised: whether a producer is idempotent, whether each offset of a partition has a
record, whether a commit may arrive late, what a broker must know when it tells the end of a partition. So one
checker judges a broker alone after a power cut and a cluster whose leaders change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from tests.promises.copy_checks import COPY_CHECKS
from tests.promises.end_watch import EndWatch
from tests.promises.group_watches import AssignmentWatch, CommitWatch
from tests.promises.history import Anomaly, Event, Finding, History, Partition, Record, Sent
from tests.promises.log_checks import LOG_CHECKS
from tests.promises.pass_watch import PassWatch
from tests.promises.record_watch import RecordWatch
from tests.promises.transaction_checks import TRANSACTION_CHECKS


def ignore(finding: Finding) -> None:
    """Do nothing more about an anomaly."""


class Checker:
    """What clients saw so far, and every anomaly in it."""

    def __init__(self, found: Callable[[Finding], None] = ignore) -> None:
        """Call `found` with each anomaly, once."""
        self.findings: dict[Finding, None] = {}
        self._found = found
        self._history: History = []
        sent: dict[Record, Sent] = {}
        self._ends = EndWatch(sent, self._report)
        self._watches: dict[type[Event], list[Callable[[Any], None]]] = defaultdict(list)
        for watch in (
            RecordWatch(sent, self._report),
            self._ends,
            PassWatch(self._report),
            CommitWatch(self._report),
            AssignmentWatch(self._report),
        ):
            for kind, look in watch.looks.items():
                self._watches[kind].append(look)

    def see(self, event: Event) -> None:
        """Take in the next event."""
        self._history.append(event)
        for look in self._watches[type(event)]:
            look(event)

    def known_end(self, partition: Partition) -> int:
        """The offset that a partition is known to reach, though not every answer may tell it yet."""
        return self._ends.known_end(partition)

    def check_history(self) -> None:
        """Find what only the whole history shows."""
        for check_one in (*LOG_CHECKS, *TRANSACTION_CHECKS, *COPY_CHECKS):
            for finding in check_one(self._history):
                self._add(finding)

    def _report(self, anomaly: Anomaly, where: str) -> None:
        self._add(Finding(anomaly, where))

    def _add(self, finding: Finding) -> None:
        if finding not in self.findings:
            self.findings[finding] = None
            self._found(finding)


def check(history: Iterable[Event]) -> list[Finding]:
    """Every anomaly of a history, none twice."""
    checker = Checker()
    for event in history:
        checker.see(event)
    checker.check_history()
    return list(checker.findings)
