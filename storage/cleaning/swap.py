"""Replaces segments of a log by the compacted one.

    1. `.cleaned`   the new files are written and synced                   (cleaned_segment.py)
    2. `.swap`      they are renamed, and the directory is synced          prepare, in a thread
    3. the old segments are renamed to `.deleted`; the new files get their
       final names, `.log` first; the log in memory changes too            replace, on the event loop

Crash story (leftovers.py): if a `.cleaned` file is left, all `.cleaned` and `.swap` files at its offset and
above are removed, since the old segments still exist. If there is a `.log.swap` file, the swap is completed:
the segments in its range of offsets are removed, and it gets its final name. If there are only other `.swap`
files, they get their final names. File systems keep the renames in a directory in order, so a power loss
leaves one of these states. Compacted segments are below the checkpointed recovery point, so recovery does not
miss the removed records. The last batch of a new segment is kept, even if it is empty. So even a log without
that checkpoint has no gap between segments, which would look like lost records.

Readers that have an old segment open can read on: its files are removed after file.delete.delay.ms.

Source: UnifiedLog.replaceSegments, LogLoader.removeTempFilesAndCollectSwapFiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkapy.storage.cleaning.cleaned_segment import CleanedSegment
from kafkapy.storage.cleaning.task import CleaningAbortedError, CleaningTask
from kafkapy.storage.disk.file_names import CLEANED_SUFFIX, SWAP_SUFFIX, path_stem
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.segment import Segment

if TYPE_CHECKING:
    from kafkapy.storage.cleaning.plan import SourceSegment
    from kafkapy.storage.log.log_state import LogState


def prepare(files: FileSystem, task: CleaningTask, directory: str, cleaned: CleanedSegment) -> None:
    """Rename the new files to `.swap`, so that a restart completes the swap.

    Raises:
        CleaningAbortedError: the log changed, and the new files are removed.
        OSError: the disk failed.
    """
    stem = path_stem(directory, cleaned.base_offset)
    with task.paths() as paths:
        # `.log` comes last, since recovery completes the swap if it exists.
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
    """Replace `sources` by the new segment, on the event loop.

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
    stem = path_stem(log.path, cleaned.base_offset)
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
