"""One pass of compaction over one log, for those who may have to stop it.

The pass runs in a thread of its own while the log is appended to and read. What changes the log under it
(truncation, deletion, a move to another directory, a topic that is no longer compacted) calls `abort` first,
on the event loop. From then on the pass touches no path in the partition's directory: each such step holds
the lock and checks whether the pass was aborted. A path may mean another log a moment later: that of a topic
of the same name. The pass may still read and write what it has open; nobody will see it.

Source: LogCleanerManager.abortCleaning.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kafkapy.storage.disk.files import FileSystem


class CleaningAbortedError(Exception):
    """The pass was stopped; the log is as it was."""


class CleaningTask:
    """Whether a pass may go on."""

    __slots__ = ("_aborted", "_files", "_lock", "_paths")

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._aborted = threading.Event()
        self._lock = threading.Lock()
        self._paths: list[str] = []
        """Files that the pass has made and that are not the log's yet.

        They are in the order in which they are removed.
        """

    @property
    def aborted(self) -> bool:
        return self._aborted.is_set()

    def check(self) -> None:
        """Raise CleaningAbortedError if the pass was aborted."""
        if self._aborted.is_set():
            raise CleaningAbortedError

    def wait(self, seconds: float) -> None:
        """Do nothing for a while.

        Raises CleaningAbortedError, at once if the pass is aborted meanwhile.
        """
        if self._aborted.wait(seconds):
            raise CleaningAbortedError

    @contextmanager
    def paths(self) -> Iterator[list[str]]:
        """Hold the paths in the partition's directory, and yield the list of the files made.

        Meanwhile the paths keep their meaning. Raises CleaningAbortedError.
        """
        with self._lock:
            self.check()
            yield self._paths

    def abort(self) -> None:
        """Stop the pass, and remove what it has made, before this returns. On the event loop.

        Raises:
            OSError: the disk failed.
        """
        with self._lock:
            self._aborted.set()
            self._remove()

    def remove_leftovers(self) -> None:
        """Remove what the pass has made and what did not become the log's: the pass failed.

        Raises:
            OSError: the disk failed.
        """
        with self._lock:
            if not self._aborted.is_set():
                self._remove()

    def _remove(self) -> None:
        """Remove the files, the `.log` file last.

        Recovery completes a swap as long as that file is there. Without it, it would put the index files of
        the swap in the place of the log's own.
        """
        for path in self._paths:
            self._files.unlink(path)
        if self._paths:
            self._files.sync_directory(self._paths[0].rpartition("/")[0])
        self._paths.clear()
