"""A relay in a thread of its own, whose exchanges tests read."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kafkapy.trace.exchange import Exchange
from kafkapy.trace.lines import Filters, Lines
from kafkapy.trace.relay import Relay


@dataclass
class Traced:
    """What a relay has seen."""

    address: str = ""
    exchanges: list[Exchange] = field(default_factory=list)

    def lines(self, filters: Filters | None = None, *, full: bool = False) -> str:
        """What is printed of the exchanges."""
        import click

        printed: list[str] = []
        lines = Lines(filters or Filters(), full=full, write=printed.append)
        for exchange in list(self.exchanges):
            lines.show(exchange)
        return click.unstyle("".join(printed))

    def until(self, is_there: Callable[[], bool], seconds: float = 30) -> None:
        """Wait for a condition."""
        deadline = time.monotonic() + seconds
        while not is_there():
            assert time.monotonic() < deadline, self.lines()
            time.sleep(0.01)

    def until_noted(self, text: str) -> None:
        """Wait until a note has the text."""
        self.until(lambda: any(text in exchange.note for exchange in list(self.exchanges)))


@contextmanager
def relaying(to: str) -> Iterator[Traced]:
    """Relay to a broker while the block runs."""
    host, _, port = to.rpartition(":")
    traced = Traced()
    started = threading.Event()
    stop: Callable[[], object] = started.clear

    async def run() -> None:
        nonlocal stop
        stopping = asyncio.Event()
        relay = Relay(("127.0.0.1", 0), (host, int(port)), traced.exchanges.append)
        traced.address = await relay.start()
        loop = asyncio.get_running_loop()
        stop = lambda: loop.call_soon_threadsafe(stopping.set)  # noqa: E731
        started.set()
        await stopping.wait()
        await relay.stop()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        assert started.wait(10)
        yield traced
    finally:
        stop()
        thread.join(10)
