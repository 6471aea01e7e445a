"""The interface of an internal topic's log, as coordinators use it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.records import BatchHeader
from kafkapy.storage.log.markers import TransactionMarker
from kafkapy.storage.log.verification import Verification

Done = Callable[[ErrorCode], None]


class TopicLog(Protocol):
    """The partitions of an internal topic on this broker."""

    @property
    def topic(self) -> str:
        """The topic's name."""
        ...

    def partition_count(self) -> int:
        """The number of the topic's partitions; 0 while it does not exist."""
        ...

    async def create(self) -> None:
        """Create the topic if it is missing.

        Raises KafkaError.
        """
        ...

    def is_empty(self, partition: int) -> bool:
        """Whether there is nothing to read in the partition."""
        ...

    def end_offset(self, partition: int) -> int:
        """The offset of the next record of a partition, which this broker leads."""
        ...

    def is_committed(self, partition: int, offset: int) -> bool:
        """Whether everything below an offset is committed.

        Raises KafkaError if this broker does not lead the partition.
        """
        ...

    def delete_before(self, partition: int, offset: int) -> None:
        """Delete the records below an offset, which are committed: nobody needs them.

        Raises KafkaError if this broker does not lead the partition.
        """
        ...

    def leader_epoch(self, partition: int) -> int:
        """The leader epoch of a partition, which this broker leads."""
        ...

    def max_batch_bytes(self, partition: int) -> int:
        """The most bytes of a batch that the partition takes (max.message.bytes).

        Raises:
            KafkaError: the partition cannot be used.
        """
        ...

    def append(
        self,
        partition: int,
        header: BatchHeader,
        batch: memoryview,
        *,
        verification: Verification | None = None,
    ) -> ErrorCode | None:
        """Append a batch that was built now, and has the time as its timestamp.

        Returns NONE if it is committed at once, the error if it is refused, and otherwise None: see
        `when_committed`. A batch that begins a transaction needs a `verification`.
        """
        ...

    def append_marker(
        self, partition: int, producer_id: int, producer_epoch: int, marker: TransactionMarker
    ) -> ErrorCode | None:
        """Append the marker of a transaction; the result is that of `append`."""
        ...

    def when_committed(self, partition: int, done: Done) -> None:
        """Call `done` later: when the append that was just made is committed, or has failed.

        It must be called for each append that returned None, before anything else is appended. Appends to
        one partition are reported in their order.
        """
        ...

    @property
    def has_uncommitted(self) -> bool:
        """Whether an append waits to be committed."""
        ...

    def leadership_lost(self, partition: int) -> None:
        """Report the appends that wait as failed with NOT_LEADER_OR_FOLLOWER.

        Another broker leads the partition. It decides which of them are committed.
        """
        ...

    async def wait_for_commits(self, partition: int) -> int:
        """Wait until what is in the partition now is committed; return its end.

        It does not wait for very long.

        Raises:
            KafkaError: it cannot be read.
        """
        ...

    def read(self, partition: int, end_offset: int) -> AsyncIterator[bytes]:
        """Read the batches of a partition below an offset, in order; no result ends within a batch.

        Raises:
            KafkaError: they cannot be read.
        """
        ...
