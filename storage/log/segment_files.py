"""The segments in a partition's directory, opened by the names of their files.

No file is read. Index files without a segment are removed, and so are producer snapshots that belong to none.
A `.log` file without a byte whose name is an offset of the segment before it is no segment: it would hide the
records from there on. It is removed too.

Source: LogLoader.loadSegmentFiles.
"""

from __future__ import annotations

import logging
import re
from itertools import pairwise
from typing import Final, NamedTuple

from kafkapy.storage.damage.damage import DAMAGED_OFFSETS, DamagedRange, load_damage
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.index_file import CorruptIndexError
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.producer_snapshots import ProducerSnapshots, snapshot_offset
from kafkapy.storage.log.segment import INDEX_SUFFIX, LOG_SUFFIX, SUFFIXES, Segment
from kafkapy.storage.log.unchecked import Unchecked

logger = logging.getLogger(__name__)

SEGMENT_FILE: Final = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)")


class SegmentFiles(NamedTuple):
    """What was found."""

    segments: list[Segment]
    snapshots: ProducerSnapshots
    names: set[str]
    """The names of all files of segments."""


def open_segments(log_directory: LogDirectory, path: str, config: LogConfig, now_ms: int) -> SegmentFiles:
    """The segments of the log in the directory `path`, in offset order.

    Each comes with what is known of its damage.

    Raises:
        OSError: the disk failed.
    """
    files = log_directory.files
    names: set[str] = set()
    sizes: dict[int, int] = {}
    others: list[tuple[int, str]] = []
    snapshots: list[int] = []
    damage: dict[int, tuple[DamagedRange, ...]] = {}
    for entry in files.scan(path):
        match = SEGMENT_FILE.fullmatch(entry.name)
        if match is None:
            if entry.name == DAMAGED_OFFSETS:
                damage = load_damage(files, path)
            continue
        names.add(entry.name)
        if match[2] == LOG_SUFFIX:
            sizes[int(match[1])] = entry.stat().st_size
        elif (offset := snapshot_offset(entry.name)) is not None:
            snapshots.append(offset)
        else:
            others.append((int(match[1]), entry.name))
    for base_offset, name in others:
        if base_offset not in sizes:
            logger.warning("Deleting %s/%s: there is no segment for it.", path, name)
            files.unlink(f"{path}/{name}")
    segments = []
    for base_offset, size in sorted(sizes.items()):
        new = size == 0 and f"{base_offset:020d}{INDEX_SUFFIX}" not in names
        segment = Segment(files, path, base_offset, config, size=size, now_ms=now_ms, new=new)
        known = damage.get(base_offset, ())
        segment.damage = tuple(each for each in known if each.end_position <= size)
        if log_directory.check_on_first_read:
            segment.unchecked = Unchecked(size)
        segments.append(segment)
    # The last one is usually empty, and no segment comes after it.
    for before, segment in list(pairwise(segments[:-1])):
        if segment.size == 0 and before.size and _indexed_end(before) > segment.base_offset:
            logger.warning(
                "Deleting %s: it is empty, and records lie there in %s.", segment.path, before.path
            )
            for suffix in SUFFIXES:
                files.unlink(segment.stem + suffix)
            segments.remove(segment)
            del sizes[segment.base_offset]
    producer_snapshots = ProducerSnapshots(files, path, snapshots)
    producer_snapshots.delete_strays(sizes)
    return SegmentFiles(segments, producer_snapshots, names)


def _indexed_end(segment: Segment) -> int:
    """An offset that the segment reaches at least, according to its indexes."""
    try:
        segment.check_indexes()
        return max(segment.offset_index.last_offset, segment.time_index.last_offset) + 1
    except (CorruptIndexError, FileNotFoundError):
        return segment.base_offset
    finally:
        segment.close_files()
