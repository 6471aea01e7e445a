"""Compaction of one log, step by step as the log cleaner does it, without its threads and its loop."""

from __future__ import annotations

from collections.abc import Callable

from kafkapy.protocol.records import Record, decode_records, iter_headers
from kafkapy.storage.cleaning.cleanable import look_at, plan
from kafkapy.storage.cleaning.cleaner import Cleaner
from kafkapy.storage.cleaning.pace import Pace
from kafkapy.storage.cleaning.plan import CleaningLimits, CleaningStats
from kafkapy.storage.cleaning.swap import prepare
from kafkapy.storage.cleaning.task import CleaningTask
from kafkapy.storage.cleaning.throttle import Throttle
from kafkapy.storage.log import PartitionLog
from kafkapy.storage.manager import LogManager

UNTHROTTLED = Throttle(float("inf"))


def nothing() -> None:
    pass


def compact(
    manager: LogManager,
    log: PartitionLog,
    *,
    map_bytes: int = 1 << 20,
    before_swap: Callable[[], None] = nothing,
) -> CleaningStats | None:
    """One pass over the log; None where nothing is dirty. `before_swap` is called before each swap."""
    now_ms = manager.clock.now_ms()
    cleanable = look_at(log, now_ms)
    if cleanable is None:
        return None
    log.flush()
    manager.checkpoint_recovery_points()()
    task = log.cleaning = CleaningTask(manager.files)
    planned = plan(cleanable, now_ms)
    cleaner = Cleaner(
        manager.files, planned, task, CleaningLimits(map_bytes), UNTHROTTLED, Pace(lambda: False)
    )
    try:
        next_dirty = cleaner.build_map()
        for group in cleaner.groups():
            cleaned = cleaner.clean(group)
            prepare(manager.files, task, planned.directory, cleaned)
            before_swap()
            log.replace_segments(task, cleaned, group)
        log.cleaned_offset = next_dirty
        manager.checkpoint_cleaner_offsets()()
    finally:
        log.stop_cleaning()
    return cleaner.stats


def compact_fully(manager: LogManager, log: PartitionLog, *, map_bytes: int = 1 << 20) -> None:
    """Close the active segment and compact everything, in as many rounds as that takes."""
    log.roll()
    log.advance_high_watermark(log.log_end_offset)
    while compact(manager, log, map_bytes=map_bytes) is not None:
        pass


def records_of(log: PartitionLog) -> list[Record]:
    """Every record of the log, those of control batches left out."""
    records = []
    for segment in log.segments:
        if segment.size:
            data = log.log_directory.files.read_at(segment.file, segment.size, 0)
            for position, header in iter_headers(data):
                if not header.is_control:
                    records += decode_records(data, position, header)
    return records
