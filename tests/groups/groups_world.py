"""A coordinator of groups with a log in memory, a clock, and topics that the test changes.

Each kind of group adds its requests to it.
"""

from __future__ import annotations

import asyncio
from typing import Self, TypeVar

from kafkapy.groups.config import GroupConfig
from kafkapy.groups.coordinator import GroupCoordinator
from kafkapy.groups.share.persister import StateKeeper
from kafkapy.metadata.image import MetadataImage, PartitionState, Topic
from kafkapy.protocol.types import Uuid, random_uuid
from tests.groups.memory_log import Blocking, MemoryLog, coordinator, run_here
from tests.loop.turned_clock import TurnedClock, TurnedTimers

G = TypeVar("G")


class GroupsWorld:
    """A coordinator and its surroundings; `restart` leaves only the log."""

    def __init__(
        self,
        config: GroupConfig,
        partitions: int = 1,
        *,
        share_state: StateKeeper | None = None,
        blocking: Blocking = run_here,
    ) -> None:
        """Give the log of the groups so many partitions; `blocking` does the work of threads."""
        self.config = config
        self.clock = TurnedClock()
        self.clock.seconds = 1000.0
        self.timers = TurnedTimers(self.clock)
        self.log = MemoryLog(partitions)
        self.image = MetadataImage()
        self._share_state, self._blocking = share_state, blocking
        self.groups = self._coordinator()

    def _coordinator(self) -> GroupCoordinator:
        made = coordinator(
            self.log,
            self.clock,
            self.timers,
            self.config,
            share_state=self._share_state,
            blocking=self._blocking,
        )
        self.log.created = lambda: self.publish(self.image.with_topics([self.log.entry()]))
        return made

    async def start(self) -> Self:
        self.groups.start(self.image)
        await self.groups.runtime.ensure_topic()
        await self.settle()
        return self

    async def restart(self) -> GroupCoordinator:
        """Another coordinator takes over from the log."""
        await self.groups.stop()
        self.groups = self._coordinator()
        self.groups.start(self.image)
        await self.loaded()
        await self.settle()
        return self.groups

    async def loaded(self) -> None:
        """Wait until the coordinator has read its partitions."""
        for _ in range(1_000):
            if not self.groups.runtime.is_loading:
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
        self.groups.metadata_changed(old, image)

    def topic(self, name: str, partitions: int) -> Uuid:
        """Create a topic, or give it more partitions."""
        known = self.image.topics.get(name)
        states = tuple(PartitionState(1, 0, (1,), (1,)) for _ in range(partitions))
        topic = Topic(name, random_uuid() if known is None else known.id, states)
        self.publish(self.image.with_topics([topic]))
        return topic.id

    def delete_topic(self, name: str) -> None:
        self.publish(self.image.with_topics(deleted=[name]))

    # --- groups ---------------------------------------------------------------------------------------

    def found(self, kind: type[G], group_id: str = "g") -> G:
        """The group in memory, which is of this kind."""
        group = self.groups.groups[group_id]
        assert isinstance(group, kind)
        return group
