"""The coordinators of a broker, which are made when they are first needed.

They are a third of a broker's code: of groups, of transactions, of the states of share groups. A sole broker
without an internal topic coordinates nothing yet, and mostly never will in a test. So its start does without
them. The first request for a coordinator, or the first internal topic that this broker leads, has their
modules imported, in a worker thread, so that other requests are served meanwhile. All other brokers make
them before they serve clients.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from kafkapy.broker.administration import Administration
from kafkapy.broker.data import Data
from kafkapy.broker.replication import Replication
from kafkapy.broker.start import Start
from kafkapy.broker.workers import Workers
from kafkapy.loop.collector import without_collections
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.topic_names import INTERNAL_TOPICS
from kafkapy.storage.disk.errors import is_exhausted

if TYPE_CHECKING:
    from kafkapy.broker.coordinators import Coordinators
    from kafkapy.metadata.image import MetadataImage

Make: TypeAlias = "Callable[[], Coordinators]"

logger = logging.getLogger(__name__)


class Coordination:
    """Makes the coordinators, and tells them what this broker leads."""

    def __init__(
        self,
        start: Start,
        workers: Workers,
        data: Data,
        replication: Replication,
        administration: Administration,
        *,
        made: Callable[[Coordinators], None],
    ) -> None:
        """`made` is called with the coordinators before they load anything."""
        self._parts = start, workers, data, replication, administration
        self._metadata = start.metadata
        self._blocking = workers.threads.blocking
        self._make_room = data.logs.files.open_files.make_room
        self._made = made
        self._coordinators: Coordinators | None = None
        self._making: asyncio.Task[None] | None = None
        self._is_running = False
        self._changes: list[tuple[str, int, bool, int]] = []
        """The changes of leadership that the coordinators are to hear of when they are made."""

    @property
    def is_made(self) -> bool:
        """Whether there are coordinators."""
        return self._coordinators is not None

    @property
    def is_at_rest(self) -> bool:
        """Whether the coordinators have ended all that they have begun."""
        return self._coordinators is None or self._coordinators.are_at_rest

    def prepare(self, image: MetadataImage) -> None:
        """Make the coordinators at once, unless a broker with these metadata can do without.

        Raises:
            UnusableClassError: group.consumer.assignors names one that cannot be used.
        """
        config = self._parts[0].config
        has_assignors = "group.consumer.assignors" in config.originals
        if config.clustered or has_assignors or not INTERNAL_TOPICS.isdisjoint(image.topics):
            self._add(self._import())

    def start(self) -> None:
        """Let the coordinators load their state, in the background, and follow the metadata."""
        self._is_running = True
        if self._coordinators is not None:
            self._coordinators.start(self._metadata)
        elif self._changes:
            self._begin()

    async def make(self) -> None:
        """Make the coordinators, unless there are some.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, the broker lacks descriptors; the next call tries again.
        """
        if self._coordinators is None:
            await asyncio.shield(self._begin())
            if self._coordinators is None:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def leadership_changed(self, topic: str, partition: int, leads: bool, leader_epoch: int) -> None:
        """Act after this broker has become the leader of a partition, or ceased to be."""
        if self._coordinators is not None:
            self._coordinators.leadership_changed(topic, partition, leads, leader_epoch)
        elif topic in INTERNAL_TOPICS:
            self._changes.append((topic, partition, leads, leader_epoch))
            if self._is_running:
                self._begin()

    def close_topics(self) -> None:
        """Answer no more requests: the broker stops."""
        if self._coordinators is not None:
            self._coordinators.close_topics()

    async def stop(self) -> None:
        """Stop the coordinators, and make none any more."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.wait([self._making])
        if self._coordinators is not None:
            await self._coordinators.stop()

    def _begin(self) -> asyncio.Task[None]:
        """Begin to make the coordinators, if that has not begun."""
        if self._making is None or self._making.done():
            self._making = asyncio.create_task(self._make(), name="kafkapy-coordinators")
        return self._making

    async def _make(self) -> None:
        try:
            make = await self._blocking(self._import)
        except Exception as error:
            if not is_exhausted(error):
                raise
            logger.error(
                "The coordinators cannot be loaded: %s; the next request for them tries again", error
            )
            return
        coordinators = self._add(make)
        for change in self._changes:
            coordinators.leadership_changed(*change)
        self._changes.clear()
        coordinators.start(self._metadata)

    def _import(self) -> Make:
        """Import the modules of the coordinators, which may take a tenth of a second."""
        while True:
            try:
                with without_collections():
                    from kafkapy.broker.coordinators import make_coordinators
            except OSError as error:
                if not is_exhausted(error) or not self._make_room():
                    raise
            else:
                return lambda: make_coordinators(*self._parts)

    def _add(self, make: Make) -> Coordinators:
        self._coordinators = coordinators = make()
        self._made(coordinators)
        return coordinators
