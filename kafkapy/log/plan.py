"""Plans a read: the ranges of offsets for some options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kafkapy.log.bounds import require_kept, resolve
from kafkapy.log.places import readers_of
from kafkapy.log.read_options import ReadOptions
from kafkapy.log.splits import OffsetRange, ranges_of
from kafkapy.log.store_files import StoreFiles
from kafkapy.patterns import compile_pattern
from kafkapy.protocol.topic_names import INTERNAL_TOPICS
from kafkapy.storage.offline.data_directory import PartitionDirectory, find_matching, find_partitions
from kafkapy.storage.offline.offline_error import LogSourceError
from kafkapy.storage.offline.offline_log import OfflineLog, read_log
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.storage.offline.transactions import TransactionTracker

T = TypeVar("T")


def plan_batch(files: ReadOnlyFiles, options: ReadOptions) -> list[OffsetRange]:
    """Return what a batch query reads, in ranges of about the same size.

    Raises:
        LogSourceError: a partition or its records do not exist, or cannot be read.
    """
    wanted = [each for each in find(files, options) if options.only.has_partition(each.topic_partition)]
    planned = look_at_all(files, wanted, lambda log: _plan(log, options))
    return [each for ranges in planned for each in ranges]


def look_at_all(
    files: ReadOnlyFiles, directories: Sequence[PartitionDirectory], look: Callable[[OfflineLog], T]
) -> list[T]:
    """Return what `look` finds in each log.

    In a store it looks at several at once, since most of it is waiting.

    Raises:
        LogSourceError: a log is damaged or cannot be read.
    """
    if not isinstance(files, StoreFiles) or len(directories) < 2:
        return [read_log(files, each, look) for each in directories]
    with ThreadPoolExecutor(readers_of(files), "kafkapy-plan") as pool:
        return list(pool.map(lambda each: read_log(files, each, look), directories))


def find(files: ReadOnlyFiles, options: ReadOptions) -> list[PartitionDirectory]:
    """Return the partitions that the options ask for.

    Raises:
        LogSourceError: one of them does not exist.
    """
    if options.pattern is not None:
        matches = compile_pattern(options.pattern).fullmatch
        return find_matching(
            files, options.paths, lambda topic: topic not in INTERNAL_TOPICS and matches(topic)
        )
    found = find_partitions(files, options.paths, options.topics)
    if options.partitions is None:
        return found
    known = [each.topic_partition for each in found]
    for topic, partition in sorted(options.partitions.difference(known)):
        there = [str(each.partition) for each in known if each.topic == topic]
        raise LogSourceError(
            f"There is no partition {partition} of {topic} in {', '.join(options.paths)}; there "
            f"{'is' if len(there) == 1 else 'are'} {', '.join(there)}."
        )
    return [each for each in found if each.topic_partition in options.partitions]


def _plan(log: OfflineLog, options: ReadOptions) -> list[OffsetRange]:
    tracker = TransactionTracker()
    limit = readable_end(log, tracker, options)
    start = resolve(options.starting, log, limit)
    end = resolve(options.ending, log, limit)
    start, end = options.only.offsets.clip(start, end)
    oldest = options.only.timestamps.first
    # If records before the log start were to be read, ranges_between says so: they may be as new.
    if oldest is not None and log.log_start_offset <= start < end:
        start = max(start, log.offset_for_timestamp(oldest))
    return ranges_between(log, tracker, start, end, options)


def readable_end(log: OfflineLog, tracker: TransactionTracker, options: ReadOptions) -> int:
    """Return where a reader with these options must stop."""
    return log.last_stable_offset(tracker) if options.read_committed else log.end_offset


def ranges_between(
    log: OfflineLog, tracker: TransactionTracker, start: int, end: int, options: ReadOptions
) -> list[OffsetRange]:
    """Return the offsets from `start` to `end` in ranges.

    Raises:
        LogSourceError: records in between are deleted.
    """
    partition: PartitionDirectory = log.directory
    start = require_kept(
        partition.topic_partition, start, log.log_start_offset, fail=options.fail_on_data_loss
    )
    aborted = log.aborted_transactions(tracker, start, end) if options.read_committed else []
    return ranges_of(log, start, end, aborted, range_bytes=options.range_bytes)
