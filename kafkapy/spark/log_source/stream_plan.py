"""Plans a stream: the offsets that the next micro-batch reads.

Before Spark 4.2, Spark does not tell the position of the query when it asks for the latest offsets. It tells
the position when it asks for the ranges of a micro-batch. After a restart from a checkpoint it asks for the
empty ranges at the last known offsets. The planner remembers the position from these requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kafkapy.log.bounds import resolve
from kafkapy.log.offsets_json import offsets_from, offsets_to
from kafkapy.log.places import open_files
from kafkapy.log.plan import find, look_at_all, ranges_between, readable_end
from kafkapy.log.read_options import ReadOptions
from kafkapy.log.splits import OffsetRange
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.offline.data_directory import PartitionDirectory
from kafkapy.storage.offline.offline_error import LogSourceError
from kafkapy.storage.offline.offline_log import OfflineLog, read_log
from kafkapy.storage.offline.transactions import TransactionTracker

Offsets = dict[str, dict[str, int]]

T = TypeVar("T")


class StreamPlanner:
    """The driver's part of a stream."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._files = open_files(options)
        self._trackers: dict[TopicPartition, TransactionTracker] = {}
        self._initial: Offsets | None = None
        self._position: dict[TopicPartition, int] | None = None
        self._last: dict[TopicPartition, int] | None = None
        """Where the stream ends for good; None if it does not."""

    def initial_offsets(self) -> Offsets:
        """Return where a new query starts."""
        if self._initial is None:
            options = self._options

            def start(log: OfflineLog) -> int:
                limit = readable_end(log, self._tracker(log), options)
                return resolve(options.starting, log, limit)

            self._initial = offsets_to(self._of_each(start).items())
        return self._initial

    def end_here(self) -> None:
        """Let the stream end at what there is now."""
        self._last = {each: end for each, (_, end) in self._bounds().items()}

    def latest_offsets(self, start: Offsets | None = None, *, bounded: bool = True) -> Offsets:
        """Return where the next micro-batch after `start`, or after the known position, may end.

        If it is not `bounded`, maxOffsetsPerTrigger does not count.

        Raises:
            LogSourceError: a partition is gone. It must not be missed later: if it is there again after a
                moment, it would be read from its start.
        """
        if start is not None:
            position = offsets_from(start)
        else:
            position = offsets_from(self.initial_offsets()) if self._position is None else self._position
        found = self._bounds()
        if self._options.fail_on_data_loss:
            for topic_partition in sorted(position.keys() - found.keys()):
                raise _gone(topic_partition)
        if self._last is not None:
            last = self._last
            found = {
                each: (first, min(end, last.get(each, 0)))
                for each, (first, end) in found.items()
                if each in last or each in position
            }
        starts = {each: position.get(each, log_start) for each, (log_start, _) in found.items()}
        latest = {each: max(end, starts[each]) for each, (_, end) in found.items()}
        bound = self._options.max_offsets_per_trigger
        if bounded and bound is not None:
            latest = share(starts, latest, bound)
        return offsets_to(latest.items())

    def _bounds(self) -> dict[TopicPartition, tuple[int, int]]:
        """Return the log start offset and the readable end of each partition."""

        def bounds(log: OfflineLog) -> tuple[int, int]:
            return log.log_start_offset, readable_end(log, self._tracker(log), self._options)

        return self._of_each(bounds)

    def ranges(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        """Return what a micro-batch between the offsets reads.

        Raises:
            LogSourceError: records are gone or cannot be read.
        """
        starts, ends = offsets_from(start), offsets_from(end)
        self._position = ends
        wanted = {each: at for each, at in ends.items() if starts.get(each) != at}
        directories = {each.topic_partition: each for each in self._partitions()} if wanted else {}
        ranges: list[OffsetRange] = []
        for topic_partition, at in wanted.items():
            directory = directories.get(topic_partition)
            if directory is None:
                if self._options.fail_on_data_loss:
                    raise _gone(topic_partition)
                continue
            ranges += self._ranges_of(directory, starts.get(topic_partition), at)
        return ranges

    def _ranges_of(self, directory: PartitionDirectory, start: int | None, end: int) -> list[OffsetRange]:
        def plan(log: OfflineLog) -> list[OffsetRange]:
            tracker = self._tracker(log)
            limit = readable_end(log, tracker, self._options)
            if end > limit and self._options.fail_on_data_loss:
                raise LogSourceError(
                    f"{directory.topic_partition} ends at offset {limit}, but the stream read up to {end}: "
                    f"it was truncated or created again. Start with a new checkpoint, or set "
                    f"failOnDataLoss to false."
                )
            first = log.log_start_offset if start is None else start
            return ranges_between(log, tracker, first, min(end, limit), self._options)

        return read_log(self._files, directory, plan)

    def _of_each(self, look: Callable[[OfflineLog], T]) -> dict[TopicPartition, T]:
        """Return what `look` finds in each partition's log."""
        directories = self._partitions()
        found = look_at_all(self._files, directories, look)
        return dict(zip((each.topic_partition for each in directories), found, strict=True))

    def _partitions(self) -> list[PartitionDirectory]:
        return find(self._files, self._options)

    def _tracker(self, log: OfflineLog) -> TransactionTracker:
        """Return the tracker of the log's transactions, a new one if the log has become shorter."""
        topic_partition = log.directory.topic_partition
        tracker = self._trackers.get(topic_partition)
        if tracker is None or tracker.position > log.end_offset:
            tracker = self._trackers[topic_partition] = TransactionTracker()
        return tracker


def _gone(topic_partition: TopicPartition) -> LogSourceError:
    return LogSourceError(f"{topic_partition} is gone; set failOnDataLoss to false to continue without it.")


def share(
    starts: dict[TopicPartition, int], ends: dict[TopicPartition, int], bound: int
) -> dict[TopicPartition, int]:
    """Return ends at most `bound` offsets after the starts, shared in proportion.

    As in the Kafka source, each partition that has new offsets moves by at least one.
    """
    total = sum(ends[each] - starts[each] for each in ends)
    if total <= bound:
        return ends
    return {
        each: min(end, starts[each] + max((end - starts[each]) * bound // total, 1))
        for each, end in ends.items()
    }
