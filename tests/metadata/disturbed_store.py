"""An embedded store that tests disturb between a broker's request and its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.store import MetadataStoreError, Node, Operation

Results: TypeAlias = list[str | int | None]
Commit: TypeAlias = Callable[[Sequence[Operation]], Awaitable[Results]]
Of: TypeAlias = Callable[[Sequence[Operation]], bool]
"""Whether it is this commit, by its operations."""


class DisturbedStore(EmbeddedStore):
    """It is undisturbed until a test sets `commits` or `failing_reads`."""

    commits: Callable[[Commit, Sequence[Operation]], Awaitable[Results]] | None = None
    """Runs in place of each commit, which it may make with its first argument."""
    failing_reads = 0
    """How many of the next reads of several nodes fail."""

    async def multi(self, operations: Sequence[Operation]) -> Results:
        commit = super().multi
        return await (commit(operations) if self.commits is None else self.commits(commit, operations))

    async def nodes(self, paths: Sequence[str]) -> dict[str, Node]:
        self._read()
        return await super().nodes(paths)

    async def subtree(self, *paths: str) -> dict[str, Node]:
        self._read()
        return await super().subtree(*paths)

    def _read(self) -> None:
        if self.failing_reads:
            self.failing_reads -= 1
            raise MetadataStoreError("no connection")

    def overtake(
        self,
        write: Callable[[], Awaitable[object]],
        times: int = 1,
        of: Of = lambda operations: True,
    ) -> None:
        """Run `write` before the next commits, after what their broker has checked."""
        left = times

        async def overtaken(commit: Commit, operations: Sequence[Operation]) -> Results:
            nonlocal left
            if left and of(operations):
                left -= 1
                await write()
            return await commit(operations)

        self.commits = overtaken

    def refuse(
        self, reason: str, of: Callable[[Sequence[Operation]], bool] = lambda operations: True
    ) -> None:
        """Let commits fail from now on."""

        async def refused(commit: Commit, operations: Sequence[Operation]) -> Results:
            if of(operations):
                raise MetadataStoreError(reason)
            return await commit(operations)

        self.commits = refused
