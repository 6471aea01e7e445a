"""The topics of which only the controller has told.

This broker reads them from the metadata tree some milliseconds later. If ZooKeeper is lost then, it does so
when ZooKeeper is back. Meanwhile this broker may lead their partitions: it must not say that there is no
such topic, since clients would give up, and followers, which fetch by id, could not replicate.

A request of the controller may arrive late, after the topic was deleted. So the tree is asked, too, when it
answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from kafkapy.metadata.image import MetadataImage, PartitionState, Topic
from kafkapy.metadata.store import MetadataStoreError
from kafkapy.protocol.types import Uuid

TOPICS_AT_ONCE: Final = 64
"""How many topics are read from the tree at a time."""

ReadTopics = Callable[[Sequence[str]], Awaitable[dict[str, Topic]]]
"""Reads topics from the metadata tree.

Those that it does not have, or has marked for deletion, are left out.
"""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Told:
    """The description of a topic."""

    topic_id: Uuid
    states: dict[int, PartitionState] = field(default_factory=dict)


class NewTopics:
    """Topics by name and by id."""

    look_seconds: float = 1.0
    """How long the image has time to show a new topic, before the tree is asked for it."""

    def __init__(self, read_topics: ReadTopics) -> None:
        self._read_topics = read_topics
        self._told: dict[str, _Told] = {}
        self._names: dict[Uuid, str] = {}
        self._looking: asyncio.Task[None] | None = None

    def note(self, name: str, topic_id: Uuid, index: int, state: PartitionState) -> None:
        """Note the state of a partition, of a topic that the image does not have."""
        told = self._told.get(name)
        if told is None or told.topic_id != topic_id:
            self.forget(name)
            told = self._told[name] = _Told(topic_id)
            self._names[topic_id] = name
        told.states[index] = state
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="kafkapy-new-topics")

    def forget(self, name: str) -> None:
        """Forget a topic that is being deleted, or that the image has now."""
        told = self._told.pop(name, None)
        if told is not None:
            del self._names[told.topic_id]

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Forget the topics that the image has now."""
        for name in [name for name in self._told if name in new.topics]:
            self.forget(name)

    def name(self, topic_id: Uuid) -> str | None:
        """The name of a topic; None if it is not a new one."""
        return self._names.get(topic_id)

    def added_to(self, image: MetadataImage) -> MetadataImage:
        """`image` with these topics.

        A topic is left out while partitions below its last one are not known.
        """
        topics = [
            Topic(name, told.topic_id, tuple(told.states[index] for index in range(len(told.states))))
            for name, told in self._told.items()
            if told.states.keys() == set(range(len(told.states)))
        ]
        return image.with_topics(topics) if topics else image

    async def stop(self) -> None:
        """Ask the tree for nothing any more."""
        if self._looking is not None:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._looking

    async def _look(self) -> None:
        """Forget the topics that the tree does not have."""
        try:
            while self._told:
                await asyncio.sleep(self.look_seconds)
                names = iter(list(self._told))
                while some := list(islice(names, TOPICS_AT_ONCE)):
                    await self._look_for(some)
        finally:
            self._looking = None

    async def _look_for(self, names: Sequence[str]) -> None:
        try:
            found = await self._read_topics(names)
        except MetadataStoreError as error:
            logger.error("new topics cannot be looked up: %s; the broker tries again", error)
            return
        for name in names:
            told, topic = self._told.get(name), found.get(name)
            if told is not None and (topic is None or topic.id != told.topic_id):
                self.forget(name)
