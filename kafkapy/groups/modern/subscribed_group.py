"""The base of the groups whose members subscribe to topics: consumer and share groups."""

from __future__ import annotations

from collections.abc import Collection, Set
from typing import TypeVar

from kafkapy.groups.modern.existing_topics import ExistingTopics
from kafkapy.groups.modern.group import ModernGroup
from kafkapy.groups.modern.subscriptions import Subscriptions
from kafkapy.groups.modern.topics import TopicsView
from kafkapy.protocol.types import Uuid

M = TypeVar("M")
T = TypeVar("T")


class SubscribedGroup(ModernGroup[M, T]):
    """The topics that the members of a group subscribe to, and which of them exist."""

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.subscriptions = Subscriptions()
        """The topics that members name, and those that their regular expressions match."""
        self.existing = ExistingTopics(self.subscriptions)
        self.refresh_deadline_ms = 0
        """When the metadata of the topics is looked at again, in wall clock milliseconds."""

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member subscribes to the topic."""
        return topic in self.subscriptions.topics

    def subscribed_ids(self, names: frozenset[str], view: TopicsView) -> Set[Uuid]:
        """The ids of those topics that exist, of a member's names.

        Mostly these are the names of the whole group.
        """
        everything = len(names) == len(self.subscriptions.topics)
        return self.existing.ids(view) if everything else view.ids(names)

    def is_concerned_by(self, topic: str) -> bool:
        """Whether a member subscribes to the topic."""
        return self.is_subscribed(topic)

    def topics_changed(self, names: Collection[str] | None) -> None:
        """Look at these topics again at the next event; at all if that is None."""
        self.subscriptions.note_changed(names)
        self.refresh_deadline_ms = 0
