"""Requests that wait: for bytes to fetch, for acknowledgements, for members of a group.

A delayed operation watches keys (a partition, a group) and has a deadline. Whoever changes what a key
stands for calls `wake(key)`; each operation watching it then looks whether it can be completed. It
completes exactly once, by a wake, by its deadline or by cancelling its future (the client went away), and
is then gone from all its keys. Source of the contract: Apache Kafka's DelayedOperation and
DelayedOperationPurgatory; one event loop owns all state, so that none of its locks are needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable

from kafkapy.timers import Timers


class _Operation:
    __slots__ = ("future", "keys", "ready")

    def __init__(
        self, keys: tuple[Hashable, ...], ready: Callable[[], bool], future: asyncio.Future[bool]
    ) -> None:
        self.keys = keys
        self.ready = ready
        self.future = future


class Waiters:
    """Delayed operations by the keys they watch."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timers: Timers) -> None:
        self._loop = loop
        self._timers = timers
        self._watching: dict[Hashable, dict[_Operation, None]] = {}

    def wait(
        self, keys: Iterable[Hashable], seconds: float, ready: Callable[[], bool]
    ) -> asyncio.Future[bool]:
        """A future: True once `ready()` is true after a wake of one of `keys`, False after `seconds`.

        `ready` is asked at once too; an exception it raises is the future's. Cancelling the future ends the
        wait.
        """
        future: asyncio.Future[bool] = self._loop.create_future()
        operation = _Operation(tuple(keys), ready, future)
        if self._try_complete(operation):
            return future
        for key in operation.keys:
            self._watching.setdefault(key, {})[operation] = None

        def expire() -> None:
            if not future.done():
                future.set_result(False)

        timer = self._timers.call_later(seconds, expire)

        def forget(_: asyncio.Future[bool]) -> None:
            timer.cancel()
            for key in operation.keys:
                operations = self._watching.get(key)
                if operations is not None and operations.pop(operation, operation) is None and not operations:
                    del self._watching[key]

        future.add_done_callback(forget)
        return future

    def wake(self, key: Hashable) -> int:
        """Let the operations that watch `key` look again; how many completed."""
        operations = self._watching.get(key)
        if not operations:
            return 0
        return sum(self._try_complete(operation) for operation in tuple(operations))

    def expire_all(self) -> None:
        """End every wait as its deadline would: the broker stops."""
        for operations in tuple(self._watching.values()):
            for operation in tuple(operations):
                if not operation.future.done():
                    operation.future.set_result(False)

    def watching(self, key: Hashable) -> int:
        """How many operations watch `key`."""
        return len(self._watching.get(key, ()))

    @staticmethod
    def _try_complete(operation: _Operation) -> bool:
        future = operation.future
        if future.done():
            return False
        try:
            if not operation.ready():
                return False
        except Exception as error:
            future.set_exception(error)
            return True
        future.set_result(True)
        return True
