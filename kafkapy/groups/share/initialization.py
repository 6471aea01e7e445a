"""The search for share partitions of a group that have no state yet.

A group may have thousands of topics. They are looked at in turns, one after the other, from where the last
look ended. What was found is looked at again before anything is done, since heartbeats and the metadata may
change the group between two turns. A group is complete when a look at all of its topics has found nothing,
and nothing has changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

from kafkapy.groups.modern.topics import TopicsView
from kafkapy.groups.share.group import ShareGroup, Transition
from kafkapy.groups.share.state_partitions import StateTopic, StateTopics
from kafkapy.loop.clock import Clock
from kafkapy.loop.turns import Steps
from kafkapy.metadata.image import Topic

INITIALIZE_AGAIN_MS: Final = 30_000
"""After this time without an answer, a share partition is initialized once more."""
INITIALIZED_AT_ONCE: Final = 500
"""The share partitions that are initialized together, or one topic, however many it has."""

_NOTHING: Final = StateTopic("", frozenset())


class Initialization:
    """One search in one group."""

    def __init__(self, group: ShareGroup, topics: Callable[[], TopicsView], clock: Clock) -> None:
        self._group = group
        self._topics = topics
        self._clock = clock
        self._left: Iterator[str] | None = None
        """The topics that this look has not come to."""
        self._begun = (group.state_partitions, -1)
        """The states and the version of the topics when this look began."""
        self._asked_ms = clock.now_ms()
        """When the share coordinator was asked last, or will be soon."""

    @property
    def is_overdue(self) -> bool:
        """Whether the share coordinator does not answer."""
        return self._clock.now_ms() - self._asked_ms >= INITIALIZE_AGAIN_MS

    def find(self) -> Steps[list[str]]:
        """Find some topics with partitions without a state; no topics if there are none."""
        group = self._group
        found: list[str] = []
        count = 0
        while not group.is_complete:
            if self._left is None:
                self._left = iter(list(group.existing.topics(self._topics())))
                self._begun = group.state_partitions, group.existing.version
            for name in self._left:
                yield
                topic = group.existing.topics(self._topics()).get(name)
                partitions = () if topic is None else self._missing(topic)
                if partitions:
                    found.append(name)
                    count += len(partitions)
                    if count >= INITIALIZED_AT_ONCE:
                        return found
            self._left, (states, version) = None, self._begun
            if found:
                break
            if states is group.state_partitions and version == group.existing.version:
                if not states.initializing:
                    group.note_complete()
                break
        return found

    def _missing(self, topic: Topic) -> frozenset[int]:
        """The partitions of a topic that have no state, and for which nobody was asked just now."""
        partitions = self._group.state_partitions
        known = partitions.initialized.get(topic.id, _NOTHING).partitions
        if len(known) == len(topic.partitions):
            return frozenset()
        since = self._group.initializing_since.get(topic.id)
        if since is not None and self._clock.now_ms() - since < INITIALIZE_AGAIN_MS:
            known |= partitions.initializing.get(topic.id, _NOTHING).partitions
        wanted = frozenset(range(len(topic.partitions)))
        return wanted - known if known else wanted

    def begin(self, transition: Transition, names: Collection[str]) -> StateTopics:
        """Begin to initialize the partitions of these topics that have no state; return them."""
        group, now = self._group, self._clock.now_ms()
        existing = group.existing.topics(self._topics())
        topics = [existing[name] for name in names if name in existing]
        missing = {
            topic.id: StateTopic(topic.name, partitions)
            for topic in topics
            if (partitions := self._missing(topic))
        }
        if missing:
            self._asked_ms = now
            group.change_states(transition, group.state_partitions.begin(missing))
            transition.afterwards(lambda: group.initializing_since.update(dict.fromkeys(missing, now)))
        return missing
