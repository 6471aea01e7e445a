"""An answer that may be there at once or come later, given exactly once."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class Answer(Generic[T]):
    """A function to call with the answer; `result()` is what a handler returns.

    The result is the answer itself where it is there already, which saves a task; otherwise a future. A
    client that went away has cancelled the future, and is not answered.
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
