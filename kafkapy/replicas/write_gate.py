"""Produce requests that wait for a log directory that takes no writes at present.

A short freeze, as for a snapshot, is over before a request has to be refused. The wait is bounded in time and
in bytes: after it the client gets KAFKA_STORAGE_ERROR, and tries again. Otherwise what waits for a stuck
directory would use up the memory for requests, and those for other directories would not be read any more.
Coordinators do not wait: their requests get COORDINATOR_NOT_AVAILABLE, and their clients try again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkapy.storage.disk.log_directory import LogDirectory

MOST_SECONDS: Final = 1.0
"""How long a request waits. The connection's next requests, which may be for other directories, wait too."""
MOST_BYTES: Final = 16 << 20
"""The most bytes of records of all requests that wait."""
LOOK_SECONDS: Final = 0.01
"""Between two looks whether a directory takes writes again."""


class WriteGate:
    """The requests of one broker that wait for a log directory."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[LogDirectory, list[asyncio.Future[None]]] = {}
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, directory: LogDirectory, nbytes: int, deadline: float) -> bool:
        """Wait until a stuck directory takes writes; return False if it does not.

        That is so at `deadline`, a time of the loop, or if too much waits already.
        """
        if self._bytes + nbytes > MOST_BYTES:
            return False
        opened: asyncio.Future[None] = self._loop.create_future()
        self._waiting.setdefault(directory, []).append(opened)
        self._bytes += nbytes
        if self._timer is None:
            self._timer = self._loop.call_later(LOOK_SECONDS, self._look)
        try:
            async with asyncio.timeout_at(deadline):
                await opened
        except TimeoutError:
            return False
        finally:
            self._bytes -= nbytes
        return True

    def _look(self) -> None:
        """Resume the writers whose directory takes writes again, or has failed."""
        self._timer = None
        for directory, waiting in list(self._waiting.items()):
            waiting[:] = [each for each in waiting if not each.done()]
            if not waiting or directory.error is not None or directory.takes_writes():
                del self._waiting[directory]
                for opened in waiting:
                    opened.set_result(None)
        if self._waiting:
            self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    def close(self) -> None:
        """Look no more; what waits ends at its deadline."""
        if self._timer is not None:
            self._timer.cancel()
