"""The check and the repair of a segment's indexes in a thread, while its readers wait.

A check reads all entries, and a rebuild walks over all batches of the segment, which takes a second for a
million of them. So a read of the event loop (`FileSystem.cached_only`) raises IndexesNotReadyError instead:

    loop     `repair_of` begins a repair, or returns the one under way, for all readers of the segment
    thread   `run` checks the indexes. If they are damaged, it builds others in `.tmp` files, and syncs them
    loop     `settle` lets the segment learn what was loaded, or renames the new files; then reads continue

Meanwhile the log is used as before. Batches that are appended meanwhile are indexed by the thread, the last
ones on the loop. A truncation, a deletion, a move, and anything else that closes the files of the segment
stops the repair first (`SegmentIndexes.stop_repair`). From then on the thread uses no path in the directory,
which may soon be that of another log: it creates files under a lock, and only if the repair was not stopped.

Crash story: an index has its old content or a complete new one. A start removes `.tmp` files (leftovers.py).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from itertools import takewhile

from kafkapy.storage.disk.file_names import TEMPORARY_SUFFIX
from kafkapy.storage.log.batches import BatchPlace
from kafkapy.storage.log.index_file import CorruptIndexError
from kafkapy.storage.log.segment import IndexesNotReadyError, Segment

logger = logging.getLogger(__name__)


def repair_of(missing: IndexesNotReadyError) -> IndexRepair | None:
    """The repair that a read has to wait for; None if the segment has changed: read again.

    Call this on the event loop.
    """
    indexes = missing.segment.indexes
    if indexes.changes != missing.changes:
        return None
    if not isinstance(indexes.repair, IndexRepair):
        indexes.repair = IndexRepair(missing.segment, missing.reason)
    return indexes.repair


class IndexRepair:
    """One repair of the indexes of a segment."""

    __slots__ = ("_error", "_is_built", "_lock", "_reason", "_segment", "_temporary", "_view", "waiting")

    def __init__(self, segment: Segment, reason: str) -> None:
        """Repair the indexes if they are damaged, or rebuild them because of `reason`."""
        self._segment = segment
        self._reason = reason
        self._view = _View(segment)
        self._lock = threading.Lock()
        """Held for the creation of files, and their removal."""
        self._temporary: list[str] = []
        """The paths of the files that are created and are not the segment's yet."""
        self._is_built = False
        self._error: Exception | None = None
        self.waiting: list[Callable[[], None]] = []
        """Called on the loop after `settle`."""

    def run(self) -> None:
        """Check the indexes, and rebuild them if necessary.

        `settle` reports errors.
        """
        view = self._view
        try:
            if not self._reason:
                try:
                    view.check_indexes(thoroughly=True)
                except (CorruptIndexError, FileNotFoundError) as error:
                    self._reason = str(error)
            if self._reason:
                view.close_files()
                self._build()
        except Exception as error:
            self._error = error
            view.indexes.forget_unwritten()
        finally:
            view.close_files()

    def _build(self) -> None:
        segment, view = self._segment, self._view
        with self._lock:
            if view.is_over:
                return
            logger.warning("Rebuilding the indexes of %s: %s", segment.path, self._reason)
            for index in view.indexes.both:
                index.path += TEMPORARY_SUFFIX
                self._temporary.append(index.path)
            view.indexes.reset()
            view.indexes.complete()  # opens their files
            _ = view.file  # and this one: no path is used any more
        size = 0
        while size < (end := segment.size) and not view.is_over:
            view.size = end
            view.index_batches(size)
            size = end
        view.indexes.complete()
        for index in view.indexes.both:
            handle = index.flush_handle()
            try:
                segment.files.sync_data(handle)
            finally:
                handle.release()
        self._is_built = True

    def settle(self) -> None:
        """Give the segment its indexes, on the loop, unless the repair was stopped.

        If it failed, the next reader that needs the indexes gets the error.
        """
        segment = self._segment
        if self._view.is_over:
            return
        if self._error is None:
            try:
                if self._is_built:
                    segment.take_indexes(self._view)
                else:
                    segment.indexes.learn(self._view.indexes)
            except (OSError, MemoryError) as error:
                self._error = error
        segment.indexes.end_repair(self._error)

    def stop(self) -> None:
        """End the repair without effect.

        Call this on the loop, after the `changes` of the indexes have risen.
        """
        with self._lock:
            for path in self._temporary:
                self._segment.files.unlink(path)

    def give_up(self) -> None:
        """Have the repair stopped, if it is not, on the loop."""
        if not self._view.is_over:
            self._segment.indexes.stop_repair()

    def fail(self, error: Exception) -> None:
        """Have `settle` report that `run` could not run."""
        self._error = error


class _View(Segment):
    """The segment as the thread sees it, with files of its own."""

    __slots__ = ("_changes", "_segment")

    def __init__(self, segment: Segment) -> None:
        directory = segment.path.rpartition("/")[0]
        super().__init__(
            segment.files,
            directory,
            segment.base_offset,
            segment.config,
            size=segment.size,
            now_ms=0,
            new=False,
        )
        self.damage = segment.damage
        self._segment = segment
        self._changes = segment.indexes.changes

    @property
    def is_over(self) -> bool:
        """Whether the segment has changed since, other than by appends."""
        return self._segment.indexes.changes != self._changes

    def places(self, start: int = 0, end: int | None = None) -> Iterator[BatchPlace]:
        """The batches between two positions, until the segment changes."""
        return takewhile(lambda _: not self.is_over, super().places(start, end))
