"""Answers that are not ready when a handler returns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kafkapy.loop.waiters import Watch


class Pipelined:
    """An answer that is sent later, while the connection's next requests are handled.

    `expected` makes the response that the answer is likely to be, which must have less than VALUES_AT_ONCE
    values. It is called, and the response is encoded, while the request waits. If that very object is the
    answer then, its bytes only have to be sent.
    """

    __slots__ = ("answer", "expected")

    def __init__(self, answer: Awaitable[Any] | Watch, expected: Callable[[], Any] | None = None) -> None:
        self.answer = answer
        self.expected = expected


async def settled(answer: Any) -> Any:
    """The answer itself, whatever it waits for, one thing after the other."""
    while True:
        if isinstance(answer, Pipelined):
            answer = answer.answer
        elif isinstance(answer, Watch):
            answer = await _watched(answer)
        elif isinstance(answer, Awaitable):
            answer = await answer
        else:
            return answer


async def _watched(watch: Watch) -> Any:
    done = asyncio.get_running_loop().create_future()
    watch.add_done_callback(done.set_result)
    try:
        await done
    except asyncio.CancelledError:
        watch.cancel()
        raise
    return watch.result()
