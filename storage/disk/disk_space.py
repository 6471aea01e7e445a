"""The free space of a log directory's disk, and the writers that may use the last of it.

Two things let the broker work on a full disk:

- A free-space limit. Below it, Produce requests of clients are refused (KAFKA_STORAGE_ERROR) before they
  write. The rest of the space is for `__consumer_offsets`, transaction markers, checkpoints and indexes.
- A reserve, since other programs do not know the limit: `.kafkapy_reserve` in the log directory, a file of
  real blocks, kept with durability=fsync. If one of the broker's own writes finds the disk full, the file is
  cut and the write is tried again. Coordinators (commits, new ids, transaction markers) have one half of it.
  The other half is for metadata, deletions, checkpoints, the stop and the start: with it an operator can
  delete topics, however many commits clients send. While it is in use, or without a reserve, coordinators are
  refused if fewer bytes are free than this half has, so that they do not use it up. The file is filled again
  when there is space. Apache Kafka ignores it, and it may be deleted at any time.

The free space is looked up (statvfs) when an append comes a second or more after the last look, or when
appends may have used up half of the space above the limit. So clients can write again soon after space is
freed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from kafkapy.storage.disk.errors import is_disk_full
from kafkapy.storage.disk.files import FileSystem

logger = logging.getLogger(__name__)

RESERVE_FILE = ".kafkapy_reserve"
T = TypeVar("T")

_MAX_LIMIT = 64 << 20
_MAX_RESERVE = 16 << 20
_LOOK_EVERY_MS = 1000
_REMEDY = (
    "Free space, delete topics, or lower retention.ms or retention.bytes; "
    "writing resumes by itself when there is space."
)


class DiskSpace:
    """The free space of one log directory."""

    __slots__ = (
        "_admitted",
        "_coordinators_refused",
        "_directory",
        "_files",
        "_free",
        "_look_at_ms",
        "coordinators_limit",
        "full",
        "limit",
        "reserve_bytes",
        "reserved",
    )

    def __init__(self, files: FileSystem, directory: str, *, keep_reserve: bool) -> None:
        self._files = files
        self._directory = directory
        total = files.total_bytes(directory)
        self.limit = min(_MAX_LIMIT, total // 50)
        """The free-space limit: with fewer free bytes, clients may not write."""
        reserve_bytes = min(_MAX_RESERVE, total // 64)
        self.reserve_bytes = reserve_bytes if keep_reserve else 0
        self.coordinators_limit = reserve_bytes // 2
        """The free bytes below which coordinators may not write while nothing is reserved."""
        reserve = f"{directory}/{RESERVE_FILE}"
        self.reserved = files.size(reserve) if self.reserve_bytes > 0 and files.exists(reserve) else 0
        """The bytes of the reserve file, which has blocks for them."""
        self.full = False
        self._free = 0
        """The free bytes at the last look."""
        self._coordinators_refused = False
        """Whether the log says that coordinators are refused."""
        self._admitted = 0
        """The bytes that clients may append before the next look."""
        self._look_at_ms = 0

    def admit(self, nbytes: int, now_ms: int) -> bool:
        """Whether a client may append `nbytes`."""
        self._admitted -= nbytes
        if self._admitted < 0 or now_ms >= self._look_at_ms:
            self.look(now_ms)
            self._admitted -= nbytes
        return not self.full

    def admit_coordinator(self, now_ms: int) -> bool:
        """Whether a coordinator may append."""
        if self.reserved:
            return True  # what the others need is in the file
        if now_ms >= self._look_at_ms:
            self.look(now_ms)
        if self._free >= self.coordinators_limit:
            return True
        self.refuse_coordinators()
        return False

    def refuse_coordinators(self) -> None:
        """Log that the coordinators are refused, once until there is space again."""
        if not self._coordinators_refused:
            self._coordinators_refused = True
            logger.error(
                "The disk of %s is so full that offset commits, new members and transactions are refused "
                "(COORDINATOR_NOT_AVAILABLE): the rest is for topic changes, deletions and restarts. %s",
                self._directory,
                _REMEDY,
            )

    def look(self, now_ms: int) -> None:
        """Look up the free space, and set the state from it."""
        self._free = free = self._files.free_bytes(self._directory)
        self._look_at_ms = now_ms + _LOOK_EVERY_MS
        self._admitted = max((free - self.limit) // 2, 0)
        if free < self.limit:
            if not self.full:
                logger.error(
                    "The disk of %s is full: %d bytes are free, less than the %d kept for the broker itself. "
                    "Producers are refused (KAFKA_STORAGE_ERROR), consumers continue. %s",
                    self._directory,
                    free,
                    self.limit,
                    _REMEDY,
                )
            self.full = True
            return
        if self.full:
            logger.info("The disk of %s has space again: %d bytes are free.", self._directory, free)
        self.full = self._coordinators_refused = False
        if self.reserved < self.reserve_bytes and free > 2 * self.limit + self.reserve_bytes:
            self._fill_reserve()

    def _fill_reserve(self) -> None:
        try:
            file = self._files.open(f"{self._directory}/{RESERVE_FILE}", create=True)
        except OSError as error:
            logger.warning("No space is reserved in %s: %s", self._directory, error)
            return
        try:
            self._files.allocate(file, self.reserve_bytes)
            self.reserved = self.reserve_bytes
        except OSError as error:
            logger.warning("No space is reserved in %s: %s", self._directory, error)
            # The disk became full meanwhile. An incomplete reserve would waste space.
            self._files.truncate(file, 0)
            self.reserved = 0
        finally:
            file.release()

    def with_reserve(self, write: Callable[[], T]) -> T:
        """Call `write`; if the disk is full, release the reserve and call it again.

        Raises:
            OSError: the error of the last call.
        """
        try:
            return write()
        except OSError as error:
            if not is_disk_full(error) or not self.release_reserve():
                raise
        return write()

    def release_reserve(self) -> bool:
        """Release half of the reserve, as the disk is full; return False if all is used.

        The half for coordinators is the first: the other is left for when the disk is full again.
        """
        return self._cut_reserve(self.reserve_bytes // 2) or self._cut_reserve(0)

    def release_coordinators_half(self) -> bool:
        """Release the half of the reserve for coordinators; return False if it is used already."""
        if self._cut_reserve(self.reserve_bytes // 2):
            return True
        self.refuse_coordinators()
        return False

    def _cut_reserve(self, left: int) -> bool:
        """Cut the reserve file; return False if it is no larger."""
        self._look_at_ms = 0
        released = self.reserved - left
        if released <= 0:
            return False
        self.reserved = left
        file = self._files.open(f"{self._directory}/{RESERVE_FILE}", create=True)
        try:
            self._files.truncate(file, left)
        finally:
            file.release()
        logger.error(
            "The disk of %s is full to the last byte; %d reserved bytes go to the broker's own writes. %s",
            self._directory,
            released,
            _REMEDY,
        )
        return True
