"""Those topics of a group's subscriptions that exist, and their hash.

They follow from the subscriptions and the metadata. They are kept up to date by the names that changed, so a
heartbeat does not pay for the names of the whole group. `TopicsView.hash` says what the hash is.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkapy.groups.modern.subscriptions import Subscriptions
from kafkapy.groups.modern.topics import TopicsView, group_hash
from kafkapy.metadata.image import Topic


class ExistingTopics:
    """The existing topics of one group's subscriptions."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions
        self._topics: dict[str, Topic] = {}
        self._hashes: dict[str, int] = {}
        """The hashes of the same topics."""
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

    def _update(self, view: TopicsView) -> None:
        names = self._subscriptions.take_changed()
        has_other_racks = view.racks is not self._racks
        if has_other_racks:
            self._racks, names = view.racks, {*self._topics, *self._subscriptions.topics}
        if not names:
            return
        existing, subscribed = view.image.topics, self._subscriptions.topics
        for name in {*filter(existing.__contains__, names), *filter(self._topics.__contains__, names)}:
            before = self._topics.get(name)
            topic = existing.get(name) if name in subscribed else None
            if topic is before and (topic is None or not has_other_racks):
                continue
            if before is not None:
                del self._topics[name], self._hashes[name]
                self._num_partitions -= len(before.partitions)
            if topic is not None:
                self._topics[name] = topic
                self._hashes[name] = view.topic_hash(topic)
                self._num_partitions += len(topic.partitions)
            self._is_hash_known = False
            self.version += 1
