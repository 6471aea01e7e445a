"""What a segment and its indexes know of each other."""

from __future__ import annotations

import gc
from pathlib import Path

from kafkapy.storage.disk.file_names import INDEX_SUFFIX
from kafkapy.storage.disk.files import FileSystem
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.segment import Segment
from kafkapy.storage.log.segment_indexes import SegmentIndexes
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import Logs, fill


def indexes_in_memory() -> int:
    return sum(isinstance(each, SegmentIndexes) for each in gc.get_objects())


def test_a_dropped_segment_is_freed_without_the_collector(tmp_path: Path) -> None:
    gc.collect()
    gc.disable()
    try:
        before = indexes_in_memory()
        segment = Segment.create(FileSystem(), str(tmp_path), 0, LogConfig(), START_MS)
        assert indexes_in_memory() == before + 1
        segment.close_files()
        del segment
        assert indexes_in_memory() == before
    finally:
        gc.enable()


def test_a_first_append_that_rebuilds_the_indexes_keeps_its_timestamp(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    fill(logs.log, 1)
    logs.log.truncate_to(0)
    logs.stop()
    (index,) = logs.path.glob(f"*{INDEX_SUFFIX}")
    index.write_bytes(bytes(5))
    logs.manager = logs.new_manager()
    fill(logs.log, 1)
    assert logs.log.segments.active.rolling_timestamp == START_MS
