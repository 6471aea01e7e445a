"""Saves log start offsets on disk before a request that moved them is answered.

A request saves the logs that it changed. Requests that arrive during a write share the next one, so many
requests need few writes. With durability=fsync a write is synced.

If a write fails, as on a full disk, the offsets have moved but are not saved. The caller checks with
`is_saved`, and may call `save` again.
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
        """The logs that the next write covers."""

    async def save(self, logs: Iterable[PartitionLog]) -> None:
        """Try to save the log start offsets of these logs on disk."""
        unsaved = [log for log in logs if not self.is_saved(log)]
        if not unsaved:
            return
        self._asked.update(dict.fromkeys(unsaved))
        async with self._turn:
            if self._asked:  # otherwise another request's write has covered them
                asked, self._asked = self._asked, {}
                await self._blocking(self._logs.checkpoint_log_starts_of(asked))

    def is_saved(self, log: PartitionLog) -> bool:
        """Whether the log start offset survives a crash."""
        return self._logs.log_start_on_disk(log) >= log.log_start_offset
