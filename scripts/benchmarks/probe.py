"""How long a broker's event loop stalls.

A client with a cheap request measures it: it waits as long as the event loop is busy.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from scripts.benchmarks.wire import API_VERSIONS, ask

INTERVAL_SECONDS: Final = 0.002


class Probe:
    """Asks for ApiVersions, over one connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._connection = socket.create_connection(address, timeout=120)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self) -> float:
        """The seconds until the answer."""
        start = time.perf_counter()
        ask(self._connection, API_VERSIONS)
        return time.perf_counter() - start

    def close(self) -> None:
        self._connection.close()


class Probing:
    """A thread that asks all the time."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.longest = 0.0
        self._probe = Probe(address)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL_SECONDS):
            self.longest = max(self.longest, self._probe.ask())

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._probe.close()


@contextmanager
def probing(address: tuple[str, int]) -> Iterator[Probing]:
    """Ask meanwhile."""
    running = Probing(address)
    try:
        yield running
    finally:
        running.close()
