"""A write that is on its way into the log, for which somebody waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from kafkapy.coordination.topic_log import Done
from kafkapy.protocol.errors import ErrorCode

P = TypeVar("P")


class PendingWrite(Generic[P]):
    """A write of which some batches are neither committed nor failed yet."""

    __slots__ = ("_done", "batches", "committed", "failed", "partition", "undone")

    def __init__(
        self,
        partition: P,
        batches: int,
        committed: Callable[[int, int], None] | None,
        undone: Callable[[], object] | None,
    ) -> None:
        self.partition = partition
        self.batches = batches
        """The number of its batches that are on their way."""
        self.committed = committed
        self.undone = undone
        self.failed = ErrorCode.NONE
        """The error of the last batch that failed."""
        self._done: tuple[Done, ...] = ()

    def when_done(self, done: Done) -> None:
        """Call `done` once: with NONE when all is committed, and otherwise with the error.

        Several are called in their order.
        """
        self._done += (done,)

    def end(self) -> None:
        """Tell the waiting operations: no batch is on its way any more."""
        for done in self._done:
            done(self.failed)


def report(outcome: ErrorCode | PendingWrite[P], done: Done) -> None:
    """Call `done` with the outcome of a write: now, or when it is known."""
    if isinstance(outcome, PendingWrite):
        outcome.when_done(done)
    else:
        done(outcome)
