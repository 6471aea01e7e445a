"""What an interrupted deletion or compaction left in a partition's directory.

It is removed or completed. Compaction writes `.cleaned` files, renames them to `.swap`, then deletes the old
segments and removes the suffix (cleaning/swap.py). `.deleted` files were to be removed, `.snapshot.tmp` files
to be finished.

Crash story: each step may be repeated.

Source: LogLoader.removeTempFilesAndCollectSwapFiles.
"""

from __future__ import annotations

import logging
from typing import Final

from kafkapy.storage.disk.files import CorruptLogError
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.batches import BadBatchError, iter_places
from kafkapy.storage.log.producer_snapshots import SNAPSHOT_SUFFIX, UNNAMED_SUFFIX
from kafkapy.storage.log.segment import DELETED_SUFFIX, LOG_SUFFIX, SUFFIXES
from kafkapy.storage.log.segment_files import SEGMENT_FILE

logger = logging.getLogger(__name__)

_CLEANED_SUFFIX: Final = ".cleaned"
_SWAP_SUFFIX: Final = ".swap"


def finish_interrupted_work(log_directory: LogDirectory, path: str) -> None:
    """Remove what was to be deleted; complete a swap that had reached its last step.

    A swap puts compacted segments in the place of others. A `.swap` file at or above a `.cleaned` one is not
    complete: if there are several new segments, they are renamed from the highest offset down.

    Raises:
        CorruptLogError: a compacted segment is damaged, and nothing else is left of its records.
        OSError: the disk failed.
    """
    files = log_directory.files
    names = [entry.name for entry in files.scan(path)]
    cleaned = [name for name in names if name.endswith(_CLEANED_SUFFIX)]
    swaps = [name for name in names if name.endswith(_SWAP_SUFFIX)]
    lowest_cleaned = min((int(name[:20]) for name in cleaned if name[:20].isdecimal()), default=None)
    incomplete = [
        name for name in swaps if lowest_cleaned is not None and name[:20] >= f"{lowest_cleaned:020d}"
    ]
    unwanted = [name for name in names if name.endswith((DELETED_SUFFIX, SNAPSHOT_SUFFIX + UNNAMED_SUFFIX))]
    for name in unwanted + cleaned + incomplete:
        files.unlink(f"{path}/{name}")
    complete = [name for name in swaps if name not in incomplete]
    if complete:
        _complete_swap(log_directory, path, names, complete)


def _complete_swap(log_directory: LogDirectory, path: str, names: list[str], swaps: list[str]) -> None:
    files = log_directory.files
    logs = [name for name in swaps if name.endswith(LOG_SUFFIX + _SWAP_SUFFIX)]
    if logs:
        start, end = int(logs[0][:20]), 0
        for name in logs:
            end = max(end, _end_of_file(log_directory, path, name))
        for name in names:
            match = SEGMENT_FILE.fullmatch(name)
            if match and match[2] in SUFFIXES and start <= int(match[1]) < end:
                files.unlink(f"{path}/{name}")
    for name in logs + [name for name in swaps if name not in logs]:
        files.rename(f"{path}/{name}", f"{path}/{name.removesuffix(_SWAP_SUFFIX)}")
    files.sync_directory(path)


def _end_of_file(log_directory: LogDirectory, directory: str, name: str) -> int:
    """The offset after the last batch of a file that is not a segment yet."""
    files, path = log_directory.files, f"{directory}/{name}"
    file = files.open(path)
    try:
        end = 0
        for place in iter_places(files, file, 0, files.size(path)):
            end = place.last_offset + 1
        return end
    except BadBatchError as error:
        message = f"{directory} stays offline: its compacted segment {path} is damaged: {error}"
        logger.error("%s", message)
        raise CorruptLogError(log_directory.path, message) from error
    finally:
        file.release()
