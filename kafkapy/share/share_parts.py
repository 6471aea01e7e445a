"""The parts of a broker for share groups, beside their members."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kafkapy.configs.config import BrokerConfig
from kafkapy.coordination.timers import Timers
from kafkapy.coordination.topic_log import TopicLog
from kafkapy.loop.clock import Clock
from kafkapy.loop.waiters import Waiters
from kafkapy.metadata.image import MetadataImage
from kafkapy.replicas.partition import Partition
from kafkapy.share.led_partitions import LedPartitions
from kafkapy.share.persister import Persister
from kafkapy.share.sessions import ShareSession, ShareSessions
from kafkapy.share.settings import ShareSettings
from kafkapy.share.share_coordinator import ShareCoordinator, ShareCoordinatorConfig
from kafkapy.share.start_offset import StartOffsets


class ShareParts:
    """A broker's share partitions, the sessions of their members, and its share coordinator."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        timers: Timers,
        waiters: Waiters,
        log: TopicLog,
        persister: Persister,
        *,
        image: Callable[[], MetadataImage],
        find_partition: Callable[[str, int], Partition],
        blocking: Callable[..., Awaitable[Any]],
    ) -> None:
        """Make the parts, which are not started.

        `log` is that of `__share_group_state`. `blocking(call, *args)` runs a call in a worker thread.
        """
        self.persister = persister
        """Keeps the states of share partitions, wherever their coordinator is."""
        self.coordinator = ShareCoordinator(
            ShareCoordinatorConfig.from_broker(config),
            clock,
            timers,
            log,
            blocking=blocking,
        )
        starts = StartOffsets(
            clock,
            blocking=blocking,
            max_decompressed=lambda: config["max.decompressed.message.bytes"],
        )
        self.led = LedPartitions(
            persister,
            ShareSettings(config, image),
            clock,
            timers,
            waiters,
            find_partition=find_partition,
            find_offset=starts.find,
        )
        self.sessions = ShareSessions(lambda: config["group.share.max.share.sessions"], self._session_ended)

    def start(self, image: MetadataImage) -> None:
        """Load the states that this broker coordinates, in the background."""
        self.coordinator.start(image)

    def close_topic(self) -> None:
        """Answer requests for states no more: the broker stops."""
        self.coordinator.runtime.close_topic()

    @property
    def is_at_rest(self) -> bool:
        """Whether no state is being read or written."""
        return self.led.is_at_rest and not self.coordinator.runtime.is_writing

    async def stop(self) -> None:
        """Give up all share partitions, and unload all states."""
        await self.led.stop()
        await self.coordinator.stop()

    def metadata_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Act on topics that were deleted."""
        self.coordinator.metadata_changed(old, new)
        self.led.metadata_changed(old, new)

    def leadership_changed(self, topic: str, partition: int, leads: bool, leader_epoch: int) -> None:
        """Act on a change of what this broker leads."""
        self.coordinator.leadership_changed(topic, partition, leads, leader_epoch)
        self.led.leadership_changed(topic, partition, leads, leader_epoch)

    def _session_ended(self, session: ShareSession) -> None:
        self.led.release(session.member_id, session.keys)
        if not self.sessions.has_group(session.group_id):
            self.led.drop_group(session.group_id)
