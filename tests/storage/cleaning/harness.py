"""Compaction of one log in the steps of the log cleaner, without its threads and loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kafkapy.protocol.control_records import ControlType, control_record_key, end_txn_marker_value
from kafkapy.protocol.records import Record, build_batch, decode_records, iter_headers
from kafkapy.storage.cleaning.cleanable import look_at, plan
from kafkapy.storage.cleaning.cleaner import Cleaner
from kafkapy.storage.cleaning.pace import Pace
from kafkapy.storage.cleaning.plan import CleaningLimits, CleaningStats
from kafkapy.storage.cleaning.swap import prepare, replace
from kafkapy.storage.cleaning.task import CleaningTask
from kafkapy.storage.cleaning.throttle import Throttle
from kafkapy.storage.directories.log_manager import LogManager
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.log.validate import AppendOrigin
from tests.loop.turned_clock import START_MS
from tests.storage.log_harness import Logs, append

UNTHROTTLED = Throttle(float("inf"))
COMPACT = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=1000,
    index_interval_bytes=100,
    delete_retention_ms=1000,
)
DAY = 86_400_000


def nothing() -> None:
    pass


def compact(
    manager: LogManager,
    log: PartitionLog,
    *,
    map_bytes: int = 1 << 20,
    before_swap: Callable[[], None] = nothing,
) -> CleaningStats | None:
    """Make one pass over the log, calling `before_swap` before each swap; None if it is clean."""
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
            log.replace_segments(partial(replace, task=task, cleaned=cleaned, sources=group))
        log.cleaned_offset = next_dirty
        manager.checkpoint_cleaner_offsets()()
    finally:
        log.stop_cleaning()
    return cleaner.stats


def compact_fully(manager: LogManager, log: PartitionLog, *, map_bytes: int = 1 << 20) -> None:
    """Roll the log, and compact it until nothing is dirty."""
    log.roll()
    log.advance_high_watermark(log.log_end_offset)
    while compact(manager, log, map_bytes=map_bytes) is not None:
        pass


def records_of(log: PartitionLog) -> list[Record]:
    """Return the records of the log, except those of control batches."""
    records = []
    for segment in log.segments:
        if segment.size:
            data = log.log_directory.files.read_at(segment.file, segment.size, 0)
            for position, header in iter_headers(data):
                if not header.is_control:
                    records += decode_records(data, position, header)
    return records


def put(
    log: PartitionLog, key: bytes, value: bytes | None, timestamp: int = START_MS, producer_id: int = -1
) -> int:
    """Append a record that readers see at once, and return its offset."""
    batch = build_batch(
        [Record(-1, timestamp, key, value)],
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
    )
    info = log.append(memoryview(batch), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=timestamp)
    log.advance_high_watermark(log.log_end_offset)
    return info.first_offset


def fill(log: PartitionLog, count: int, keys: int = 3, timestamp: int = START_MS) -> None:
    for number in range(count):
        put(log, b"key-%d" % (number % keys), b"value".ljust(100, b"."), timestamp)


def compacted(tmp_path: Path, config: LogConfig = COMPACT) -> Logs:
    return Logs(tmp_path, config=config)


def put_transaction(
    log: PartitionLog, key: bytes, value: bytes | None, sequence: int, end: ControlType
) -> None:
    producer: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "transactional": True}
    record = Record(-1, START_MS, key, value)
    marker = Record(-1, START_MS, control_record_key(end), end_txn_marker_value(0))
    for batch, origin in (
        (build_batch([record], base_sequence=sequence, **producer), AppendOrigin.CLIENT),
        (build_batch([marker], control=True, **producer), AppendOrigin.COORDINATOR),
    ):
        append(log, batch, origin=origin, now_ms=START_MS)
    log.advance_high_watermark(log.log_end_offset)
