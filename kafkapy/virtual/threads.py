"""Threads in virtual time: their work is done at once, as one callback.

It is done some time after it was given, and its end is told some time later. So other callbacks come before,
in between and after, and a kill or a power cut does too.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from kafkapy.replicas.flush_threads import FlushThreads
from kafkapy.replicas.flusher import Flush
from kafkapy.storage.disk.sync_queue import NO_FILE

if TYPE_CHECKING:
    from kafkapy.virtual.loop import VirtualLoop
    from kafkapy.virtual.world import World

P = ParamSpec("P")
T = TypeVar("T")


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
            slept = self._loop.slept
            try:
                result = call(*args, **kwargs)
            except BaseException as failure:
                error = failure
            finally:
                SimulatedPool._is_in_thread = was_in_thread
            if was_in_thread:
                tell(result, error)
            else:
                seconds = thread_delay(self._loop.world) + self._loop.take_slept(slept)
                self._loop.call_later(seconds, tell, result, error)

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
        before = self._virtual.slept
        self._run(flush)
        seconds = thread_delay(self._virtual.world) + self._virtual.take_slept(before)
        self._virtual.call_later(seconds, self._ended, flush)


def thread_delay(world: World) -> float:
    """The seconds until a thread gets its work, or its end is heard: mostly short."""
    return 0.0001 + 0.02 * world.chance.random() ** 4
