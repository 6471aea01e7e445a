"""Clients that ask a cluster for something every 20 ms while a broker goes away."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Self

from interop.support.waiting import wait_until
from scripts.benchmarks.cluster.target import ClusterTarget
from tests.servers.server_process import ServerProcess

INTERVAL_SECONDS: Final = 0.02


class Gap(NamedTuple):
    """Two answers, and none between them."""

    seconds: float
    end: float


def longest_gap(times: Sequence[float], since: float) -> Gap:
    """The longest time between two neighbours, the later of them not before `since`."""
    gaps = (Gap(after - before, after) for before, after in pairwise(times) if after >= since)
    return max(gaps, default=Gap(0, since))


class SteadyClient(ABC):
    """A thread that asks until the block ends.

    `answers` are the times of each of its series of answers.
    """

    def __init__(self, series: int) -> None:
        self.answers: list[list[float]] = [[] for _ in range(series)]
        self.problem: Exception | None = None
        """What has ended it."""
        self.stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self._thread.join()
        self.close()

    def _run(self) -> None:
        while not self.stopped.is_set():
            try:
                self.ask()
            except Exception as problem:
                self.problem = problem
                return

    @abstractmethod
    def ask(self) -> None:
        """Ask once, note the time of the answers, and rest."""

    @abstractmethod
    def close(self) -> None:
        """Close what it has opened."""

    def wait_for_more(self, answers: int) -> None:
        """Wait for so many more answers of each series; raises what ended the client."""
        wanted = [len(times) + answers for times in self.answers]

        def have_come() -> bool:
            return all(len(times) >= count for times, count in zip(self.answers, wanted, strict=True))

        wait_until(lambda: have_come() or self.problem, timeout=120)
        if self.problem:
            raise self.problem

    def longest_gap(self, series: Iterable[int], since: float) -> Gap:
        """That of the series in which it is longest."""
        return max(longest_gap(self.answers[number], since) for number in series)


def faults(target: ClusterTarget, role: str) -> Iterator[tuple[str, int, Callable[[ServerProcess], object]]]:
    """Stop and kill a broker in its role.

    First one that is not the controller, then one that is.

    Yields the fault's name, the broker's id and the fault, which is the caller's to do. The broker is started
    again after that.
    """
    for signal, fault in (("SIGTERM", ServerProcess.stop), ("SIGKILL", ServerProcess.kill)):
        for victims, choose in ((role, target.another), ("the controller", target.controller)):
            victim = choose()
            yield f"{signal} of {victims}", victim, fault
            target.restore(victim)
