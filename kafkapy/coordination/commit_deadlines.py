"""How long a client waits for the commit of a record.

The coordinator waits for each commit without a limit, since its state must follow the log. Only the answer to
the client has a limit.
"""

from __future__ import annotations

from typing import TypeVar

from kafkapy.coordination.pending_write import PendingWrite
from kafkapy.coordination.timers import Timers
from kafkapy.coordination.topic_log import Done
from kafkapy.protocol.errors import ErrorCode

P = TypeVar("P")


class CommitDeadlines:
    """Answers clients that have waited too long."""

    def __init__(self, timers: Timers, seconds: float) -> None:
        """`seconds` is the limit."""
        self._timers = timers
        self._seconds = seconds

    def report(self, outcome: ErrorCode | PendingWrite[P], done: Done) -> None:
        """Call `done` with the outcome of a write, now or later.

        If it is not known in time, `done` is called with REQUEST_TIMED_OUT.
        """
        if isinstance(outcome, PendingWrite):
            outcome.when_done(self.limit(done))
        else:
            done(outcome)

    def limit(self, done: Done) -> Done:
        """`done`, called with REQUEST_TIMED_OUT if the result is not known in time.

        The result is dropped then.
        """
        is_answered = False

        def once(error: ErrorCode) -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                timer.cancel()
                done(error)

        timer = self._timers.call_later(self._seconds, lambda: once(ErrorCode.REQUEST_TIMED_OUT))
        return once
