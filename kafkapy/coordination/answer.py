"""An answer that is given exactly once, at once or later, and the parts that it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Answer(Generic[T]):
    """A function to call with the answer.

    A handler returns `result()`.

    The result is the answer itself if it is known already, which saves a task, and otherwise a future. If the
    client went away, the future is cancelled and the answer is dropped.
    """

    __slots__ = ("_future", "_value")

    def __init__(self) -> None:
        self._value: T | None = None
        self._future: asyncio.Future[T] | None = None

    def __call__(self, value: T) -> None:
        assert self._value is None, "a request is answered once"
        self._value = value
        if self._future is not None and not self._future.done():
            self._future.set_result(value)

    def result(self) -> T | asyncio.Future[T]:
        if self._value is not None:
            return self._value
        self._future = asyncio.get_running_loop().create_future()
        return self._future


class Join:
    """Calls a function once, when all parts of some work have ended.

    Parts may end at once or later. The function is not called before `close`, which says that no more parts
    begin.
    """

    __slots__ = ("_done", "_waiting")

    def __init__(self, done: Callable[[], object]) -> None:
        self._done = done
        self._waiting = 1
        """The parts that have not ended, and one more until `close`."""

    def begin(self) -> None:
        """A part begins."""
        self._waiting += 1

    def end(self) -> None:
        """A part has ended."""
        self._waiting -= 1
        assert self._waiting >= 0, "each part ends once"
        if not self._waiting:
            self._done()

    def close(self) -> None:
        """All parts have begun."""
        self.end()
