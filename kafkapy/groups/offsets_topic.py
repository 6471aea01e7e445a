"""`__consumer_offsets`: which partition a group lives in, and how its records get there.

A group's partition is the hash of its id modulo the number of partitions, as in every Kafka release:
Java's String.hashCode, over UTF-16. Writes of one partition are committed in the order in which they
were made, and each tells its maker so exactly once.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, Protocol

from kafkapy.groups.group import Group
from kafkapy.groups.records import encode_group_key, encode_group_value
from kafkapy.process.clock import Clock
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.records import Record, build_batch

Done = Callable[[ErrorCode], None]

MAX_BATCH_BYTES: Final = 512 * 1024
"""Well below the default max.message.bytes; a group of thousands of partitions is written in several
batches."""

_RECORD_OVERHEAD: Final = 32
_RETRY_LATER: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT}
)
_LOST: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class OffsetsLog(Protocol):
    """The partitions of `__consumer_offsets` on this broker."""

    def partition_count(self) -> int:
        """How many partitions the topic has; 0 while it does not exist."""
        ...

    async def create(self) -> None:
        """Make the topic. Raises KafkaError where that is not possible."""
        ...

    def is_empty(self, partition: int) -> bool:
        """Whether there is nothing to read in the partition."""
        ...

    def append(self, partition: int, batch: bytearray, done: Done) -> None:
        """Append a batch; `done` is called once, when it is committed or has failed, possibly at once."""
        ...

    def read(self, partition: int) -> AsyncIterator[bytes]:
        """All batches of a partition, whole and in order. Raises KafkaError where they cannot be read."""
        ...


@lru_cache(maxsize=8192)
def java_hash(text: str) -> int:
    """Java's String.hashCode."""
    # Without a search for the codec's module, which takes a descriptor.
    encoded, _ = codecs.utf_16_be_encode(text, "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(encoded) // 2}H", encoded):
        value = value * 31 + unit & 0xFFFFFFFF
    return value - 0x100000000 if value & 0x80000000 else value


def partition_of(group_id: str, partitions: int) -> int:
    """The partition of a group (Kafka's Utils.abs makes 0 of the one number without a positive twin)."""
    value = java_hash(group_id)
    return (0 if value == -0x80000000 else abs(value)) % partitions


def coordinator_error(error: ErrorCode) -> ErrorCode:
    """What a client of the coordinator is told when an append failed with `error`."""
    if error in _RETRY_LATER:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _LOST:
        return ErrorCode.NOT_COORDINATOR
    if error in _TOO_LARGE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return error


class OffsetsTopic:
    """Writes the records of groups and offsets."""

    def __init__(self, log: OffsetsLog, clock: Clock, lost: Callable[[int], None]) -> None:
        self.log = log
        self._clock = clock
        self._lost = lost
        """Told of a partition that this broker can no longer write."""
        self.partitions = 0
        """How many partitions the topic has; 0 while it does not exist."""

    def partition_of(self, group_id: str) -> int:
        return partition_of(group_id, self.partitions)

    def store_group(self, group: Group, assignments: Mapping[str, bytes], done: Done) -> None:
        """Write a group's metadata, its members with these assignments (`environment.GroupStore`)."""
        value = encode_group_value(group, assignments)
        self.write(
            group.group_id,
            [(encode_group_key(group.group_id), value)],
            lambda error: done(coordinator_error(error)),
        )

    def write(self, group_id: str, records: Sequence[tuple[bytes, bytes | None]], done: Done) -> None:
        """Write records of one group, at least one: keys with values, or with None for a tombstone. `done` is
        called once, for all of them."""
        now = self._clock.now_ms()
        partition = self.partition_of(group_id)
        batches = [
            build_batch(Record(-1, now, key, value, []) for key, value in part) for part in _parts(records)
        ]
        waiting = len(batches)
        failed = ErrorCode.NONE

        def finished(error: ErrorCode) -> None:
            nonlocal waiting, failed
            waiting -= 1
            if error is not ErrorCode.NONE:
                failed = error
                if error in _LOST:
                    self._lost(partition)
            if not waiting:
                done(failed)

        for batch in batches:
            self.log.append(partition, batch, finished)


def _parts(records: Sequence[tuple[bytes, bytes | None]]) -> Iterator[Sequence[tuple[bytes, bytes | None]]]:
    """The records in parts that fit into a batch; one record alone may still be too large."""
    start = size = 0
    for index, (key, value) in enumerate(records):
        nbytes = len(key) + len(value or b"") + _RECORD_OVERHEAD
        if size and size + nbytes > MAX_BATCH_BYTES:
            yield records[start:index]
            start, size = index, 0
        size += nbytes
    yield records[start:]
