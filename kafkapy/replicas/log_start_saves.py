"""Putting log start offsets on disk before a request that moved them is answered.

A request asks for the logs it is about. What is asked for while a write is under way shares the next one, so
many requests cost few writes. With durability=fsync a write is synced.

A write that fails, as on a full disk, leaves the offsets moved and not saved. Whoever asked sees that by
`is_saved`. Asking again writes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.log.partition_log import PartitionLog


class LogStartSaves:
    """The writes of log start offsets that requests wait for."""

    def __init__(self, logs: LogManager, blocking: Callable[..., Awaitable[Any]]) -> None:
        self._logs = logs
        self._blocking = blocking
        self._turn = asyncio.Lock()
        """Held during a write."""
        self._asked: dict[PartitionLog, None] = {}
        """The logs that the next write is to cover."""

    async def save(self, logs: Iterable[PartitionLog]) -> None:
        """Try to put the log start offsets of these logs on disk."""
        unsaved = [log for log in logs if not self.is_saved(log)]
        if not unsaved:
            return
        self._asked.update(dict.fromkeys(unsaved))
        async with self._turn:
            if self._asked:  # otherwise somebody's write has covered them
                asked, self._asked = self._asked, {}
                await self._blocking(self._logs.checkpoint_log_starts_of(asked))

    def is_saved(self, log: PartitionLog) -> bool:
        """Whether a crash leaves the log start offset where it is."""
        return self._logs.log_start_on_disk(log) >= log.log_start_offset
