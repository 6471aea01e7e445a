"""A producer and a group's consumer at work on a topic of their own, and what they saw.

The producer is idempotent and counts up; the consumer, alone in its group, commits what it was given. Both
write down every record, what their application was told, and the errors that their library met.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection

Place = tuple[int, int]
"""Partition and offset."""


class WorkingClients(ABC):
    """The clients of one library.

    Subclasses fill what they see from threads of their own.
    """

    name: str

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.topic, self.group = f"{self.name}-records", f"{self.name}-readers"
        self.acknowledged: list[tuple[Place, str]] = []
        self.consumed: list[tuple[Place, str]] = []
        self.assignments: list[Collection[int]] = []
        """The partitions of the consumer after each rebalance."""
        self.told: list[str] = []
        """Errors that reached the application."""

    @abstractmethod
    def start(self) -> None:
        """Begin to produce and to consume."""

    @abstractmethod
    def stop_producer(self) -> None:
        """Send no more, and wait until everything is acknowledged."""

    @abstractmethod
    def stop_consumer(self) -> None:
        """Commit, and leave the group."""

    @abstractmethod
    def errors(self) -> Counter[str]:
        """Kafka's names of the errors that brokers answered, as the library's log has them."""

    @abstractmethod
    def end(self) -> None:
        """Nothing of them continues."""
