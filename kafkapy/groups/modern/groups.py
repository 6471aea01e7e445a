"""The groups of one type whose coordinator gives members their targets.

They are among all groups of a coordinator. Each request is given to the state machine of the type, and its
records are written to the log.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from kafkapy.coordination.answer import Answer
from kafkapy.coordination.commit_deadlines import CommitDeadlines
from kafkapy.coordination.errors import describe
from kafkapy.coordination.event_writes import EventWrites
from kafkapy.coordination.runtime import CoordinatorRuntime
from kafkapy.coordination.timers import Timers
from kafkapy.coordination.topic_log import Done
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.group import Group
from kafkapy.groups.groups import Groups
from kafkapy.groups.modern.change import Change, encode_change
from kafkapy.groups.modern.deadlines import Deadlines
from kafkapy.groups.modern.event_records import EventRecords
from kafkapy.groups.modern.group import ModernGroup
from kafkapy.groups.modern.settings import GroupSettings
from kafkapy.groups.modern.target_computations import ComputedTarget, TargetComputations
from kafkapy.groups.modern.timeouts import Timeout
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
A = TypeVar("A")


class HeartbeatRequest(Protocol):
    """The fields that the heartbeats of all types have."""

    group_id: str
    member_id: str
    member_epoch: int


class ModernGroups(ABC, Generic[G, K, A]):
    """The groups of one type.

    Type variables: G is their class, K that of the keys of their records, A that of a heartbeat's answer.
    """

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
        timers: Timers,
        *,
        runtime: CoordinatorRuntime[Any],
        deadlines: CommitDeadlines,
        costly: Callable[..., Awaitable[Any]],
    ) -> None:
        """`groups` are all groups of the coordinator.

        `costly(call, *args)` runs a call whose cost clients choose in a worker thread.
        """
        self._groups = groups
        self._settings = GroupSettings(self.group_type, config, lambda: self.topics.image)
        self._clock = clock
        self._writes = EventWrites(runtime, deadlines)
        self._changes = TopicChanges()
        self._tasks: set[asyncio.Task[None]] = set()
        self._deadlines = Deadlines(self._settings, clock, timers, self._expired)
        self._computations = TargetComputations(
            costly, start=self._start, is_current=self._is_current, computed=self._computed
        )

    @property
    @abstractmethod
    def topics(self) -> TopicsView:
        """The topics, as of the last change of the metadata."""

    def configure(self, config: GroupConfig) -> None:
        """Take over the settings that are dynamic."""
        self._settings.config = config

    def stop(self) -> None:
        """Cancel the work in the background."""
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

    def install(self, group_id: str, changes: Iterable[Change[K]]) -> G:
        """Add a group whose records were loaded, and expect its members' heartbeats."""
        group = self._add(group_id, changes)
        for member in group.members.values():
            self._expect_heartbeat(group, member.member_id)
            if self._must_revoke(member):
                self._deadlines.expect_revocation(group, member.member_id)
        return group

    def _must_revoke(self, member: Any) -> bool:
        """Whether a member that was loaded must give something up in time."""
        return bool(member.is_revoking)

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

    # --- events ---------------------------------------------------------------------------------------

    @abstractmethod
    def _answer(self, **fields: Any) -> A:
        """The answer to a heartbeat with these fields."""

    def _handle(
        self,
        group: G,
        event: Callable[[EventRecords[G, K]], A],
        *,
        first: Sequence[KeyValue] = (),
        replaced: Group | None = None,
        committed: Callable[[], object] | None = None,
    ) -> A | asyncio.Future[A]:
        """Change a group by `event`, and write the records of that, as `_commit` does.

        `committed` is called after that.

        Raises:
            KafkaError: it is refused, and the group is as it was.
        """
        self._notice_topics(group)
        transition: EventRecords[G, K] = EventRecords(group)
        try:
            answer = event(transition)
        except BaseException:
            transition.undo()
            raise
        given: Answer[A] = Answer()

        def done(error: ErrorCode) -> None:
            self._give(given, answer, error)
            if not error and committed is not None:
                committed()

        self._commit(transition, done, first=first, replaced=replaced)
        return given.result()

    def _give(self, given: Answer[A], answer: A, error: ErrorCode) -> None:
        """Give the answer to a heartbeat, when its records are written or refused."""
        given(self._answer(error_code=error) if error else answer)

    def _leave(self, group: G, member_id: str, request: HeartbeatRequest) -> A | asyncio.Future[A]:
        """Remove a member that leaves by its heartbeat."""
        logger.info("Group %s: member %s leaves", shortened(group.group_id), shortened(member_id))
        answer = self._answer(member_id=request.member_id, member_epoch=request.member_epoch)
        given: Answer[A] = Answer()
        self._remove(group, (member_id,), partial(self._give, given, answer))
        return given.result()

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

    def _computed(self, group: G, request: Any, target: ComputedTarget[Any]) -> None:
        """Make a target that was computed in the background the group's target assignment."""
        transition: EventRecords[G, K] = EventRecords(group)
        self._assign(transition, request, target)
        self._commit(transition, ignore)

    @abstractmethod
    def _assign(self, transition: EventRecords[G, K], request: Any, target: ComputedTarget[Any]) -> None:
        """Make this the group's target assignment."""

    # --- members that go ------------------------------------------------------------------------------

    def _expired(self, group: G, member_id: str, timeout: Timeout) -> None:
        """Remove a member that is late; try again later if the log refuses it."""
        member = group.members.get(member_id)
        if not self._is_current(group) or member is None:
            return
        if timeout is Timeout.REBALANCE and not member.is_revoking:
            return

        def done(error: ErrorCode) -> None:
            if error and group.members.get(member_id) is member:
                self._expect_heartbeat(group, member_id)

        who = shortened(member_id)
        logger.info("Group %s: member %s is fenced: %s", shortened(group.group_id), who, timeout.value)
        self._remove(group, (member_id,), done)

    def hear_from_all(self) -> None:
        """Take each member to have sent a heartbeat now."""
        for group in self._groups.values():
            if isinstance(group, self.group_class):
                for member_id in group.members:
                    self._expect_heartbeat(group, member_id)

    def _expect_heartbeat(self, group: G, member_id: str) -> None:
        """Expect a member's next heartbeat."""
        self._deadlines.expect_heartbeat(group, member_id)

    def _remove(self, group: G, member_ids: Collection[str], done: Done) -> None:
        """Remove members, at least one."""
        self._notice_topics(group)
        transition: EventRecords[G, K] = EventRecords(group)
        self._remove_members(transition, member_ids)
        self._commit(transition, done)

    @abstractmethod
    def _remove_members(self, transition: EventRecords[G, K], member_ids: Collection[str]) -> None:
        """Change the group by the records of members that go."""

    # --- the background -------------------------------------------------------------------------------

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the background, until `stop`."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def ignore(error: ErrorCode) -> None:
    """Ignore the error of a write: a later event does it again."""
