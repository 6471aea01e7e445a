"""Those topics of a group's subscriptions that exist, and their hash.

They follow from the subscriptions and the metadata. They are kept up to date by the names that changed, so a
heartbeat does not pay for the names of the whole group. If very many have changed, they are looked at in
turns before it (`catch_up`). `TopicsView.hash` says what the hash is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Final

from kafkapy.groups.modern.subscriptions import Subscriptions
from kafkapy.groups.modern.topics import TopicsView, group_hash
from kafkapy.loop.turns import Steps
from kafkapy.metadata.image import Topic
from kafkapy.protocol.types import Uuid

_AT_ONCE: Final = 200
"""The names that are looked at without a turn for others."""


class ExistingTopics:
    """The existing topics of one group's subscriptions."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions
        self._topics: dict[str, Topic] = {}
        self._hashes: dict[str, int] = {}
        """The hashes of the same topics."""
        self._ids: set[Uuid] = set()
        """Their ids."""
        self._racks: Mapping[int, str] = {}
        """The racks of the brokers, on which the hashes depend."""
        self._num_partitions = 0
        self._hash = 0
        self._is_hash_known = True
        self.version = 0
        """Rises whenever the topics have changed."""

    def topics(self, view: TopicsView) -> Mapping[str, Topic]:
        """The topics by name, which change with the metadata."""
        self._update(view)
        return self._topics

    def ids(self, view: TopicsView) -> Set[Uuid]:
        """The ids of the topics."""
        self._update(view)
        return self._ids

    def num_partitions(self, view: TopicsView) -> int:
        """The number of their partitions."""
        self._update(view)
        return self._num_partitions

    def hash(self, view: TopicsView) -> int:
        """The hash of the topics."""
        self._update(view)
        if not self._is_hash_known:
            # In order, since the names of existing topics are ASCII. They are in order but for the last ones.
            self._hashes = {name: self._hashes[name] for name in sorted(self._hashes)}
            self._hash = group_hash(self._hashes.values())
            self._is_hash_known = True
        return self._hash

    def catch_up(self, view: Callable[[], TopicsView]) -> Steps[None]:
        """Look at the names that have changed, in turns.

        `view` returns the topics as they are then.
        """
        while self.pending(view()):
            yield
            self._look_at(self._subscriptions.take_changed(_AT_ONCE), view())

    def pending(self, view: TopicsView) -> int:
        """How many names have changed and were not looked at."""
        if view.racks is not self._racks:  # all hashes differ
            self._racks = view.racks
            self._topics.clear()
            self._hashes.clear()
            self._ids.clear()
            self._num_partitions = 0
            self._is_hash_known = False
            self.version += 1
            self._subscriptions.note_changed(None)
        return self._subscriptions.changed

    def _update(self, view: TopicsView) -> None:
        if self.pending(view):
            self._look_at(self._subscriptions.take_changed(), view)

    def _look_at(self, names: Set[str], view: TopicsView) -> None:
        existing, subscribed, topics = view.image.topics, self._subscriptions.topics, self._topics
        known = [name for name in names if name in topics]
        for name in known:
            before, topic = topics[name], existing.get(name) if name in subscribed else None
            if topic is before:
                continue
            del topics[name], self._hashes[name]
            self._ids.discard(before.id)
            self._num_partitions -= len(before.partitions)
            self._is_hash_known = False
            self.version += 1
        # Mostly thousands of names are new, which are added together.
        new = {
            name: existing[name]
            for name in names
            if name in existing and name in subscribed and name not in topics
        }
        if new:
            topics.update(new)
            self._hashes.update(zip(new, view.topic_hashes(new.values()), strict=True))
            self._ids.update([topic.id for topic in new.values()])
            self._num_partitions += sum([len(topic.partitions) for topic in new.values()])
            self._is_hash_known = False
            self.version += 1
