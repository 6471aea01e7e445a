"""One of the broker's log directories: a disk, as far as the broker can tell.

It fails as a unit or not at all.

An error of the disk takes the directory offline until the broker restarts, and with it every log in it; logs
in other directories go on. This is Apache Kafka's LogDirFailureChannel. A failed sync counts as such an error
and is never tried again. A lack of space does not, and neither does one of descriptors, threads or memory
(files.py). Apache Kafka's broker takes those for failed disks too.

`durability` says what the broker promises. With "fsync" every name this directory gets is synced before a
record in it counts as flushed. With "os" nothing waits for the disk; what is synced, is synced in the
background.
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
from kafkapy.storage.disk.files import (
    ExhaustedError,
    File,
    FileSystem,
    StorageError,
    TransientStorageError,
    is_exhausted,
    what_is_lacking,
)
from kafkapy.storage.disk.shared_sync import SharedSync

logger = logging.getLogger(__name__)

LOCK_FILE = ".lock"
_COMPLAIN_EVERY_MS = 5000

_UUID_LENGTH = 22
"""Characters of a generated cluster id: 16 random bytes in base64."""

Durability = Literal["fsync", "os"]


class LogDirectoryError(Exception):
    """This broker must not use the directory; the message says why and what to do."""


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
    """What the logs of one directory share."""

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
        "log_count",
        "meta",
        "names",
        "on_failure",
        "path",
        "syncs_at_once",
    )

    def __init__(self, path: str, *, files: FileSystem, clock: Clock, durability: Durability) -> None:
        self.path = path
        self.files = files
        self.clock = clock
        self.durable = durability == "fsync"
        self.check_on_first_read = True
        """Whether what was on disk when a log was loaded is checked when it is read.

        See first_read.py.
        """
        self.error: StorageError | None = None
        """The error that took the directory offline."""
        self.on_failure: Callable[[LogDirectory, StorageError], None] = _ignore
        """Called once, when the directory goes offline."""
        self.before_truncation: Callable[[LogDirectory], None] = _ignore
        """Called when a log's flushed offset was lowered below its recovery point.

        The log is truncated there afterwards: a checkpoint that says more than the log holds would look like
        a loss after a crash.
        """
        self.deletions: list[PendingDeletion] = []
        self.syncs_at_once = False
        """Whether logs that are recovered, or closed, are synced together.

        They need not be synced one by one then: `sync_at_once` follows.
        """
        self.log_count = 0
        """The number of logs and copies here: a new one goes where there are fewest."""
        self._complain_at_ms = 0
        """When a lack is logged again: every client meets it."""
        self._space: DiskSpace | None = None
        self._lock: File | None = None
        self.meta = MetaProperties()
        """Whose directory this is, once it is open."""
        self.names = SharedSync(files, path)
        """Puts the names of its logs on disk."""
        self._written: MetaProperties | None = None

    def open(self) -> None:
        """Make the directory if it is missing, lock it, and read whose it is.

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
        """Make sure that the directory belongs to this broker; if nothing says so, write it.

        Raises:
            LogDirectoryError: it belongs to another broker or cluster.
            OSError: the disk failed.
        """
        meta = self.meta
        for name, found, own in (("cluster", meta.cluster_id, cluster_id), ("broker", meta.node_id, node_id)):
            if found not in (None, own) and not has_rotted(found, own):
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
        """Sync all that was not synced since `syncs_at_once` was set.

        Raises:
            ExhaustedError: it is still to be done.
            StorageError: the disk failed, and the directory is offline.
        """
        if self.syncs_at_once:
            try:
                self.files.sync_file_system(self.path)
            except OSError as error:
                raise self.failed("syncing all logs", error) from error
            self.syncs_at_once = False

    @property
    def syncs_each(self) -> bool:
        """Whether a small file is to be synced as it is written."""
        return self.durable and not self.syncs_at_once

    def require_online(self) -> None:
        """Raise StorageError if the directory is offline."""
        if self.error is not None:
            raise StorageError(self.path, f"The log directory {self.path} is offline: {self.error.message}")

    def failed(self, what: str, cause: Exception) -> StorageError:
        """Take the directory offline because `what` failed; return the error to raise.

        It stays online if the process lacked something, or if the disk is only full: a TransientStorageError
        is returned then.
        """
        if isinstance(cause, TransientStorageError):
            return cause
        if is_exhausted(cause):
            return self.exhausted(what, cause)
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

    def exhausted(self, what: str, cause: BaseException) -> ExhaustedError:
        """The error to raise because `what` met a lack (`is_exhausted`). Any thread may call this."""
        message = f"{what}: {what_is_lacking(cause)}"
        now_ms = self.clock.now_ms()
        if now_ms >= self._complain_at_ms:
            self._complain_at_ms = now_ms + _COMPLAIN_EVERY_MS
            logger.error("%s It is tried again.", message)
        return ExhaustedError(self.path, message)

    def delete_later(self, paths: list[str], delay_ms: int) -> None:
        """Remove `paths` when readers have had `delay_ms` to let go of them."""
        if paths:
            self.deletions.append(PendingDeletion(self.clock.now_ms() + delay_ms, paths))

    def delete_expired(self, now_ms: int) -> int:
        """Remove what `delete_later` put off, if the delay is over; return how many paths.

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


def has_rotted(found: object, own: object) -> bool:
    """Whether an id in a file is this one, shortened or with some characters damaged.

    This is for generated ids only: two of those never come so close.
    """
    if not isinstance(found, str) or not isinstance(own, str) or len(own) != _UUID_LENGTH:
        return False
    if own.startswith(found):
        return True
    at_start = _alike(found, own)
    at_end = _alike(found[at_start:][::-1], own[at_start:][::-1])
    return at_start + at_end >= _UUID_LENGTH // 2


def _alike(one: str, other: str) -> int:
    """How many characters two texts share from their start."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _ignore(*_: object) -> None:
    """Do nothing: nobody listens."""
