"""Opens the segments in a partition's directory, by the names of their files.

No `.log` file is read. Index files and producer snapshots that belong to no segment are removed. So is an
empty `.log` file, unless it is the last one, if the segment before it has records at its base offset or
above: it would hide them.

Source: LogLoader.loadSegmentFiles.
"""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import NamedTuple

from kafkapy.storage.damage.damage import DAMAGED_OFFSETS, DamagedRange, load_damage
from kafkapy.storage.disk.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    file_name,
    parse_file_name,
)
from kafkapy.storage.disk.log_directory import LogDirectory
from kafkapy.storage.log.index_file import CorruptIndexError
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.producer_snapshots import ProducerSnapshots
from kafkapy.storage.log.segment import Segment
from kafkapy.storage.log.unchecked import Unchecked

logger = logging.getLogger(__name__)


class SegmentFiles(NamedTuple):
    """The segments and other files of a partition's directory."""

    segments: list[Segment]
    snapshots: ProducerSnapshots
    names: set[str]
    """The names of all files of segments."""


def open_segments(log_directory: LogDirectory, path: str, config: LogConfig, now_ms: int) -> SegmentFiles:
    """The segments of the log in the directory `path`, with their noted damage.

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
        parsed = parse_file_name(entry.name)
        if parsed is None or parsed.mark:
            if entry.name == DAMAGED_OFFSETS:
                damage = load_damage(files, path)
            continue
        names.add(entry.name)
        if parsed.suffix == LOG_SUFFIX:
            sizes[parsed.offset] = entry.stat().st_size
        elif parsed.suffix == SNAPSHOT_SUFFIX:
            snapshots.append(parsed.offset)
        else:
            others.append((parsed.offset, entry.name))
    for base_offset, name in others:
        if base_offset not in sizes:
            logger.warning("Deleting %s/%s: it belongs to no segment.", path, name)
            files.unlink(f"{path}/{name}")
    segments = []
    for base_offset, size in sorted(sizes.items()):
        new = size == 0 and file_name(base_offset, INDEX_SUFFIX) not in names
        segment = Segment(files, path, base_offset, config, size=size, now_ms=now_ms, new=new)
        known = damage.get(base_offset, ())
        segment.damage = tuple(each for each in known if each.end_position <= size)
        if log_directory.check_on_first_read:
            segment.unchecked = Unchecked(size)
        segments.append(segment)
    # The last one is usually empty, and no segment comes after it.
    for before, segment in list(pairwise(segments[:-1])):
        if segment.size == 0 and before.size and _indexed_end(before) > segment.base_offset:
            logger.warning("Deleting %s: it is empty, and its offsets are in %s.", segment.path, before.path)
            for suffix in SEGMENT_SUFFIXES:
                files.unlink(segment.stem + suffix)
            segments.remove(segment)
            del sizes[segment.base_offset]
    producer_snapshots = ProducerSnapshots(files, path, snapshots)
    producer_snapshots.delete_strays(sizes)
    return SegmentFiles(segments, producer_snapshots, names)


def _indexed_end(segment: Segment) -> int:
    """The lowest possible end offset of the segment, according to its indexes."""
    try:
        segment.check_indexes()
        return max(index.last_offset for index in segment.indexes.both) + 1
    except (CorruptIndexError, FileNotFoundError):
        return segment.base_offset
    finally:
        segment.close_files()
