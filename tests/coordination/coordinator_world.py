"""A coordinator with its log, clock and timers in memory, and topics that tests change."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, Self, TypeVar

from kafkapy.coordination.runtime import CoordinatorRuntime
from kafkapy.metadata.image import MetadataImage, PartitionState, Topic
from kafkapy.protocol.types import Uuid, random_uuid
from tests.groups.memory_log import MemoryLog
from tests.loop.turned_clock import TurnedClock, TurnedTimers


class Coordinator(Protocol):
    """What the coordinators of groups and of the states of share groups have in common."""

    @property
    def runtime(self) -> CoordinatorRuntime[Any]:
        """Its partitions."""

    def start(self, image: MetadataImage) -> None:
        """Begin with this image."""

    async def stop(self) -> None:
        """End."""

    def metadata_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Take over an image."""


C = TypeVar("C", bound=Coordinator)


class CoordinatorWorld(ABC, Generic[C]):
    """A coordinator and its surroundings; `restart` leaves only the log."""

    def __init__(self, log: MemoryLog) -> None:
        self.clock = TurnedClock()
        self.clock.seconds = 1000.0
        self.timers = TurnedTimers(self.clock)
        self.log = log
        self.image = MetadataImage()
        self.coordinator = self._begin()

    @abstractmethod
    def made(self) -> C:
        """A coordinator that has not started."""

    def _begin(self) -> C:
        made = self.made()
        self.log.created = lambda: self.publish(self.image.with_topics([self.log.entry()]))
        return made

    async def start(self) -> Self:
        self.coordinator.start(self.image)
        await self.coordinator.runtime.ensure_topic()
        await self.settle()
        return self

    async def restart(self) -> C:
        """Another coordinator takes over from the log, and reads it in the background."""
        await self.coordinator.stop()
        self.coordinator = self._begin()
        self.coordinator.start(self.image)
        return self.coordinator

    async def loaded(self) -> None:
        """Wait until the coordinator has read its partitions."""
        for _ in range(1_000):
            if not self.coordinator.runtime.is_loading:
                return
            await asyncio.sleep(0)
        raise TimeoutError

    async def settle(self) -> None:
        """Let work in the background end."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        self.timers.advance(seconds)
        await self.settle()

    # --- metadata -------------------------------------------------------------------------------------

    def publish(self, image: MetadataImage) -> None:
        old, self.image = self.image, image
        self.coordinator.metadata_changed(old, image)

    def topic(self, name: str, partitions: int, topic_id: Uuid | None = None) -> Uuid:
        """Create a topic, or give it more partitions."""
        known = self.image.topics.get(name)
        states = tuple(PartitionState(1, 0, (1,), (1,)) for _ in range(partitions))
        topic = Topic(name, topic_id or (random_uuid() if known is None else known.id), states)
        self.publish(self.image.with_topics([topic]))
        return topic.id

    def delete_topic(self, name: str) -> None:
        self.publish(self.image.with_topics(deleted=[name]))
