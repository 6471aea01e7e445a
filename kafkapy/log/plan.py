"""Plans a read: the ranges of offsets for some options."""

from __future__ import annotations

from kafkapy.log.bounds import require_kept, resolve
from kafkapy.log.read_options import ReadOptions
from kafkapy.log.splits import OffsetRange, ranges_of
from kafkapy.storage.offline.data_directory import PartitionDirectory, find_partitions
from kafkapy.storage.offline.offline_error import LogSourceError
from kafkapy.storage.offline.offline_log import OfflineLog, read_log
from kafkapy.storage.offline.read_only_files import ReadOnlyFiles
from kafkapy.storage.offline.transactions import TransactionTracker


def plan_batch(files: ReadOnlyFiles, options: ReadOptions) -> list[OffsetRange]:
    """Return what a batch query reads, in ranges of about the same size.

    Raises:
        LogSourceError: a partition or its records do not exist, or cannot be read.
    """
    ranges: list[OffsetRange] = []
    for directory in choose(find_partitions(files, options.paths, options.topics), options):
        ranges += read_log(files, directory, lambda log: _plan(log, options))
    return ranges


def choose(directories: list[PartitionDirectory], options: ReadOptions) -> list[PartitionDirectory]:
    """Return the partitions that the options ask for.

    Raises:
        LogSourceError: one of them does not exist.
    """
    if options.partitions is None:
        return directories
    known = {directory.topic_partition.partition for directory in directories}
    if missing := sorted(options.partitions - known):
        there = ", ".join(map(str, sorted(known)))
        raise LogSourceError(
            f"There is no partition {missing[0]} of {options.topics[0]} in {', '.join(options.paths)}; there "
            f"{'is' if len(known) == 1 else 'are'} {there}."
        )
    return [each for each in directories if each.topic_partition.partition in options.partitions]


def _plan(log: OfflineLog, options: ReadOptions) -> list[OffsetRange]:
    tracker = TransactionTracker()
    limit = readable_end(log, tracker, options)
    start = resolve(options.starting, log, limit)
    end = resolve(options.ending, log, limit)
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
    return ranges_of(log, start, end, aborted)
