"""Divides the time of the event loop among the connections that send many requests at once.

A connection that has sent one request is served when the loop finds it readable. Connections that have sent
several share a round. A round is ROUND_SECONDS of each iteration of the loop, however many they are: a
request of another client waits for one round at most, and not for one slice of each connection. Connections
that did not get all their time queue for the next rounds, in which they take turns.

No round is counted while it is not used up, so that a calm client costs nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

ROUND_SECONDS: Final = 0.005


class Waiter(Protocol):
    """A connection that waits for a turn."""

    def take_turn(self, seconds: float) -> None:
        """Handle at least one request, and more of them for so long."""


class Rounds:
    """The rounds of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.left = ROUND_SECONDS
        """The seconds that are left of the round."""
        self._loop = loop
        self._waiting: deque[Waiter] = deque()
        self._is_next_due = False

    @property
    def waiting(self) -> int:
        """How many connections wait for a turn."""
        return len(self._waiting)

    def spend(self, seconds: float) -> None:
        """Count time that a connection with several requests has used."""
        self.left -= seconds
        if self.left <= 0:
            self._begin_soon()

    def wait(self, connection: Waiter) -> None:
        """Give `connection` a turn after those that wait already."""
        self._waiting.append(connection)
        self._begin_soon()

    def _begin_soon(self) -> None:
        if not self._is_next_due:
            self._is_next_due = True
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        """Begin a round with the connections that wait."""
        self._is_next_due = False
        self.left = ROUND_SECONDS
        waiting = self._waiting
        if not waiting:
            return
        turn = ROUND_SECONDS / len(waiting)
        for _ in range(len(waiting)):
            waiting.popleft().take_turn(turn)
            if self.left <= 0:
                break
        if waiting:
            self._begin_soon()
