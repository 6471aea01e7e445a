"""Lets the event loop abort a pass of compaction over a log.

The pass runs in a thread of its own while the log is appended to and read. Other changes of the log
(truncation, deletion, a move to another directory, a topic that is no longer compacted) first call `abort` on
the event loop. From then on the pass uses no path in the partition's directory, since the path may soon be
that of another log, of a new topic with the same name. So each step that uses a path holds the lock, and
checks whether the pass was aborted. The pass may still read and write its open files, without effect.

Source: LogCleanerManager.abortCleaning.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kafkapy.storage.disk.files import FileSystem


class CleaningAbortedError(Exception):
    """The pass was aborted, and has not changed the log."""


class CleaningTask:
    """The files of a pass that are not the log's yet, and whether it was aborted."""

    __slots__ = ("_aborted", "_files", "_lock", "_paths")

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._aborted = threading.Event()
        self._lock = threading.Lock()
        self._paths: list[str] = []
        """The files that the pass has created and that are not the log's yet, in the order of removal."""

    @property
    def aborted(self) -> bool:
        return self._aborted.is_set()

    def check(self) -> None:
        """Raise CleaningAbortedError if the pass was aborted."""
        if self._aborted.is_set():
            raise CleaningAbortedError

    def wait(self, seconds: float) -> None:
        """Wait for so many seconds.

        Raises CleaningAbortedError as soon as the pass is aborted.
        """
        if self._aborted.wait(seconds):
            raise CleaningAbortedError

    @contextmanager
    def paths(self) -> Iterator[list[str]]:
        """Hold the lock for the use of paths, and yield the list of the created files.

        Meanwhile the partition's directory stays the same. Raises CleaningAbortedError.
        """
        with self._lock:
            self.check()
            yield self._paths

    def abort(self) -> None:
        """Abort the pass and remove its files.

        Call this on the event loop.

        Raises:
            OSError: the disk failed.
        """
        with self._lock:
            self._aborted.set()
            self._remove()

    def _remove(self) -> None:
        """Remove the files, the `.log` file last.

        Recovery completes a swap as long as that file exists. Without it, it would replace the log's index
        files by those of the swap.
        """
        for path in self._paths:
            self._files.unlink(path)
        if self._paths:
            self._files.sync_directory(self._paths[0].rpartition("/")[0])
        self._paths.clear()
