"""A disk whose syncs wait until the test releases them.

It also has a wait for conditions on the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from kafkapy.storage.disk.files import File
from tests.storage.log_harness import FaultyFiles

DEADLINE = 60.0


class HeldFiles(FaultyFiles):
    """The real file system, with faults; `hold` stops the syncs of files below a directory."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = 0
        """Syncs that have been stopped so far."""
        self._held: str | None = None
        self._go_on = threading.Event()

    def hold(self, directory: str = "/") -> None:
        """Let no file of this directory be synced."""
        self._go_on.clear()
        self._held = directory

    def let_go(self) -> None:
        """Let the disk sync again."""
        self._held = None
        self._go_on.set()

    def sync_data(self, file: File) -> None:
        if self._held is not None and self._path(file).startswith(self._held):
            self.waiting += 1
            assert self._go_on.wait(DEADLINE), "a sync was held for too long"
        super().sync_data(file)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what other threads, and the loop, are about to do."""
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110  the condition has no event
            await asyncio.sleep(0.001)
