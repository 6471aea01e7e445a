"""Notices of changed settings and ACLs, which tell other brokers what to read again."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from kafkapy.loop.clock import Clock
from kafkapy.metadata import znodes
from kafkapy.metadata.store import Create, Delete, Operation
from kafkapy.metadata.writer import MetadataWriter

NOTICE_LIFETIME_MS: Final = 15 * 60 * 1000
"""How long a notice stays (Kafka's ZkNodeChangeNotificationListener)."""


class ChangeNotices:
    """Commits changes of settings and ACLs with their notices, and deletes old notices."""

    def __init__(self, writer: MetadataWriter, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._made: deque[tuple[int, str]] = deque()

    def found(self, paths: Sequence[str]) -> None:
        """Delete these notices too, in time; others made them, and their age is not known."""
        self._made.extend((self._clock.now_ms(), path) for path in paths)

    async def commit(self, operations: Sequence[Operation], paths: Sequence[str]) -> None:
        """Commit `operations`, which change the settings in `paths`.

        Raises:
            NodeError, KafkaError: as `MetadataWriter.commit_settings`.
        """
        notices = [
            Create(
                znodes.CONFIG_CHANGE_PREFIX,
                znodes.encode_config_change(path.removeprefix(f"{znodes.CONFIG}/")),
                sequence=True,
            )
            for path in paths
        ]
        await self.commit_with(operations, notices)

    async def commit_with(
        self, operations: Sequence[Operation], notices: Sequence[Create]
    ) -> list[str | int | None]:
        """Commit `operations` and their notices; return the results of the operations.

        Raises:
            NodeError, KafkaError: as `MetadataWriter.commit_settings`.
        """
        now = self._clock.now_ms()
        old = []
        while self._made and self._made[0][0] <= now - NOTICE_LIFETIME_MS:
            old.append(Delete(self._made.popleft()[1]))
        done = await self._writer.commit_settings([*notices, *operations, *old])
        self._made.extend((now, str(notice)) for notice in done[: len(notices)])
        return done[len(notices) : len(notices) + len(operations)]
