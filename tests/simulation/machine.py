"""The machine of a simulated broker.

Its threads are callbacks, and its disk and network fail.

The work of a thread is done at once, as one callback, some time after it was given; its end is told some time
later. So other callbacks come before, in between and after, and a kill or a power cut does too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from kafkapy.broker.machine import Machine
from kafkapy.configs.config import BrokerConfig
from kafkapy.loop.clock import Clock
from kafkapy.loop.cold_reads import ColdReads
from kafkapy.loop.validation import Validation
from kafkapy.metadata.store import MetadataStore
from kafkapy.network.handshakes import Handshakes
from kafkapy.network.server import Server
from kafkapy.replicas.flush_threads import FlushThreads
from kafkapy.replicas.flusher import Flush
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.disk.sync_queue import NO_FILE
from tests.simulation.determinism import START_MS
from tests.simulation.disk import SimulatedDisk
from tests.simulation.metadata_tree import MemoryStore
from tests.simulation.network import Network, SimulatedServer
from tests.simulation.world import VirtualLoop, World

P = ParamSpec("P")
T = TypeVar("T")


class SimulatedClock(Clock):
    """A clock that is wrong by some milliseconds."""

    def __init__(self, world: World, wrong_ms: int) -> None:
        self._world = world
        self._wrong_ms = wrong_ms

    def now_ms(self) -> int:
        return START_MS + self._wrong_ms + int(self._world.now * 1000)

    def monotonic(self) -> float:
        return self._world.now


class SimulatedMachine(Machine):
    """What one process of a broker gets from outside."""

    def __init__(
        self,
        loop: VirtualLoop,
        host: str,
        disk: SimulatedDisk,
        network: Network,
        open_session: Callable[[], MemoryStore],
        *,
        clock_is_wrong_ms: int = 0,
        sync_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`sync_seconds` says how much longer a sync of the disk may take now."""
        self.clock = SimulatedClock(loop.world, clock_is_wrong_ms)
        self.files = disk
        self.flush_threads = partial(SimulatedFlushThreads, loop, sync_seconds)  # type: ignore[assignment]
        self._loop = loop
        self._host = host
        self._network = network
        self._open_session = open_session

    def pool(self, threads: int, name: str) -> Executor:
        return SimulatedPool(self._loop)

    def running_pool(self, threads: int, name: str) -> Executor:
        return SimulatedPool(self._loop)

    def server(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        validation: Validation,
        cold_reads: ColdReads,
        handshakes: Handshakes,
    ) -> Server:
        return SimulatedServer(self._network, self._host, config, loop, validation, cold_reads, handshakes)

    async def open_store(self, path: Path, *, sync: bool, directory: LogDirectory | None) -> MetadataStore:
        return self._open_session()


class SimulatedPool(Executor):
    """A pool of any number of threads.

    What a thread gives to another one is done at once: it may wait for it.
    """

    _is_in_thread = False

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()

        def run() -> None:
            result: Any = None
            error: BaseException | None = None
            was_in_thread, SimulatedPool._is_in_thread = SimulatedPool._is_in_thread, True
            try:
                result = call(*args, **kwargs)
            except BaseException as failure:
                error = failure
            finally:
                SimulatedPool._is_in_thread = was_in_thread
            if was_in_thread:
                tell(result, error)
            else:
                self._loop.call_later(thread_delay(self._loop.world), tell, result, error)

        def tell(result: Any, error: BaseException | None) -> None:
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        if SimulatedPool._is_in_thread:
            run()
        else:
            self._loop.call_later(thread_delay(self._loop.world), run)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing: work that was given is done nevertheless."""


class SimulatedFlushThreads(FlushThreads[Flush]):
    """Flush threads that are callbacks."""

    def __init__(
        self,
        loop: VirtualLoop,
        sync_seconds: Callable[[], float],
        run: Callable[[Flush], None],
        ended: Callable[[Flush], None],
    ) -> None:
        super().__init__(run, ended)
        self._sync_seconds = sync_seconds
        self._virtual = loop
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def start_one(self) -> None:
        self._count += 1

    def put(self, flush: Flush, fd: int = NO_FILE) -> None:
        world = self._virtual.world
        seconds = thread_delay(world) + self._sync_seconds() * world.chance.random()
        self._virtual.call_later(seconds, self._flush, flush)

    def close(self) -> None:
        self._count = 0

    def _flush(self, flush: Flush) -> None:
        self._run(flush)
        self._virtual.call_later(thread_delay(self._virtual.world), self._ended, flush)


def thread_delay(world: World) -> float:
    """The seconds until a thread gets its work, or its end is heard: mostly short."""
    return 0.0001 + 0.02 * world.chance.random() ** 4
