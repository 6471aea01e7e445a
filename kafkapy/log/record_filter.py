"""Which records of a log a reader wants: by topic, partition, offset, timestamp and key.

It is used at three places, each of which saves work for the next:

    plan.py            partitions without wanted records are not opened, and ranges of offsets become shorter
    range_reader.py    batches are not decoded if all records are too old, or no wanted key is in their bytes
    range_reader.py    of decoded records, only those wanted become rows

A batch's highest timestamp can be relied on: brokers correct it when they append the batch. Its lowest one is
not in the header, unless all records have the time of the broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from kafkapy.protocol.records import BatchHeader, TimestampType
from kafkapy.protocol.types import TopicPartition

_KEYS_LOOKED_FOR: Final = 8
"""To decode all records costs less than to look for more keys in their bytes."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Whole numbers from `first` to `last`, both included; None is no bound."""

    first: int | None = None
    last: int | None = None

    def __contains__(self, number: int) -> bool:
        return (self.first is None or number >= self.first) and (self.last is None or number <= self.last)

    @property
    def is_bounded(self) -> bool:
        """Whether some numbers are not in it."""
        return self.first is not None or self.last is not None

    def within(self, other: Interval) -> Interval:
        """Return the numbers that are in both."""
        firsts = [each for each in (self.first, other.first) if each is not None]
        lasts = [each for each in (self.last, other.last) if each is not None]
        return Interval(max(firsts, default=None), min(lasts, default=None))

    def clip(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of `start` to `end`, exclusive, that is in the interval."""
        start = start if self.first is None else max(start, self.first)
        return start, end if self.last is None else min(end, self.last + 1)


ALL_NUMBERS: Final = Interval()


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """The records that are wanted; by default all.

    Timestamps are in milliseconds.
    """

    topics: frozenset[str] | None = None
    partitions: Interval = ALL_NUMBERS
    offsets: Interval = ALL_NUMBERS
    timestamps: Interval = ALL_NUMBERS
    keys: frozenset[bytes] | None = None

    def with_topics(self, topics: Iterable[str]) -> RecordFilter:
        """Return the filter for records that are also in these topics."""
        wanted = frozenset(topics)
        return replace(self, topics=wanted if self.topics is None else wanted & self.topics)

    def with_keys(self, keys: Iterable[bytes]) -> RecordFilter:
        """Return the filter for records that also have one of these keys."""
        wanted = frozenset(keys)
        return replace(self, keys=wanted if self.keys is None else wanted & self.keys)

    def has_partition(self, topic_partition: TopicPartition) -> bool:
        """Return whether a partition may have wanted records."""
        topic, partition = topic_partition
        return (self.topics is None or topic in self.topics) and partition in self.partitions

    def may_have(self, header: BatchHeader) -> bool:
        """Return whether a batch may have wanted records, apart from its offsets and keys."""
        if header.timestamp_type == TimestampType.LOG_APPEND_TIME:
            return header.max_timestamp in self.timestamps
        return self.timestamps.first is None or header.max_timestamp >= self.timestamps.first

    def may_have_key(self, octets: bytes | bytearray, start: int, end: int) -> bool:
        """Return whether the records from `start` to `end` may have wanted keys.

        They are not compressed. That a key is in a value, or in two fields, is found out later. The lengths
        before keys are not looked for: a producer may write a number in more bytes than it needs.
        """
        keys = self.keys
        if keys is None or len(keys) > _KEYS_LOOKED_FOR:
            return True
        return any(octets.find(key, start, end) >= 0 for key in keys)


ALL_RECORDS: Final = RecordFilter()
