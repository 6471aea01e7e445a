"""The groups of one type whose coordinator gives members their targets.

They are among all groups of a coordinator. Each request is given to the state machine of the type, and its
records are written to the log.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from kafkapy.coordination.commit_deadlines import CommitDeadlines
from kafkapy.coordination.errors import describe
from kafkapy.coordination.event_writes import EventWrites
from kafkapy.coordination.runtime import CoordinatorRuntime
from kafkapy.coordination.topic_log import Done
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.group import Group
from kafkapy.groups.groups import Groups
from kafkapy.groups.modern.change import Change, encode_change
from kafkapy.groups.modern.event_records import EventRecords
from kafkapy.groups.modern.group import ModernGroup
from kafkapy.groups.modern.settings import GroupSettings
from kafkapy.groups.modern.target_computations import ComputedTarget, R, TargetComputations
from kafkapy.groups.modern.topic_changes import TopicChanges
from kafkapy.groups.modern.topics import TopicsView
from kafkapy.logs.text import shortened
from kafkapy.loop.clock import Clock
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.plain_batch import KeyValue
from kafkapy.storage.disk.errors import is_exhausted

logger = logging.getLogger(__name__)

G = TypeVar("G", bound=ModernGroup[Any, Any])
K = TypeVar("K")


class ModernGroups(ABC, Generic[G, K]):
    """The groups of type G, whose records have keys of type K."""

    group_class: type[G]
    group_type: ClassVar[str]
    """With it begin the names of the settings that groups have."""

    @property
    def type_name(self) -> str:
        """What messages call a group of this type."""
        return f"{self.group_type} group"

    def __init__(
        self,
        groups: Groups,
        config: GroupConfig,
        clock: Clock,
        *,
        runtime: CoordinatorRuntime[Any],
        deadlines: CommitDeadlines,
    ) -> None:
        """`groups` are all groups of the coordinator."""
        self._groups = groups
        self._settings = GroupSettings(self.group_type, config, lambda: self.topics.image)
        self._clock = clock
        self._writes = EventWrites(runtime, deadlines)
        self._changes = TopicChanges()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    @abstractmethod
    def topics(self) -> TopicsView:
        """The topics, as of the last change of the metadata."""

    def configure(self, config: GroupConfig) -> None:
        """Take over the settings that are dynamic."""
        self._settings.config = config

    def stop(self) -> None:
        """Give up what goes on in the background."""
        for task in self._tasks:
            task.cancel()

    def require_group(self, group_id: str) -> G:
        """The group of this id; raises KafkaError GROUP_ID_NOT_FOUND if there is none of this type."""
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, self.group_class):
            raise self._of_another_type(group_id)
        return group

    def _of_another_type(self, group_id: str) -> KafkaError:
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {self.type_name}.")

    def _is_current(self, group: G) -> bool:
        """Whether the group was not deleted, converted or unloaded meanwhile."""
        return self._groups.get(group.group_id) is group

    def _notice_topics(self, group: G) -> None:
        """Have a group look at its topics again, if one of them has changed since its last event."""
        changed = self._changes.since(group.changes_seen)
        group.changes_seen = self._changes.count
        if changed is None or any(map(group.is_concerned_by, changed)):
            group.topics_changed(changed)

    def _add(self, group_id: str, changes: Iterable[Change[K]]) -> G:
        """Add a group whose records were loaded, without those that make no sense."""
        group = self.group_class(group_id)
        for change in changes:
            try:
                group.replay(change)
            except Exception as error:
                if is_exhausted(error):
                    raise
                logger.error(
                    "Group %s: its %s cannot be restored: %s",
                    shortened(group_id),
                    type(change.key).__name__,
                    describe(error),
                )
        self._groups[group_id] = group
        return group

    def _commit(
        self,
        transition: EventRecords[G, K],
        done: Done,
        *,
        first: Sequence[KeyValue] = (),
        replaced: Group | None = None,
    ) -> None:
        """Write the records of `transition` after `first`; the group takes the place of `replaced`."""
        group = transition.group

        def accepted() -> None:
            if not self._is_current(group):
                self._groups[group.group_id] = group
                if replaced is not None:
                    replaced.close(ErrorCode.REBALANCE_IN_PROGRESS, self._clock.now_ms())
                    logger.info("Group %s is a %s now", shortened(group.group_id), self.type_name)
                self._added(group)
            transition.accepted()

        self._writes.write(
            group.group_id,
            [*first, *map(encode_change, transition.changes)],
            accepted=accepted,
            refused=transition.undo,
            done=done,
        )

    def _added(self, group: G) -> None:
        """Called when a request has made a group one of this type."""

    def _computations(
        self,
        costly: Callable[..., Awaitable[Any]],
        computed: Callable[[G, R, ComputedTarget[Any]], object],
    ) -> TargetComputations[G, R]:
        """What computes large targets by `costly`, and calls `computed` with them."""
        return TargetComputations(costly, start=self._start, is_current=self._is_current, computed=computed)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the background, until `stop`."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def ignore(error: ErrorCode) -> None:
    """Ignore the error of a write: a later event does it again."""
