"""The files that an interrupted deletion or compaction left in a partition's directory.

A start removes or completes it. Compaction writes `.cleaned` files, renames them to `.swap`, then deletes the
old segments and removes the suffix (cleaning/swap.py). `.deleted` files belong to deleted segments,
`.snapshot.tmp` files are unfinished snapshots, and `.index.tmp` and `.timeindex.tmp` files are indexes that
were being rebuilt (index_repair.py).

Crash story: each step may be repeated.

Source: LogLoader.removeTempFilesAndCollectSwapFiles.
"""

from __future__ import annotations

import logging
from typing import Final

from kafkapy.storage.disk.errors import CorruptLogError
from kafkapy.storage.disk.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    file_name,
    parse_file_name,
)
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.batches import BadBatchError, iter_places

_UNWANTED: Final = (
    DELETED_SUFFIX,
    *(suffix + TEMPORARY_SUFFIX for suffix in (SNAPSHOT_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)),
)

logger = logging.getLogger(__name__)


def finish_interrupted_work(log_directory: LogDirectory, path: str) -> None:
    """Remove deleted and unfinished files, and complete a swap that had reached its last step.

    A swap replaces segments by compacted ones. A `.swap` file at or above a `.cleaned` one is not
    complete: if there are several new segments, they are renamed from the highest offset down.

    Raises:
        CorruptLogError: a compacted segment is damaged, and it is the only copy of its records.
        OSError: the disk failed.
    """
    files = log_directory.files
    names = [entry.name for entry in files.scan(path)]
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    lowest_cleaned = min(
        (parsed.offset for name in cleaned if (parsed := parse_file_name(name)) is not None), default=None
    )
    incomplete = [
        name for name in swaps if lowest_cleaned is not None and name >= file_name(lowest_cleaned, "")
    ]
    unwanted = [name for name in names if name.endswith(_UNWANTED)]
    for name in unwanted + cleaned + incomplete:
        files.unlink(f"{path}/{name}")
    complete = [name for name in swaps if name not in incomplete]
    if complete:
        _complete_swap(log_directory, path, names, complete)


def _complete_swap(log_directory: LogDirectory, path: str, names: list[str], swaps: list[str]) -> None:
    files = log_directory.files
    parsed = {name: parse_file_name(name) for name in names}
    logs = {name: each.offset for name in swaps if (each := parsed[name]) and each.suffix == LOG_SUFFIX}
    if logs:
        start, end = min(logs.values()), 0
        for name in logs:
            end = max(end, _end_of_file(log_directory, path, name))
        for name, each in parsed.items():
            if each and each.suffix in SEGMENT_SUFFIXES and not each.mark and start <= each.offset < end:
                files.unlink(f"{path}/{name}")
    for name in [*logs, *(name for name in swaps if name not in logs)]:
        files.rename(f"{path}/{name}", f"{path}/{name.removesuffix(SWAP_SUFFIX)}")
    files.sync_directory(path)


def _end_of_file(log_directory: LogDirectory, directory: str, name: str) -> int:
    """Return the offset after the last batch of a file that is not a segment yet."""
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
