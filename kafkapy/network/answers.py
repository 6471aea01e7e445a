"""Answers that are not ready when a handler returns."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from kafkapy.process.waiters import Watch


class Pipelined:
    """An answer that is sent later, while the connection's next requests are handled."""

    __slots__ = ("answer",)

    def __init__(self, answer: Awaitable[Any] | Watch) -> None:
        self.answer = answer
