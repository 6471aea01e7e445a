"""Putting a compacted segment in the place of those that it was made from.

    1. `.cleaned`   the new files are written and synced                   (cleaned_segment.py)
    2. `.swap`      they are renamed, and the directory is synced          prepare, in a thread
    3. the log's segments become `.deleted`; the new ones get their names,
       `.log` first; the log in memory changes with them                   replace, on the event loop

Crash story (recovery.py): if a `.cleaned` file is left, whatever is `.cleaned` or `.swap` from there on is
removed, as the log's own segments are all there. If the `.log.swap` is there, the swap is completed: segments
in the range of its offsets are removed, and it gets its name. If only other `.swap` files are there, they get
their names. File systems keep changes of names in one directory in order, so a power cut leaves one of these
states. What is compacted is below the recovery point, in its checkpoint too: recovery does not look for what
is gone. The last batch of a new segment stays, even if it is empty. So a log that has lost that checkpoint
has no gap between segments that would look like a loss.

A reader that holds a slice of an old segment goes on: the file is open, and is removed after
file.delete.delay.ms.

Source: UnifiedLog.replaceSegments, LogLoader.removeTempFilesAndCollectSwapFiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkapy.storage.cleaning.cleaned_segment import CLEANED_SUFFIX, CleanedSegment
from kafkapy.storage.cleaning.task import CleaningAbortedError, CleaningTask
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.segment import Segment, segment_stem

if TYPE_CHECKING:
    from kafkapy.storage.cleaning.plan import SourceSegment
    from kafkapy.storage.log.log_state import LogState

SWAP_SUFFIX = ".swap"


def prepare(files: FileSystem, task: CleaningTask, directory: str, cleaned: CleanedSegment) -> None:
    """Make sure that from now on a restart completes the swap.

    Raises:
        CleaningAbortedError: the log changed; what was prepared is gone.
        OSError: the disk failed.
    """
    stem = segment_stem(directory, cleaned.base_offset)
    with task.paths() as paths:
        # `.log` comes last: recovery goes by it.
        for index, suffix in enumerate(reversed(cleaned.suffixes)):
            files.rename(stem + suffix + CLEANED_SUFFIX, stem + suffix + SWAP_SUFFIX)
            paths[index] = stem + suffix + SWAP_SUFFIX
    try:
        files.sync_directory(directory)
    except FileNotFoundError:
        task.check()  # the directory is gone
        raise


def replace(
    log: LogState, task: CleaningTask, cleaned: CleanedSegment, sources: Sequence[SourceSegment]
) -> None:
    """Put the new segment in the place of `sources`, on the event loop.

    Raises:
        CleaningAbortedError: the log changed.
        OSError: the disk failed half-way.
    """
    log_directory, files = log.log_directory, log.log_directory.files
    bases = {source.base_offset for source in sources}
    old = [segment for segment in log.segments if segment.base_offset in bases]
    if [segment.size for segment in old] != [source.size for source in sources]:
        raise CleaningAbortedError
    with task.paths() as paths:
        paths.clear()
    stem = segment_stem(log.path, cleaned.base_offset)
    for segment in old:
        log_directory.delete_later(segment.mark_deleted(), log.config.file_delete_delay_ms)
    for suffix in cleaned.suffixes:
        files.rename(stem + suffix + SWAP_SUFFIX, stem + suffix)
    now_ms = log_directory.clock.now_ms()
    new = Segment(
        files, log.path, cleaned.base_offset, log.config, size=cleaned.size, now_ms=now_ms, new=False
    )
    log.segments.replace(old, new)
    log.reader.forget()
    for segment in old:
        log.unsynced.forget(segment)
        if segment.base_offset != cleaned.base_offset:
            log.snapshots.delete(segment.base_offset)
    log.unsynced.directories[log.path] = None
