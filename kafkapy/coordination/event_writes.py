"""Writes the records of events whose changes are in memory before they are committed.

The state in memory is ahead of the log's commits, as in Apache Kafka: the next event builds on it, and its
records come later in the log. Clients are answered after the commit. If the log refuses the records at once,
the event is undone. If it fails later, or takes a part of them, the partition is read again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from kafkapy.coordination.commit_deadlines import CommitDeadlines
from kafkapy.coordination.errors import LOST, coordinator_error
from kafkapy.coordination.pending_write import PendingWrite
from kafkapy.coordination.runtime import CoordinatorRuntime
from kafkapy.coordination.topic_log import Done
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.plain_batch import KeyValue

T = TypeVar("T")


class EventWrites(Generic[T]):
    """Writes records, and tells what became of them."""

    def __init__(self, runtime: CoordinatorRuntime[T], deadlines: CommitDeadlines) -> None:
        self._runtime = runtime
        self._deadlines = deadlines

    def write(
        self,
        key: str,
        records: list[KeyValue],
        *,
        accepted: Callable[[], object],
        refused: Callable[[], object],
        done: Done,
    ) -> None:
        """Write the records of one event to the partition of `key`.

        Either `accepted` or `refused` is called before this returns. `done` is called later, or at the end,
        with the error for the client.
        """
        if not records:
            accepted()
            done(ErrorCode.NONE)
            return
        is_partly_committed = False

        def committed(start: int, stop: int) -> None:
            nonlocal is_partly_committed
            is_partly_committed = True

        def finished(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE and error not in LOST:
                self._runtime.reload(key)

        outcome = self._runtime.write(key, records, committed=committed)
        if isinstance(outcome, PendingWrite):
            outcome.when_done(finished)
            accepted()
        elif outcome is ErrorCode.NONE:
            accepted()
        else:
            refused()
            if is_partly_committed:
                self._runtime.reload(key)
        self._deadlines.report(outcome, lambda error: done(coordinator_error(error)))
