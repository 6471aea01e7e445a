"""The threads, timers and waiters of a broker.

Everything runs on one event loop. Blocking work runs in threads, in one of four ways. Syncs use the threads
of their log directory (replicas/flusher.py). Long validation uses threads that connections share fairly
(loop/validation.py). Work whose cost clients choose, such as regular expressions and target assignments,
uses the pool of `costly`. All other work uses the pool of `blocking`. So an acknowledgement waits for its own
disk, and for no other blocking work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, NamedTuple, ParamSpec, TypeVar

from kafkapy.broker.start import Start
from kafkapy.loop.cold_reads import THREADS, ColdReads
from kafkapy.loop.timers import Timers
from kafkapy.loop.turns import Turns
from kafkapy.loop.validation import Validation, validation_threads
from kafkapy.loop.waiters import Waiters
from kafkapy.network import handshakes
from kafkapy.network.handshakes import Handshakes

COSTLY_THREADS: Final = 2
"""The threads for work whose cost clients choose."""

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)


class Threads:
    """The threads for work that blocks, and those for work whose cost clients choose."""

    def __init__(self, start: Start) -> None:
        """Start the threads.

        Raises:
            RuntimeError: they cannot be started.
        """
        self._config, self._machine = start.config, start.machine
        self._count: int = self._config["background.threads"]
        self._blocking = self._machine.running_pool(self._count, "kafkapy")
        start.started.callback(lambda: self._blocking.shutdown())
        self._config.on_change(self._resize)
        self._costly = self._machine.running_pool(COSTLY_THREADS, "kafkapy-costly")
        start.started.callback(self._costly.shutdown)

    async def blocking(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `call` in a worker thread: the one place where blocking work leaves the loop."""
        return await _run(self._blocking, lambda: call(*args, **kwargs))

    async def costly(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `call`, whose cost clients choose, in one of the threads for such work.

        So it keeps nobody else waiting: not the broker's own work, nor requests that read the disk.
        """
        return await _run(self._costly, lambda: call(*args, **kwargs))

    def _resize(self) -> None:
        """Use background.threads threads for new work, if they can be started."""
        wanted: int = self._config["background.threads"]
        if wanted == self._count:
            return
        try:
            pool = self._machine.running_pool(wanted, "kafkapy")
        except RuntimeError as error:
            logger.error("background.threads stays %d: %s", self._count, error)
            return
        # The old threads finish their present and queued work.
        self._blocking.shutdown(wait=False)
        self._blocking, self._count = pool, wanted


def _run(pool: Executor, call: Callable[[], T]) -> asyncio.Future[T]:
    return asyncio.get_running_loop().run_in_executor(pool, call)


class Workers(NamedTuple):
    """What carries the work of a broker."""

    threads: Threads
    validation: Validation
    turns: Turns
    timers: Timers
    waiters: Waiters
    cold_reads: ColdReads
    handshakes: Handshakes


def start_workers(start: Start) -> Workers:
    """Start the worker threads and timers.

    Raises:
        RuntimeError: the threads cannot be started.
    """
    loop, machine, started = asyncio.get_running_loop(), start.machine, start.started
    threads = Threads(start)
    count = validation_threads()
    validation = Validation(machine.running_pool(count, "kafkapy-validation"), count)
    started.callback(validation.close)
    of_requests = Timers(loop)
    started.callback(of_requests.close)
    timers = machine.clock.timers(loop, of_requests)
    started.callback(timers.close)
    cold_reads = ColdReads(loop, machine.pool(THREADS, "kafkapy-reader"), machine.pool(1, "kafkapy-indexes"))
    started.callback(cold_reads.close)
    shaking = Handshakes(loop, machine.pool(handshakes.THREADS, "kafkapy-tls"))
    started.callback(shaking.close)
    return Workers(threads, validation, Turns(loop), timers, Waiters(loop, of_requests), cold_reads, shaking)
