"""Group commit: the appends that arrive while the disk syncs share the next sync.

A partition that has unsynced records calls `request` for a flush. A batch is acknowledged (the high watermark
moves past it) only after the flush that covers it has succeeded. Each log directory has a flusher of its own
(replicas/flusher.py), so that one disk never waits for another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.loop.latency_sample import LatencySample
from kafkapy.replicas.flush_threads import FlushThreads
from kafkapy.replicas.flusher import RETRY_SECONDS, Flusher, NewThreads

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkapy.replicas.partition import Partition
    from kafkapy.storage.disk.log_directory import LogDirectory


class GroupCommit:
    """Flushes partitions on request, each by its log directory's flusher."""

    def __init__(
        self, new_threads: NewThreads = FlushThreads, *, retry_seconds: float = RETRY_SECONDS
    ) -> None:
        """A flush that fails is made again after `retry_seconds`."""
        self._new_threads, self._retry_seconds = new_threads, retry_seconds
        self.on_damage: Callable[[], None] = lambda: None
        """Called after a flush has met damage, for which its partition was closed."""
        self._flushers: dict[LogDirectory, Flusher] = {}
        self.times: LatencySample[float] | None = None
        """A sample of the seconds that syncs take; None while metrics are off."""

    def start(self, log_directory: LogDirectory) -> None:
        """Start a thread for the flushes of a directory now: later none may be available.

        Raises:
            RuntimeError: no thread can be started.
        """
        (self._flushers.get(log_directory) or self._new_flusher(log_directory)).start()

    def request(self, partition: Partition) -> None:
        """Flush `partition`, and call `partition.flushed()` then."""
        directory = partition.log.log_directory
        flusher = self._flushers.get(directory) or self._new_flusher(directory)
        flusher.request(partition)

    def _new_flusher(self, log_directory: LogDirectory) -> Flusher:
        flusher = Flusher(
            log_directory,
            self._new_threads,
            lambda: self.on_damage(),
            retry_seconds=self._retry_seconds,
            times=self.times,
        )
        self._flushers[log_directory] = flusher
        return flusher

    @property
    def flushes(self) -> int:
        """The number of flushes that have ended."""
        return sum(flusher.ends for flusher in self._flushers.values())

    def look(self) -> None:
        """Note which log directories have overdue flushes; this is called every half second."""
        for flusher in self._flushers.values():
            flusher.look()

    async def drain(self) -> None:
        """Wait until every flush requested so far has succeeded or failed."""
        for flusher in tuple(self._flushers.values()):
            await flusher.drain()

    def close(self) -> None:
        """End the threads, after the flushes that they have."""
        for flusher in self._flushers.values():
            flusher.close()
        self._flushers.clear()
