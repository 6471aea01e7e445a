"""Removes offsets that no request removes: expired ones, and those of deleted topics.

It takes turns of the event loop, for which no request waits, and removes very many offsets in parts.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from kafkapy.coordination.timers import Cancellable, Timers
from kafkapy.coordination.topic_log import Done
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.group import Group
from kafkapy.groups.offsets.committed_offset import decode_offset
from kafkapy.groups.offsets.offsets import Offsets
from kafkapy.groups.offsets.writes import OFFSETS_AT_ONCE, OffsetWrites, ignore
from kafkapy.logs.text import shortened
from kafkapy.loop.clock import Clock
from kafkapy.loop.turns import TURN_SECONDS, Steps, take_turn
from kafkapy.protocol.types import TopicPartition, Uuid

logger = logging.getLogger(__name__)


class OffsetSweeps:
    """The removals of a coordinator's offsets that are under way or to come."""

    def __init__(
        self,
        groups: Mapping[str, Group],
        offsets: Offsets,
        config: GroupConfig,
        clock: Clock,
        timers: Timers,
        *,
        writes: OffsetWrites,
        is_active: Callable[[str], bool],
        remove_group: Callable[[Group, Sequence[TopicPartition], Done], None],
        has_topic: Callable[[str], bool],
    ) -> None:
        """`is_active` tells whether the partition of a group is loaded, by the group's id."""
        self._groups = groups
        self._offsets = offsets
        self._config = config
        self._clock = clock
        self._timers = timers
        self._writes = writes
        self._is_active = is_active
        self._remove_group = remove_group
        self._has_topic = has_topic
        self.turn_seconds = TURN_SECONDS
        self._expiry: Cancellable | None = None
        self._of_topics: deque[Steps[None]] = deque()
        """What removes the offsets of deleted topics, one after the other."""

    def start(self) -> None:
        """Look for expired offsets at intervals."""
        interval_ms = self._config.offsets_retention_check_interval_ms
        self._expiry = self._timers.call_later(
            interval_ms / 1000, lambda: self._go_on_expiring(self._expire())
        )

    def stop(self) -> None:
        """Look for expired offsets no more."""
        if self._expiry is not None:
            self._expiry.cancel()

    # --- expired offsets ------------------------------------------------------------------------------

    def _go_on_expiring(self, steps: Steps[None]) -> None:
        """Take a turn of the removal of expired offsets."""
        try:
            is_done = take_turn(steps, self.turn_seconds) is not None
        except Exception:
            logger.exception("Expired offsets could not be removed")
            is_done = True
        if is_done:
            self.start()
        else:
            self._expiry = self._timers.call_later(0, lambda: self._go_on_expiring(steps))

    def _expire(self) -> Steps[None]:
        now = self._clock.now_ms()
        for group in tuple(self._groups.values()):
            yield
            if not self._is_here(group):
                continue
            expired = yield from self._offsets.expired(group, now, self._config.offsets_retention_ms)
            if not self._is_here(group):
                continue
            group_id = group.group_id
            if len(expired) > OFFSETS_AT_ONCE:
                yield from self._remove_expired(group, expired)
            elif len(expired) == len(self._offsets.keys(group_id)) and group.is_abandoned:
                logger.info("Group %s is empty and has no offsets any more: removed", shortened(group_id))
                self._remove_group(group, expired, ignore)
            elif expired:
                logger.info("Group %s: offsets of %d partitions expired", shortened(group_id), len(expired))
                self._writes.remove(group_id, expired, ignore)

    def _remove_expired(self, group: Group, expired: Sequence[TopicPartition]) -> Steps[None]:
        """Remove very many offsets in parts.

        The next expiry removes the group, if nothing is left of it.
        """
        group_id = group.group_id
        logger.info("Group %s: offsets of %d partitions expired", shortened(group_id), len(expired))
        committed = self._offsets.of_group(group_id)
        offsets = [(key, committed[key]) for key in expired]
        for start in range(0, len(offsets), OFFSETS_AT_ONCE):
            yield
            if not self._is_here(group):
                return
            present = self._offsets.of_group(group_id)
            self._writes.remove(
                group_id,
                [
                    key
                    for key, offset in offsets[start : start + OFFSETS_AT_ONCE]
                    if present.get(key) is offset and not self._offsets.is_undecided(group_id, key)
                ],
                ignore,
            )

    def _is_here(self, group: Group) -> bool:
        """Whether the group is still this one, and its partition is loaded."""
        group_id = group.group_id
        return self._groups.get(group_id) is group and self._is_active(group_id)

    # --- deleted topics -------------------------------------------------------------------------------

    def topics_deleted(self, topics: Mapping[str, Uuid]) -> None:
        """Remove the offsets of topics that were deleted, given with their ids."""
        self._of_topics.append(self._remove_of_topics(topics))
        if len(self._of_topics) == 1:
            self._go_on_with_topics()

    def _go_on_with_topics(self) -> None:
        """Take a turn of the removal of deleted topics' offsets."""
        try:
            if take_turn(self._of_topics[0], self.turn_seconds) is not None:
                self._of_topics.popleft()
        except Exception:
            logger.exception("Offsets of deleted topics could not be removed")
            self._of_topics.popleft()
        if self._of_topics:
            self._timers.call_later(0, self._go_on_with_topics)

    def _remove_of_topics(self, topics: Mapping[str, Uuid]) -> Steps[None]:
        for group_id in tuple(self._offsets.groups()):
            keys = iter(self._offsets.keys(group_id))
            while part := list(islice(keys, OFFSETS_AT_ONCE)):
                yield
                if not self._is_active(group_id):
                    break
                gone = [key for key in part if key.topic in topics and self._is_of(group_id, key, topics)]
                if gone:
                    self._writes.remove(group_id, gone, ignore)

    def _is_of(self, group_id: str, key: TopicPartition, deleted: Mapping[str, Uuid]) -> bool:
        """Whether an offset is one of the deleted topic.

        If the topic was created again meanwhile, an offset that is on its way may be one of the new topic.
        """
        if self._offsets.is_undecided(group_id, key):
            return not self._has_topic(key.topic)
        committed = self._offsets.of_group(group_id).get(key)
        return committed is not None and decode_offset(committed).is_of_topic(deleted[key.topic])
