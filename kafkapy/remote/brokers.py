"""The brokers that are served: one alone, or those of a cluster."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from kafkapy.cluster import Cluster

if TYPE_CHECKING:
    from kafkapy.faults.fault import Fault
    from kafkapy.faults.faults import Faults
    from kafkapy.inprocess import Broker
    from kafkapy.observe.clock import TestClock

ACTIONS: Final = ("start", "stop", "kill", "pause", "resume", "cut_off", "heal")
"""Methods of `Cluster`; a broker alone has all but the last two."""
_AT_ONCE: Final = ("resume", "cut_off", "heal")
"""Those that wait for nothing; a start or a stop under way may wait for them."""


class Brokers:
    """The brokers that a command has beside it; any thread may use them.

    Args:
        brokers: they are running.
    """

    def __init__(self, brokers: Broker | Cluster) -> None:
        self._brokers = brokers
        self._turn = threading.Lock()
        """Held while a broker begins, ends or comes to a halt."""
        self.numbers: Final = (
            tuple(sorted(brokers)) if isinstance(brokers, Cluster) else (brokers.core.node_id,)
        )
        """Their ids."""

    @property
    def clock(self) -> TestClock:
        """The clock of all of them.

        Raises:
            RuntimeError: it cannot be advanced.
        """
        try:
            return self._brokers.clock
        except RuntimeError:
            raise RuntimeError("the brokers have the machine's clock: see kafkapy run --clock") from None

    def faults(self, number: int | None) -> Faults[Fault]:
        """The faults of a broker, or those of all.

        Raises:
            ValueError: it does not run, and is one of a cluster.
        """
        if number is None or not isinstance(self._brokers, Cluster):
            return self._brokers.faults
        try:
            return self._brokers[number].faults
        except KeyError:
            raise ValueError(f"broker {number} does not run: start it first") from None

    def do(self, number: int, action: str) -> None:
        """Do one of ACTIONS to a broker, and return when it is done.

        Raises:
            ValueError: there is no such action, or not for a broker alone.
            RuntimeError: a broker that does not run cannot be paused.
            StartError, ConfigError: it cannot be started.
        """
        brokers = self._brokers
        if action not in ACTIONS:
            raise ValueError(f"do={action}: expected {', '.join(ACTIONS)}")
        if action == "pause" and self.state(number) == "stopped":
            raise RuntimeError(f"broker {number} does not run: start it first")
        with nullcontext() if action in _AT_ONCE else self._turn:
            if isinstance(brokers, Cluster):
                getattr(brokers, action)(number)
            elif not hasattr(brokers, action):
                raise ValueError(f"do={action}: a broker alone has no others; see kafkapy run --brokers")
            elif action != "start" or not brokers.is_running:
                getattr(brokers, action)()

    def state(self, number: int) -> str:
        """Whether a broker is `running`, `paused` or `stopped`."""
        broker = self._brokers
        if isinstance(broker, Cluster):
            try:
                broker = broker[number]
            except KeyError:
                return "stopped"
        if broker.is_paused:
            return "paused"
        return "running" if broker.is_running else "stopped"

    def cut_off_from(self, number: int) -> list[int]:
        """The brokers that a broker cannot reach."""
        return sorted(self._brokers.cut_off_from(number)) if isinstance(self._brokers, Cluster) else []
