"""An answer that is given exactly once, at once or later."""

from __future__ import annotations

import asyncio
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
