"""The log of an internal topic, as a coordinator uses it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from kafkapy.protocol.errors import ErrorCode

Done = Callable[[ErrorCode], None]


class TopicLog(Protocol):
    """The partitions of an internal topic on this broker."""

    @property
    def topic(self) -> str:
        """The topic's name."""
        ...

    def partition_count(self) -> int:
        """How many partitions the topic has; 0 while it does not exist."""
        ...

    async def create(self) -> None:
        """Make the topic if it is not there. Raises KafkaError where that is not possible."""
        ...

    def is_empty(self, partition: int) -> bool:
        """Whether there is nothing to read in the partition."""
        ...

    def append(self, partition: int, batch: bytearray, done: Done) -> None:
        """Append a batch; `done` is called once, possibly before this returns.

        It is called when the batch is committed or has failed. Appends to one partition are reported in their
        order.
        """
        ...

    def read(self, partition: int) -> AsyncIterator[bytes]:
        """Read all batches of a partition in order; no result ends within a batch.

        Raises:
            KafkaError: they cannot be read.
        """
        ...
