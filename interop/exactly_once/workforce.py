"""The worker processes: started, replaced when they end, killed, paused, doubled."""

from __future__ import annotations

import dataclasses
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from interop.exactly_once.worker import FENCED, Order
from interop.support.waiting import wait_until

_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_MODULE: Final = "interop.exactly_once.worker"


class _Place:
    """A transactional id, and the processes that have it.

    These are the last one started, and those before it.
    """

    def __init__(self, order: Order) -> None:
        self.order = order
        self.started = 0
        self.current: subprocess.Popen[bytes] | None = None
        self.zombies: list[subprocess.Popen[bytes]] = []


class Workforce:
    """Workers by their transactional ids; `keep_up` replaces those that ended."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._chance = folder, random.Random(seed)
        self._places: dict[str, _Place] = {}
        self._paused: dict[subprocess.Popen[bytes], float] = {}
        """And when each continues."""
        self._killed: set[int] = set()
        self.ends: Counter[str] = Counter()
        """How processes ended, and how often."""

    def hire(self, order: Order) -> None:
        self._places[order.transactional_id] = _Place(order)
        self._start(self._places[order.transactional_id])

    def keep_up(self) -> None:
        """Replace what ended, and let those continue whose pause is over."""
        for process, until in list(self._paused.items()):
            if time.monotonic() >= until:
                self._go_on(process)
        for place in self._places.values():
            for process in [each for each in place.zombies if each.poll() is not None]:
                self._count(process)
                place.zombies.remove(process)
            if place.current and place.current.poll() is not None:
                self._count(place.current)
                self._start(place)

    def kill_one(self) -> str:
        place = self._one()
        assert place.current is not None
        self._killed.add(place.current.pid)
        self._go_on(place.current)
        place.current.kill()
        return place.order.transactional_id

    def pause_one(self, seconds: float) -> str:
        """SIGSTOP; it continues later, and does not know that time has passed."""
        place = self._one()
        assert place.current is not None
        place.current.send_signal(signal.SIGSTOP)
        self._paused[place.current] = time.monotonic() + seconds
        return place.order.transactional_id

    def double_one(self) -> str:
        """Start a second process with the same transactional id."""
        place = self._one()
        assert place.current is not None
        place.zombies.append(place.current)
        self._start(place)
        return place.order.transactional_id

    def dismiss(self, kind: str) -> None:
        """SIGTERM to all of a kind, zombies too; they end after the transaction at work."""
        places = [place for place in self._places.values() if place.order.kind == kind]
        leaving: list[subprocess.Popen[bytes]] = []
        for place in places:
            leaving += [*place.zombies, *([place.current] if place.current else [])]
            place.current, place.zombies = None, []
        for process in leaving:
            self._go_on(process)
            process.terminate()
        try:
            wait_until(lambda: all(process.poll() is not None for process in leaving), timeout=30)
        finally:
            for process in leaving:
                if process.poll() is None:
                    process.kill()
                process.wait()
                self._count(process)

    def go_on(self) -> None:
        """Nobody is paused any more."""
        for process in list(self._paused):
            self._go_on(process)

    def output(self) -> str:
        """What the processes printed."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self._folder.glob("*.out")))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for place in self._places.values():
            for process in [*place.zombies, *([place.current] if place.current else [])]:
                if process.poll() is None:
                    process.kill()
                process.wait()

    def _one(self) -> _Place:
        return self._chance.choice([place for place in self._places.values() if place.current])

    def _start(self, place: _Place) -> None:
        place.started += 1
        name = f"{place.order.transactional_id}.{place.started}"
        order = dataclasses.replace(place.order, name=name, seed=place.order.seed + 1000 * place.started)
        with (self._folder / f"{place.order.transactional_id}.out").open("ab") as output:
            place.current = subprocess.Popen(
                [sys.executable, "-m", _MODULE, json.dumps(dataclasses.asdict(order))],
                cwd=_CHECKOUT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _go_on(self, process: subprocess.Popen[bytes]) -> None:
        if self._paused.pop(process, None) is not None and process.poll() is None:
            process.send_signal(signal.SIGCONT)

    def _count(self, process: subprocess.Popen[bytes]) -> None:
        known = {0: "stopped", -signal.SIGTERM: "stopped", FENCED: "fenced", -signal.SIGALRM: "hung"}
        status = process.returncode
        killed = process.pid in self._killed and status == -signal.SIGKILL
        self.ends["killed" if killed else known.get(status, f"ended with {status}")] += 1
