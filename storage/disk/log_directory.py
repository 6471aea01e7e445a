"""One of the broker's log directories, which fails as a unit.

An error of the disk takes the directory and all its logs offline until the broker restarts; logs in other
directories are not affected. This is Apache Kafka's LogDirFailureChannel. A failed sync is such an error, and
is never tried again. A lack of space, descriptors, threads or memory is not (errors.py). Apache Kafka takes
that for a failed disk too.

A directory is stuck while its file system takes no writes, or while its flushes do not end. A write to it
would block the event loop, so `require_writable` refuses all writes on the loop. No error of a disk
is involved, and the directory stays online.

With `durability` "fsync", the name of a file is synced before a record in it counts as flushed. With "os",
nothing waits for the disk: syncs run in the background.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from kafkapy.storage.disk.checkpoints import (
    META_PROPERTIES,
    CorruptCheckpointError,
    MetaProperties,
    UnknownVersionError,
    read_meta_properties,
    write_meta_properties,
)
from kafkapy.storage.disk.disk_space import DiskSpace
from kafkapy.storage.disk.errors import (
    ExhaustedError,
    StorageError,
    StuckError,
    TransientStorageError,
    is_exhausted,
    what_is_lacking,
)
from kafkapy.storage.disk.files import File, FileSystem
from kafkapy.storage.disk.shared_sync import SharedSync
from kafkapy.storage.disk.write_probe import WriteProbe

logger = logging.getLogger(__name__)

LOCK_FILE = ".lock"
_COMPLAIN_EVERY_MS = 5000

FRESH_SECONDS = 0.0005
"""How long a write that passed is trusted.

