"""Brokers of which each has the same seeded data, for tests: the next one is always ready.

The first broker is filled, and a snapshot of it taken. Each other one starts with the snapshot, in a thread,
while the one before it is in use: a test waits neither for the start of its broker nor for the stop of the
last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from kafkapy.inprocess import Broker, ClockName
from kafkapy.snapshot import Snapshot

Seed = Callable[[Broker], object] | Snapshot | str | Path
"""Fills a broker; or a snapshot, or the path of one or of an archive of one."""


class SeededBrokers:
    """Brokers with the same settings and the same data.

    Args:
        seed: what fills them.
        config: as that of `Broker`.
        clock: as that of `Broker`.
    """

    def __init__(self, seed: Seed, config: Mapping[str, object], clock: ClockName = "real") -> None:
        """Fill the first broker.

        Raises:
            SnapshotError: the path is that of no snapshot.
            ConfigError, StartError: as `Broker.start`.
            Exception: what `seed` raises.
        """
        self.snapshot = _snapshot(seed, config)
        self._is_given = isinstance(seed, Snapshot)
        self._config, self._clock = config, clock
        self._next: Future[Broker] | None = None
        self._stops: list[Future[None]] = []
        self._thread: ThreadPoolExecutor | None = None

    def take(self) -> Broker:
        """A running broker; the next one begins to start.

        Raises:
            StartError: it could not be started.
        """
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "kafkapy-spare")
        broker = self._start() if self._next is None else self._next.result()
        self._next = self._thread.submit(self._start)
        return broker

    def give_back(self, broker: Broker) -> None:
        """Have a broker stopped, and its data deleted.

        Raises:
            Exception: the one before could not be stopped.
        """
        assert self._thread is not None
        for stop in [each for each in self._stops if each.done()]:
            self._stops.remove(stop)
            stop.result()
        self._stops.append(self._thread.submit(broker.__exit__, None, None, None))

    def rest(self) -> None:
        """Stop the broker that nobody has taken; `take` still works."""
        if self._thread is None:
            return
        thread, spare, stops = self._thread, self._next, self._stops
        self._thread, self._next, self._stops = None, None, []
        try:
            if spare is not None:
                spare.result().__exit__(None, None, None)
            for stop in stops:
                stop.result()
        finally:
            thread.shutdown()

    def close(self) -> None:
        """Stop what runs, and remove the snapshot, unless it was given."""
        try:
            self.rest()
        finally:
            if not self._is_given:
                self.snapshot.close()

    def _start(self) -> Broker:
        broker = Broker(config=self._config, snapshot=self.snapshot, clock=self._clock)
        broker.start()
        return broker


def _snapshot(seed: Seed, config: Mapping[str, object]) -> Snapshot:
    if isinstance(seed, Snapshot):
        return seed
    if isinstance(seed, str | Path):
        return Snapshot.at(seed)
    with Broker(config=config) as broker:
        seed(broker)
        return broker.snapshot()
