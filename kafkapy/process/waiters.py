"""Requests that wait: for bytes to fetch, for acknowledgements, for members of a group.

A delayed operation watches keys (a partition, a group) and has a deadline. Whoever changes what a key stands
for calls `wake(key)`. Each operation that watches the key then looks whether it can be completed. It
completes exactly once, by a wake, by its deadline or by being cancelled (the client went away), and is then
gone from all its keys. Source of the contract: Apache Kafka's DelayedOperation and DelayedOperationPurgatory.
One event loop owns all state, so that none of their locks are needed.

A `Watch` calls back from within the wake. A future would cost one more turn of the loop, which every
acknowledgement would pay; `wait` gives one to those who await.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from kafkapy.process.timers import Timers

logger = logging.getLogger(__name__)


class Watch:
    """One delayed operation. It looks like a future to those who need one."""

    __slots__ = ("_callback", "_error", "_finish", "_in_time", "_keys", "_ready", "_timer", "_waiters")

    def __init__(
        self,
        waiters: Waiters,
        keys: tuple[Hashable, ...],
        seconds: float,
        ready: Callable[[], bool],
        finish: Callable[[bool], Any],
    ) -> None:
        self._waiters = waiters
        self._finish = finish
        self._keys = keys
        self._ready: Callable[[], bool] | None = ready
        """None once it is completed or cancelled."""
        self._in_time = False
        self._error: Exception | None = None
        self._callback: Callable[[Watch], object] | None = None
        self._timer = waiters.timers.call_later(seconds, self.expire)

    def add_done_callback(self, callback: Callable[[Watch], object]) -> None:
        """Have `callback(self)` called at the moment when this completes.

        A cancelled watch does not call it. There is only one callback.
        """
        self._callback = callback

    def result(self) -> Any:
        """The result of `finish`, told whether it was in time; raises what `ready` has raised."""
        if self._error is not None:
            raise self._error
        return self._finish(self._in_time)

    def cancel(self) -> None:
        """Watch no more; harmless when it is completed."""
        if self._ready is not None:
            self._end()

    def expire(self) -> None:
        """Complete as the deadline does."""
        if self._ready is not None:
            self._complete()

    def look(self) -> bool:
        """Whether this wake has completed it."""
        ready = self._ready
        if ready is None:
            return False
        try:
            if not ready():
                return False
            self._in_time = True
        except Exception as error:
            self._error = error
        self._complete()
        return True

    def _complete(self) -> None:
        self._end()
        callback, self._callback = self._callback, None
        if callback is not None:
            try:
                callback(self)
            except Exception:
                logger.exception("What was waited for could not be made use of")

    def _end(self) -> None:
        self._ready = None
        self._timer.cancel()
        self._waiters.forget(self, self._keys)


class Waiters:
    """Delayed operations by the keys they watch."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timers: Timers) -> None:
        self._loop = loop
        self.timers = timers
        self._watching: dict[Hashable, dict[Watch, None]] = {}
        self.woken: Hashable = None
        """The key that is being woken, for operations that watch many; None at other times."""

    def watch(
        self,
        keys: Iterable[Hashable],
        seconds: float,
        ready: Callable[[], bool],
        finish: Callable[[bool], Any],
    ) -> Watch:
        """Completes once `ready()` is true after a wake of one of `keys`, or after `seconds`.

        Its result is `finish(in_time)`.
        """
        watched = tuple(keys)
        watch = Watch(self, watched, seconds, ready, finish)
        for key in watched:
            watching = self._watching.get(key)
            if watching is None:
                self._watching[key] = {watch: None}
            else:
                watching[watch] = None
        return watch

    def forget(self, watch: Watch, keys: Iterable[Hashable]) -> None:
        """Have it watch these keys no more."""
        for key in keys:
            watching = self._watching.get(key)
            if watching is not None and watching.pop(watch, watch) is None and not watching:
                del self._watching[key]

    def wait(
        self, keys: Iterable[Hashable], seconds: float, ready: Callable[[], bool]
    ) -> asyncio.Future[bool]:
        """Wait for `ready()` to be true: the future is True in time, False after `seconds`.

        It is asked after a wake of one of `keys`.

        `ready` is asked at once too; an exception it raises is the future's. Cancelling the future ends the
        wait.
        """
        future: asyncio.Future[bool] = self._loop.create_future()
        watch = self.watch(keys, seconds, ready, bool)

        def pass_on(_: Watch) -> None:
            if not future.done():
                try:
                    future.set_result(watch.result())
                except Exception as error:
                    future.set_exception(error)

        watch.add_done_callback(pass_on)
        if not watch.look():
            future.add_done_callback(lambda _: watch.cancel())
        return future

    def wake(self, key: Hashable) -> int:
        """Let the operations that watch `key` look again; return how many completed."""
        watching = self._watching.get(key)
        if not watching:
            return 0
        completed = 0
        for watch in tuple(watching):
            self.woken = key  # a wake within this one may have changed it
            completed += watch.look()
        self.woken = None
        return completed

    def expire_all(self) -> None:
        """End every wait as its deadline would: the broker stops."""
        for watching in tuple(self._watching.values()):
            for watch in tuple(watching):
                watch.expire()

    def watching(self, key: Hashable) -> int:
        """How many operations watch `key`."""
        return len(self._watching.get(key, ()))
