"""Requests that wait: for bytes to fetch, for acknowledgements, for members of a group.

A delayed operation watches keys (a partition, a group) and has a deadline. Code that changes the state of a
key calls `wake(key)`. Each operation that watches the key then checks whether it can complete. It completes
exactly once: by a wake, by its deadline or by cancellation (the client went away). It then watches no key any
more. Source of the contract: Apache Kafka's DelayedOperation and DelayedOperationPurgatory. One event loop
owns all state, so no locks are needed.

A `Watch` calls its callback within the wake. A future would delay every acknowledgement by one iteration of
the loop; `wait` returns a future for callers that await.

A `Listener` is told of every wake of a key, until it is forgotten. Thus who serves thousands of keys learns
which have changed, without watching all of them again and again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol

from kafkapy.loop.timers import Timers

logger = logging.getLogger(__name__)


class Listener(Protocol):
    """What is told of the wakes of a key."""

    def look(self) -> bool:
        """Note a wake; return whether a delayed operation completed."""

    def expire(self) -> None:
        """Complete a delayed operation as its deadline would."""


class Watch:
    """One delayed operation, with a part of the interface of a future."""

    __slots__ = (
        "_callback",
        "_error",
        "_finish",
        "_in_time",
        "_is_complete",
        "_keys",
        "_ready",
        "_timer",
        "_waiters",
    )

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
        self._is_complete = False
        self._error: Exception | None = None
        self._callback: Callable[[Watch], object] | None = None
        self._timer = waiters.timers.call_later(seconds, self.expire)

    def add_done_callback(self, callback: Callable[[Watch], object]) -> None:
        """Set the callback that is called as `callback(self)` on completion.

        There is only one callback. It is not called after a cancellation. If the operation has completed
        already, the callback is called soon: who makes the operation may hand it to who waits for it in a
        later iteration of the loop.
        """
        if self._is_complete:
            self._waiters.loop.call_soon(callback, self)
        else:
            self._callback = callback

    def result(self) -> Any:
        """The result of `finish(in_time)`.

        Raises the exception of `ready`, if it raised one.
        """
        if self._error is not None:
            raise self._error
        return self._finish(self._in_time)

    def cancel(self) -> None:
        """Stop watching.

        Does nothing if the operation has completed.
        """
        if self._ready is not None:
            self._end()

    def expire(self) -> None:
        """Complete the operation as its deadline would."""
        if self._ready is not None:
            self._complete()

    def look(self) -> bool:
        """Check the operation after a wake; return whether it completed."""
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
        self._is_complete = True
        self._end()
        callback, self._callback = self._callback, None
        if callback is not None:
            try:
                callback(self)
            except Exception:
                logger.exception("The callback of a delayed operation failed")

    def _end(self) -> None:
        self._ready = None
        self._timer.cancel()
        self._waiters.forget(self, self._keys)


class Waiters:
    """Delayed operations by the keys that they watch."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timers: Timers) -> None:
        self.loop = loop
        self.timers = timers
        self._watching: dict[Hashable, dict[Listener, None]] = {}
        self.woken: Hashable = None
        """The key of the present wake, for operations that watch many keys; otherwise None."""

    def watch(
        self,
        keys: Iterable[Hashable],
        seconds: float,
        ready: Callable[[], bool],
        finish: Callable[[bool], Any],
    ) -> Watch:
        """Return an operation that completes when `ready()` is true, or at its deadline.

        It watches `keys`. Its result is `finish(in_time)`.
        """
        watched = tuple(keys)
        watch = Watch(self, watched, seconds, ready, finish)
        for key in watched:
            self.listen(key, watch)
        return watch

    def listen(self, key: Hashable, listener: Listener) -> None:
        """Tell the listener of the wakes of a key, until `forget`."""
        watching = self._watching.get(key)
        if watching is None:
            self._watching[key] = {listener: None}
        else:
            watching[listener] = None

    def forget(self, listener: Listener, keys: Iterable[Hashable]) -> None:
        """Tell the listener of these keys no more."""
        for key in keys:
            watching = self._watching.get(key)
            if watching is not None and watching.pop(listener, listener) is None and not watching:
                del self._watching[key]

    def wait(
        self, keys: Iterable[Hashable], seconds: float, ready: Callable[[], bool]
    ) -> asyncio.Future[bool]:
        """Return a future that is True when `ready()` is true, and False after `seconds`.

        `ready` is called at once, and after each wake of one of `keys`. An exception of `ready` becomes the
        future's. Cancelling the future ends the wait.
        """
        future: asyncio.Future[bool] = self.loop.create_future()
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
        """Check the operations that watch `key` again; return the number that completed."""
        watching = self._watching.get(key)
        if not watching:
            return 0
        completed = 0
        for watch in tuple(watching):
            self.woken = key  # a nested wake may have changed it
            completed += watch.look()
        self.woken = None
        return completed

    def expire_all(self) -> None:
        """Complete every operation as its deadline would, because the broker stops."""
        for watching in tuple(self._watching.values()):
            for watch in tuple(watching):
                watch.expire()

    def watching(self, key: Hashable) -> int:
        """The number of operations and listeners that watch `key`."""
        return len(self._watching.get(key, ()))
