"""Chooses faults by a seed: one after another, or many at once."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from interop.cluster.faults import Fault, draws
from interop.cluster.scene import BROKERS, Scene

_AT_ONCE: Final = 4
_SECONDS: Final = (3.0, 12.0)
"""How long a fault lasts: shorter or longer than a session with ZooKeeper (4 s)."""
_ALONE_SECONDS: Final = 10.0
"""How long one lasts that is there alone: by then, other brokers must lead."""


class Happened(NamedTuple):
    """A fault that was there alone, and when."""

    name: str
    leaves_majority: bool
    was_replaced: bool
    """Whether the broker that lost its session, if any, led no partition any more when the fault ended."""
    start: float
    end: float
    whole: float
    """When all replicas were in sync again."""


class Nemesis:
    """Does what it wants with a scene, and tells `log`."""

    def __init__(self, scene: Scene, seed: int, log: Callable[[str], None]) -> None:
        self._scene = scene
        self._chance = random.Random(seed)
        self._log = log
        self._active: dict[Fault, float] = {}
        """And when each is to be healed."""
        self._never = threading.Event()
        self.counts: Counter[str] = Counter()
        """How many faults there were of each kind."""
        self.died: list[str] = []
        """Brokers that ended by themselves."""

    def one_after_another(self, seconds: float, wait_until_whole: Callable[[], None]) -> list[Happened]:
        """Each fault alone; after each, the cluster is whole again before the next."""
        happened = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            fault = self._draw()
            leaves_majority = fault.leaves_majority and fault.isolated != self._scene.controller()
            began = time.monotonic()
            self._start(fault, _ALONE_SECONDS)
            self._never.wait(_ALONE_SECONDS)
            lost = fault.ends_session_of
            was_replaced = lost is None or lost not in self._scene.leaders()
            ended = time.monotonic()
            self.heal_all()
            wait_until_whole()
            whole = time.monotonic()
            self._log(f"whole again {whole - ended:.1f} s after")
            happened.append(Happened(str(fault), leaves_majority, was_replaced, began, ended, whole))
        return happened

    def all_at_once(self, seconds: float) -> None:
        """Up to four faults at a time, which come and go."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            for fault in [each for each, until in self._active.items() if until <= now]:
                self._heal(fault)
            if len(self._active) < _AT_ONCE:
                fault = self._draw()
                if not any(fault.parts & other.parts for other in self._active):
                    self._start(fault, self._chance.uniform(*_SECONDS))
            self._never.wait(self._chance.uniform(0.2, 3))

    def heal_all(self) -> None:
        """Heal every fault, and start what has ended by itself."""
        for fault in list(self._active):
            self._heal(fault)
        if self._scene.network is not None:
            self._scene.network.restore()
        for number in BROKERS:
            broker = self._scene.brokers[number]
            if not broker.running:
                self.died.append(
                    f"broker {number} ended with {broker.process.returncode}:\n{broker.output(8)}"
                )
                self._log(self.died[-1])
                broker.launch()

    def _draw(self) -> Fault:
        draw = self._chance.choice(draws(self._scene))
        return draw(self._scene, self._chance, self._chance.choice(BROKERS))

    def _start(self, fault: Fault, seconds: float) -> None:
        self._log(f"{fault}, for {seconds:.1f} s")
        fault.start()
        self.counts[type(fault).__name__] += 1
        self._active[fault] = time.monotonic() + seconds

    def _heal(self, fault: Fault) -> None:
        del self._active[fault]
        fault.heal()
        self._log(f"healed: {fault}")
