"""A bank and its copiers at work while everything around them fails, and the verdict.

Banks write a ledger in transactions, copiers copy it in transactions (worker.py), all through a proxy that
delays, doubles and loses their frames (frame_proxy.py). By a seed the broker is killed, and workers are
killed, paused for longer than a transaction may last, and doubled. When enough is written, everything is
healed, the banks stop, and the copiers copy the rest. Then the history of all (tests/promises) must have no
anomaly, the ledger and its copies must say the same of each account, and nothing may be gained.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from interop.exactly_once.auditor import Auditor
from interop.exactly_once.journal import SUFFIX, Journal, JournaledHistory, merged
from interop.exactly_once.stage import Stage
from interop.exactly_once.worker import COPIES, GROUP, LEDGER, Order, amounts
from interop.exactly_once.workforce import Workforce
from interop.support.known_topics import create_topics
from interop.support.waiting import wait_until
from tests.crash.load import Committer, read_pass
from tests.promises.checker import check
from tests.promises.history import Finding, TransactionEnded

PARTITIONS: Final = 4
BANKS: Final = 2
COPIERS: Final = 3
FINISH_SECONDS: Final = 120.0
_PAUSE_SECONDS: Final = (2.0, 8.0)
"""Shorter or longer than a session of a group (3 s) and a transaction (5 s) may last."""
_PATIENCE_SECONDS: Final = 5.0


@dataclass
class Result:
    """What was done, and what was found."""

    seed: int
    kills: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    frames: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    committed: int = 0
    """Transactions whose producer was told so."""
    aborted: int = 0
    records: int = 0
    """Of the ledger, as read_committed readers have it."""
    copies: int = 0
    copies_under_faults: int = 0
    """Those that were read before everything was healed."""
    findings: list[Finding] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.records} records and {self.copies} copies, "
            f"{self.copies_under_faults} of them under faults, "
            f"{self.committed} transactions committed and {self.aborted} aborted, {self.seconds:.0f} s\n"
            f"faults {dict(self.faults)}, workers {dict(self.ends)}\nframes {dict(self.frames)}\n"
            f"{len(self.findings)} anomalies, problems: {self.problems}"
        )


class Run:
    """One run on a stage."""

    def __init__(self, stage: Stage, folder: Path, seed: int, log: Callable[[str], None]) -> None:
        self._stage, self._folder, self._log = stage, folder, log
        self._chance = random.Random(seed)
        self._result = Result(seed)
        self._partitions = [(topic, index) for topic in (LEDGER, COPIES) for index in range(PARTITIONS)]
        folder.mkdir(parents=True)
        self._workforce = Workforce(folder, seed)
        journal = Journal(folder / f"auditor{SUFFIX}")
        self._auditor = Auditor(stage.servers, journal, self._partitions, offsets=len(stage.brokers) == 1)

    def judge(self, *, kills: int, records: int, transaction_records: int, pause: float) -> Result:
        """Kill the broker `kills` times while records are written, and judge what came of it.

        At least `records` records are written. A transaction has `transaction_records` at
        most. The banks pause for `pause` seconds after each, so that the copiers can keep up.
        """
        began = time.monotonic()
        servers, replicas = self._stage.servers, len(self._stage.brokers)
        create_topics(servers, (LEDGER, COPIES), PARTITIONS, replicas, {"retention.ms": "-1"})
        self._auditor.start()
        with self._workforce:
            self._hire(transaction_records, pause)
            self._disturb(kills, records)
            self._heal()
        self._auditor.finish()
        self._read_once_more()
        self._verdict()
        self._result.seconds = time.monotonic() - began
        return self._result

    def _hire(self, records: int, pause: float) -> None:
        names = [("bank", number) for number in range(BANKS)] + [
            ("copier", number) for number in range(COPIERS)
        ]
        for index, (kind, number) in enumerate(names):
            self._workforce.hire(
                Order(
                    kind=kind,
                    name="",
                    transactional_id=f"{kind}-{number}",
                    servers=self._stage.servers,
                    folder=str(self._folder),
                    seed=self._result.seed + index,
                    partitions=PARTITIONS,
                    records=records,
                    aborted=0.15,
                    pause=pause if kind == "bank" else 0.0,
                )
            )

    def _disturb(self, kills: int, records: int) -> None:
        faults: dict[str, Callable[[], str]] = {
            "broker killed": lambda: self._stage.restart_one(self._chance),
            "worker killed": self._workforce.kill_one,
            "worker paused": lambda: self._workforce.pause_one(self._chance.uniform(*_PAUSE_SECONDS)),
            "worker doubled": self._workforce.double_one,
        }
        if not kills:
            del faults["broker killed"]
        coming = list(faults)
        self._chance.shuffle(coming)
        pause = 2.0
        while self._result.faults["broker killed"] < kills or self._auditor.count(LEDGER) < records or coming:
            wait_until(self._looks_after(pause), timeout=60)
            name = coming.pop() if coming else self._chance.choice([*faults, next(iter(faults))])
            self._result.faults[name] += 1
            copies = self._auditor.count(COPIES)
            self._log(f"{copies} copies; {name} {faults[name]()}".rstrip())
            pause = self._chance.uniform(0.3, 2.5)

    def _looks_after(self, pause: float) -> Callable[[], bool]:
        """Whether the next fault may come: after a pause, in which something was copied.

        Without copies it comes, too, a while later. If it always came at once, copiers would do nothing but
        begin again, and copy nearly all in the end, when everything is healed.
        """
        began, copies = time.monotonic(), self._auditor.count(COPIES)

        def is_due() -> bool:
            self._workforce.keep_up()
            passed = time.monotonic() - began
            copied = self._auditor.count(COPIES) > copies
            return passed >= (pause if copied else pause + _PATIENCE_SECONDS)

        return is_due

    def _heal(self) -> None:
        """Let the banks stop and the copiers finish; those that were killed come back for it."""
        self._result.copies_under_faults = self._auditor.count(COPIES)
        self._stage.quiet()
        self._workforce.go_on()
        self._workforce.dismiss("bank")
        self._log(f"healed; {self._auditor.count(LEDGER)} records, {self._auditor.count(COPIES)} copies")
        try:
            wait_until(self._is_finished, timeout=FINISH_SECONDS)
        except AssertionError:
            self._result.problems.append(f"not finished in {FINISH_SECONDS:g} s: {self._auditor.state()}")
        self._workforce.dismiss("copier")
        self._log(f"finished; {self._auditor.count(LEDGER)} records, {self._auditor.count(COPIES)} copies")

    def _is_finished(self) -> bool:
        self._workforce.keep_up()
        return self._auditor.has_read_all() and self._auditor.count(COPIES) >= self._auditor.count(LEDGER)

    def _read_once_more(self) -> None:
        """By librdkafka; before that, what the group has committed."""
        servers = self._stage.servers
        news = JournaledHistory(Journal(self._folder / f"last{SUFFIX}"))
        committer = Committer(GROUP, servers, news)
        for index in range(PARTITIONS):
            committer.fetch((LEDGER, index))
        committer.close()
        starts = dict.fromkeys(self._partitions, 0)
        read_pass(servers, "last, committed", starts, news, committed=True)
        read_pass(servers, "last, uncommitted", starts, news)

    def _verdict(self) -> None:
        result, history = self._result, merged(self._folder)
        result.findings = check(history)
        result.problems += [*self._auditor.problems, *self._sums()]
        result.problems += [f"a worker {end}" for end in self._workforce.ends if end.startswith("ended with")]
        result.frames, result.ends = self._stage.counts, self._workforce.ends
        result.records, result.copies = self._auditor.count(LEDGER), self._auditor.count(COPIES)
        ended = [event for event in history if isinstance(event, TransactionEnded)]
        result.committed = sum(event.committed for event in ended)
        result.aborted = len(ended) - result.committed

    def _sums(self) -> list[str]:
        """What is wrong with the money."""
        accounts: dict[str, Counter[int]] = {topic: Counter() for topic in (LEDGER, COPIES)}
        for (topic, _), records in self._auditor.records.items():
            for record in records:
                account, amount = amounts(record.value or b"")
                accounts[topic][account] += amount
        problems = [
            f"{topic}: {sum(each.values())} is gained" for topic, each in accounts.items() if each.total()
        ]
        if accounts[LEDGER] != accounts[COPIES]:
            problems.append("the ledger and its copies do not say the same of each account")
        return problems
