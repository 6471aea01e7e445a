"""The logs of a running broker as they are at one moment.

`moments_of` notes where each log ends. It runs on the event loop without a pause, so no append comes between
two logs. What it notes are references and numbers, for 1 to 3 microseconds a log. `described` then collects
the rest, log by log, and may do so while appends continue: what comes after the moment is left out by its
offset.

Between the moment and the end of the copy, segments must not go: nobody may delete or compact them
(`LogManager.hold`), nor delete a topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkapy.protocol.types import TopicPartition, Uuid
from kafkapy.storage.damage.damage import DamagedRange
from kafkapy.storage.log.partition_log import PartitionLog
from kafkapy.storage.log.producers import ProducerEntry
from kafkapy.storage.log.segment import Segment


class LogMoment(NamedTuple):
    """What of a log changes with each append, at one moment."""

    log: PartitionLog
    end_offset: int
    active: Segment
    size: int
    """The bytes of the active segment."""
    entries: tuple[int, int]
    """The entries of its indexes by offset and time; -1 if they are not loaded."""
    producers: Mapping[int, ProducerEntry]


class LogCopy(NamedTuple):
    """What a copy of a log consists of."""

    topic_partition: TopicPartition
    path: str
    topic_id: Uuid | None
    log_start_offset: int
    high_watermark: int
    end_offset: int
    cleaned_offset: int | None
    closed: tuple[int, ...]
    """The base offsets of the segments before the active one."""
    active: int
    size: int
    entries: tuple[int, int]
    snapshots: tuple[int, ...]
    """The offsets of the producer snapshots up to the end."""
    producers: Mapping[int, ProducerEntry]
    epochs: tuple[tuple[int, int], ...]
    damage: Mapping[int, tuple[DamagedRange, ...]]

    @property
    def first(self) -> int:
        """The base offset of the first segment."""
        return self.closed[0] if self.closed else self.active


def moments_of(logs: Iterable[PartitionLog]) -> list[LogMoment]:
    """The moment of each log that has ever had a record.

    A broker makes the others anew from its metadata.
    """
    return [
        LogMoment(
            log,
            end_offset,
            active,
            active.size,
            (active.indexes.offset_index.entries, active.indexes.time_index.entries),
            log.producers.copy_producers(),
        )
        for log in logs
        if (end_offset := log.log_end_offset)
        for active in (log.segments.active,)
    ]


def described(moment: LogMoment) -> LogCopy:
    """The parts of a log's copy, on the event loop, at the moment or later."""
    log, end_offset, base_offset = moment.log, moment.end_offset, moment.active.base_offset
    damage = {segment.base_offset: segment.damage for segment in log.segments if segment.damage}
    return LogCopy(
        topic_partition=log.topic_partition,
        path=log.path,
        topic_id=log.topic_id,
        log_start_offset=min(log.log_start_offset, end_offset),
        high_watermark=min(log.high_watermark, end_offset),
        end_offset=end_offset,
        cleaned_offset=None if log.cleaned_offset is None else min(log.cleaned_offset, end_offset),
        closed=tuple(each.base_offset for each in log.segments if each.base_offset < base_offset),
        active=base_offset,
        size=moment.size,
        entries=moment.entries,
        snapshots=tuple(offset for offset in log.snapshots.offsets if offset <= base_offset),
        producers=moment.producers,
        epochs=tuple(each for each in log.leader_epochs.entries if each[1] < end_offset),
        damage={base: each for base, each in damage.items() if base <= base_offset},
    )
