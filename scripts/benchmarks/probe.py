"""How long a broker's event loop stalls."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from scripts.benchmarks.wire import API_VERSIONS, ask

_INTERVAL_SECONDS = 0.002


@contextmanager
def probing(address: tuple[str, int]) -> Iterator[list[float]]:
    """Ask for ApiVersions every two milliseconds; how long each answer took.

    The request is cheap: it waits as long as the event loop is busy. The longest answer is the longest stall.
    """
    times: list[float] = []
    stop = threading.Event()

    def probe(connection: socket.socket) -> None:
        while not stop.wait(_INTERVAL_SECONDS):
            start = time.perf_counter()
            ask(connection, API_VERSIONS)
            times.append(time.perf_counter() - start)

    with socket.create_connection(address, timeout=120) as connection:
        thread = threading.Thread(target=probe, args=(connection,), daemon=True)
        thread.start()
        try:
            yield times
        finally:
            stop.set()
            thread.join()