A probe costs 8 to 13 microseconds of the event loop's CPU time, and 12 of another thread's. With 1,000 writes
a second at random times, a freeze is met by an unguarded write in 9 of 100 cases; with 300 a second, in 1.
"""

_STUCK = (
    "Until that changes, what would write there is refused (KAFKA_STORAGE_ERROR, COORDINATOR_NOT_AVAILABLE). "
    "Check the disk, and whether something froze the file system."
)

_UUID_LENGTH = 22
"""The length of a generated cluster id: 16 random bytes in base64."""

Durability = Literal["fsync", "os"]


class LogDirectoryError(Exception):
    """This broker must not use the directory.

    The message says why and what to do.
    """


class Clock(Protocol):
    """A source of the time."""

    def now_ms(self) -> int:
        """The wall clock, in milliseconds since 1970."""


@dataclass(slots=True)
class PendingDeletion:
    """Paths to remove at `at_ms`: `.deleted` files, or a `-delete` directory."""

    at_ms: int
    paths: list[str]


class LogDirectory:
    """The state that the logs of one directory share."""

    __slots__ = (
        "_complain_at_ms",
        "_lock",
        "_space",
        "_written",
        "before_truncation",
        "check_on_first_read",
        "clock",
        "deletions",
        "durable",
        "error",
        "files",
        "flush_overdue",
        "is_stuck",
        "log_count",
        "meta",
        "names",
        "on_failure",
        "path",
        "probe",
        "syncs_at_once",
        "syncs_plainly",
    )

    def __init__(self, path: str, *, files: FileSystem, clock: Clock, durability: Durability) -> None:
        self.path = path
        self.files = files
        self.syncs_plainly = files.syncs_plainly
        self.clock = clock
        self.durable = durability == "fsync"
        self.check_on_first_read = True
        """Whether bytes that were on disk when a log was loaded are checked on their first read.

        See first_read.py.
        """
        self.error: StorageError | None = None
        """The error that took the directory offline."""
        self.on_failure: Callable[[LogDirectory, StorageError], None] = _ignore
        """Called once, when the directory goes offline."""
        self.before_truncation: Callable[[LogDirectory], None] = _ignore
        """Called after a log's flushed offset was lowered, and before the log is truncated.

        It lowers the checkpointed recovery point. Otherwise records would seem to be lost after a crash.
        """
        self.deletions: list[PendingDeletion] = []
        self.syncs_at_once = False
        """Whether recovered or closed logs are synced together, by `sync_at_once`."""
        self.log_count = 0
        """The number of logs and copies. A new one goes to the directory with the fewest."""
        self._complain_at_ms = 0
        """The time when a lack is logged again, as every client may meet it."""
        self._space: DiskSpace | None = None
        self._lock: File | None = None
        self.meta = MetaProperties()
        """The broker and cluster of the directory, after `open`."""
        self.names = SharedSync(files, path)
        """Syncs the names of its logs."""
        self._written: MetaProperties | None = None
        self.probe: WriteProbe | None = None
        """Finds out whether the file system takes writes, after `watch_writes`."""
        self.flush_overdue = False
        """Whether flushes are under way, and none has ended for a while: a write may block soon."""
        self.is_stuck = False
        """Whether a write was refused because it might block, and none has been possible since."""

    def open(self) -> None:
        """Create the directory if it is missing, lock it, and read its meta.properties.

        Raises:
            LogDirectoryError: another broker uses it.
            OSError: the disk failed.
        """
        if not self.files.exists(self.path):
            self.files.make_directories(self.path)
            if self.durable:
                self.files.sync_directory(os.path.dirname(self.path))
        try:
            self._lock = self.files.lock(f"{self.path}/{LOCK_FILE}")
        except BlockingIOError:
            raise LogDirectoryError(
                f"{self.path} is in use by another broker (its {LOCK_FILE} is locked). Stop that broker, or "
                "choose another directory."
            ) from None
        path = f"{self.path}/{META_PROPERTIES}"
        try:
            self._written = read_meta_properties(self.files, path)
        except UnknownVersionError as error:
            logger.warning("Taking what is known of %s: %s", path, error)
            self.meta = error.meta
        except CorruptCheckpointError as error:
            logger.warning("Writing %s anew: %s", path, error)
        else:
            self.meta = self._written or MetaProperties()

    def claim(self, *, node_id: int, cluster_id: str) -> None:
        """Check that the directory belongs to this broker, and write that to meta.properties.

        Raises:
            LogDirectoryError: it belongs to another broker or cluster.
            OSError: the disk failed.
        """
        meta = self.meta
        for name, found, own in (("cluster", meta.cluster_id, cluster_id), ("broker", meta.node_id, node_id)):
            if found not in (None, own) and not is_damaged_id(found, own):
                raise LogDirectoryError(
                    f"{self.path} belongs to {name} {found}, and this is {name} {own}. Choose another "
                    "directory, or correct the settings."
                )
        self.meta = replace(meta, cluster_id=cluster_id, node_id=node_id)
        if self.meta != self._written:
            path = f"{self.path}/{META_PROPERTIES}"
            write_meta_properties(self.files, path, self.meta, durable=self.durable)
            self._written = self.meta

    def close(self) -> None:
        """Release the lock, so that another broker may use the directory."""
        if self.probe is not None:
            self.probe.close()
            self.probe = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def space(self) -> DiskSpace:
        space = self._space
        if space is None:
            space = self._space = DiskSpace(self.files, self.path, keep_reserve=self.durable)
        return space

    def sync_at_once(self) -> None:
        """Sync everything that was written since `syncs_at_once` was set.

        Raises:
            ExhaustedError: a descriptor or memory was lacking. Call this again.
            StorageError: the disk failed, and the directory is offline.
        """
        if self.syncs_at_once:
            try:
                self.files.sync_file_system(self.path)
            except OSError as error:
                raise self.failed("syncing all logs", error) from error
            self.syncs_at_once = False

    def sync_names(self) -> None:
        """Sync the names of the logs.

        The name of a new log is synced with its first flush. If the process dies before that, the log and its
        name stay, and a flush after the next start knows nothing of a name that is still to be synced.

        Raises:
            ExhaustedError: a descriptor or memory was lacking. Call this again.
            StorageError: the disk failed, and the directory is offline.
        """
        try:
            self.names.sync(self.names.ask())
        except OSError as error:
            raise self.failed("syncing the names of its logs", error) from error

    @property
    def syncs_each(self) -> bool:
        """Whether each small file is synced when it is written."""
        return self.durable and not self.syncs_at_once

    def require_online(self) -> None:
        """Raise StorageError if the directory is offline."""
        if self.error is not None:
            raise StorageError(self.path, f"The log directory {self.path} is offline: {self.error.message}")

    def watch_writes(self) -> None:
        """Find out from now on whether the file system takes writes, before something is written."""
        if self._lock is not None:
            self.probe = self.files.write_probe(self._lock, FRESH_SECONDS)

    def takes_writes(self) -> bool:
        """Whether a write would not block, as far as is known."""
        if self.flush_overdue or (self.probe is not None and not self.probe.passes()):
            return False
        if self.is_stuck:
            self.is_stuck = False
            logger.info("The log directory %s takes writes again", self.path)
        return True

    def require_writable(self) -> None:
        """Raise StorageError if the directory is offline, and StuckError if it is stuck."""
        self.require_online()
        if not self.takes_writes():
            raise self.stuck()

    def stuck(self) -> StuckError:
        """The error to raise instead of a write that may block."""
        if not self.is_stuck:
            self.is_stuck = True
            if self.flush_overdue:
                logger.error("The flushes in the log directory %s do not end. %s", self.path, _STUCK)
            else:
                logger.error(
                    "The log directory %s takes no writes at present: its file system is frozen, or hangs."
                    " %s",
                    self.path,
                    _STUCK,
                )
        return StuckError(self.path, f"The log directory {self.path} takes no writes at present.")

    def failed(self, what: str, cause: Exception, *, level: int = logging.CRITICAL) -> StorageError:
        """Take the directory offline because `what` failed, and log it; return the error to raise.

        If only a resource of the process is lacking, or `cause` is a TransientStorageError, the directory
        stays online, and a TransientStorageError is returned.
        """
        if isinstance(cause, TransientStorageError):
            return cause
        if is_exhausted(cause):
            return self.exhausted(what, cause)
        error = cause if isinstance(cause, StorageError) else StorageError(self.path, f"{what}: {cause}")
        error.__cause__ = cause if cause is not error else None
        if self.error is None:
            self.error = error
            logger.log(
                level,
                "The log directory %s is offline from now on: %s. Its partitions answer KAFKA_STORAGE_ERROR. "
                "Check the disk, then restart the broker; nothing that was acknowledged is given up.",
                self.path,
                error.message,
            )
            self.on_failure(self, error)
        return error

    def exhausted(self, what: str, cause: BaseException) -> ExhaustedError:
        """The error to raise after a lack (`is_exhausted`) during `what`.

        Any thread may call it.
        """
        message = f"{what}: {what_is_lacking(cause)}"
        now_ms = self.clock.now_ms()
        if now_ms >= self._complain_at_ms:
            self._complain_at_ms = now_ms + _COMPLAIN_EVERY_MS
            logger.error("%s It is tried again.", message)
        return ExhaustedError(self.path, message)

    def delete_later(self, paths: list[str], delay_ms: int) -> None:
        """Remove `paths` after `delay_ms`, so that readers can finish."""
        if paths:
            self.deletions.append(PendingDeletion(self.clock.now_ms() + delay_ms, paths))

    def delete_expired(self, now_ms: int) -> int:
        """Remove the paths of `delete_later` whose delay is over; return their number.

        Any thread may call this.
        """
        removed = 0
        for pending in [each for each in self.deletions if each.at_ms <= now_ms]:
            self.deletions.remove(pending)
            for path in pending.paths:
                try:
                    self.files.remove(path)
                    removed += 1
                except OSError as error:
                    logger.warning("%s was not removed: %s", path, error)
                    if is_exhausted(error):
                        self.deletions.append(PendingDeletion(now_ms + _COMPLAIN_EVERY_MS, [path]))
        return removed


def is_damaged_id(found: object, own: object) -> bool:
    """Return whether an id in a file is `own`, truncated or with some damaged characters.

    This works for generated ids only: two of these are never so similar.
    """
    if not isinstance(found, str) or not isinstance(own, str) or len(own) != _UUID_LENGTH:
        return False
    if own.startswith(found):
        return True
    at_start = _alike(found, own)
    at_end = _alike(found[at_start:][::-1], own[at_start:][::-1])
    return at_start + at_end >= _UUID_LENGTH // 2


def _alike(one: str, other: str) -> int:
    """The length of the common start of two texts."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _ignore(*_: object) -> None:
    """Do nothing."""
