"""One of the broker's log directories: a disk, as far as the broker can tell. It fails as a whole or not at
all.

An error of the disk (anything but a lack of space) takes the directory offline until the broker restarts, and
with it every log inside; logs in other directories go on. This is Apache Kafka's LogDirFailureChannel. A
failed sync counts as such an error and is never tried again.

`durability` says what the broker promises. With "fsync" every name this directory gets is synced before a
record in it counts as flushed. With "os" nothing waits for the disk; what is synced, is synced in the
background.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from kafkapy.storage.disk_space import DiskSpace
from kafkapy.storage.files import FileSystem, StorageError

if TYPE_CHECKING:
    from kafkapy.storage.log import PartitionLog

logger = logging.getLogger(__name__)

Durability = Literal["fsync", "os"]


class Clock(Protocol):
    """Where the time comes from."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970."""


@dataclass(slots=True)
class PendingDeletion:
    """Paths that go when `at_ms` has come: `.deleted` files, or a `-delete` directory."""

    at_ms: int
    paths: list[str]


class LogDirectory:
    """What the logs of one directory share."""

    __slots__ = (
        "_space",
        "before_truncation",
        "clock",
        "deletions",
        "durable",
        "error",
        "files",
        "on_failure",
        "path",
    )

    def __init__(self, path: str, *, files: FileSystem, clock: Clock, durability: Durability) -> None:
        self.path = path
        self.files = files
        self.clock = clock
        self.durable = durability == "fsync"
        self.error: StorageError | None = None
        """What took the directory offline."""
        self.on_failure: Callable[[LogDirectory, StorageError], None] = _ignore
        """Called once, when the directory goes offline."""
        self.before_truncation: Callable[[PartitionLog], None] = _ignore
        """Called with a log, its flushed offset already lowered, before the log is cut there, below its
        recovery point: a checkpoint that says more than the log holds would look like a loss after a
        crash."""
        self.deletions: list[PendingDeletion] = []
        self._space: DiskSpace | None = None

    @property
    def space(self) -> DiskSpace:
        space = self._space
        if space is None:
            space = self._space = DiskSpace(self.files, self.path, keep_reserve=self.durable)
        return space

    def require_online(self) -> None:
        """Raises StorageError when the directory is offline."""
        if self.error is not None:
            raise StorageError(self.path, f"The log directory {self.path} is offline: {self.error.message}")

    def failed(self, what: str, cause: Exception) -> StorageError:
        """Take the directory offline because `what` failed; the error to raise."""
        error = cause if isinstance(cause, StorageError) else StorageError(self.path, f"{what}: {cause}")
        if self.error is None:
            self.error = error
            logger.critical(
                "The log directory %s is offline from now on: %s. Its partitions answer KAFKA_STORAGE_ERROR. "
                "Check the disk, then restart the broker; nothing that was acknowledged is given up.",
                *(self.path, error.message),
            )
            self.on_failure(self, error)
        return error

    def delete_later(self, paths: list[str], delay_ms: int) -> None:
        """Remove `paths` when readers have had `delay_ms` to let go of them."""
        if paths:
            self.deletions.append(PendingDeletion(self.clock.now_ms() + delay_ms, paths))


def _ignore(*_: object) -> None:
    """Nobody listens."""
