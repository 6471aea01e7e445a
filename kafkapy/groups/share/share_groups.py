"""The share groups of a coordinator, among its other groups.

A heartbeat may find share partitions without a state. After it is committed, the share coordinator is asked
to initialize them, in the background; a later heartbeat assigns them. If that fails, a later heartbeat asks
again. Large target assignments are computed in a worker thread, and count only if they still fit the group.

A method returns a future if the request must wait, and otherwise the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from kafkapy.coordination.commit_deadlines import CommitDeadlines
from kafkapy.coordination.runtime import CoordinatorRuntime
from kafkapy.coordination.timers import Timers
from kafkapy.coordination.topic_log import Done
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.groups import Groups
from kafkapy.groups.modern.groups import ignore
from kafkapy.groups.modern.heartbeats import JOIN_EPOCH, Client
from kafkapy.groups.modern.subscribed_groups import SubscribedGroups
from kafkapy.groups.modern.target_computations import ComputedTarget
from kafkapy.groups.modern.topics import TopicsView
from kafkapy.groups.share import simple_assignor
from kafkapy.groups.share.group import ShareGroup, Transition
from kafkapy.groups.share.heartbeat import ShareHeartbeats
from kafkapy.groups.share.initialization import Initialization
from kafkapy.groups.share.member import Partitions
from kafkapy.groups.share.persister import NO_OFFSET, SharePartitionErrors, StateKeeper
from kafkapy.groups.share.records import ShareChange, ShareGroupKey
from kafkapy.groups.share.state_partitions import StatePartitions
from kafkapy.groups.share.target import TargetRequest
from kafkapy.logs.text import shortened
from kafkapy.loop.clock import Clock
from kafkapy.loop.turns import Steps, in_the_background
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kafkapy.protocol.types import Uuid

logger = logging.getLogger(__name__)


class ShareGroups(SubscribedGroups[ShareGroup, ShareGroupKey, ShareGroupHeartbeatResponse]):
    """Those groups of a coordinator that are share groups, among all its groups."""

    group_class = ShareGroup
    group_type = "share"

    default_assignor = simple_assignor.NAME

    def __init__(
        self,
        groups: Groups,
        config: GroupConfig,
        clock: Clock,
        timers: Timers,
        *,
        runtime: CoordinatorRuntime[Any],
        deadlines: CommitDeadlines,
        topics: Callable[[], TopicsView],
        state: StateKeeper | None,
        costly: Callable[..., Awaitable[Any]],
    ) -> None:
        """`groups` are all groups of the coordinator.

        `topics` returns the topics, as of the last change of the metadata. `state` keeps the states of share
        partitions; without it there are no share groups. `costly(call, *args)` runs a call whose
        cost clients choose in a worker thread.
        """
        super().__init__(groups, config, clock, timers, runtime=runtime, deadlines=deadlines, costly=costly)
        self._state = state
        self._topics = topics
        self._runtime = runtime
        self._initializing: dict[ShareGroup, Initialization] = {}
        """The groups whose share partitions are being initialized, one search for each."""
        self._deleted: set[Uuid] = set()
        """The topics that were deleted and that some groups may still know."""
        self._heartbeats = ShareHeartbeats(
            self._settings,
            clock,
            topics=topics,
            computations=self._computations,
            deadlines=self._deadlines,
        )

    @property
    def rebalances(self) -> int:
        """How often a heartbeat has raised the epoch of a group."""
        return self._heartbeats.rebalances

    @property
    def state(self) -> StateKeeper:
        """What keeps the states of share partitions.

        Raises KafkaError UNSUPPORTED_VERSION without it.
        """
        if self._state is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        return self._state

    @property
    def topics(self) -> TopicsView:
        return self._topics()

    # --- the metadata and the log ---------------------------------------------------------------------

    def metadata_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Note which topics have changed, and have groups forget deleted ones, in turns.

        Each group looks at its own topics when it hears from a member.
        """
        changed = new.changed_topics(old)
        self._changes.add(changed)
        deleted = [
            old.topics[name].id
            for name in changed
            if name in old.topics and old.topics[name].id not in new.topics_by_id
        ]
        if deleted:
            is_idle = not self._deleted
            self._deleted.update(deleted)
            if is_idle:
                self._start(self._forget_deleted())

    def install(self, group_id: str, changes: Iterable[ShareChange]) -> ShareGroup:
        """Add a group whose records were loaded, and expect its members' heartbeats."""
        group = super().install(group_id, changes)
        group.may_have_unassigned = group.has_unassigned()
        gone = {
            topic
            for topics in (group.state_partitions.initializing, group.state_partitions.initialized)
            for topic in topics
            if topic not in self.topics.image.topics_by_id
        }
        if gone:  # deleted while nobody coordinated the group; written when the partition is active
            self._start(self._forget(group, gone))
        return group

    async def _forget_deleted(self) -> None:
        """Have all groups forget the deleted topics, and then those that were deleted meanwhile."""
        while deleted := frozenset(self._deleted):
            try:
                await in_the_background(self._forget_everywhere(deleted))
            finally:
                self._deleted -= deleted

    def _forget_everywhere(self, deleted: frozenset[Uuid]) -> Steps[None]:
        for group in tuple(self._groups.values()):
            yield
            if isinstance(group, ShareGroup) and self._is_current(group):
                left = group.state_partitions.forget(deleted)
                if left != group.state_partitions and self._runtime.is_active(group.group_id):
                    self.change(group, left, ignore)

    async def _forget(self, group: ShareGroup, topics: Collection[Uuid]) -> None:
        await asyncio.sleep(0)
        if self._is_served(group):
            self.change(group, group.state_partitions.forget(topics), ignore)

    # --- members --------------------------------------------------------------------------------------

    def require_valid(self, request: ShareGroupHeartbeatRequest) -> None:
        """Raise KafkaError if a ShareGroupHeartbeat makes no sense, whatever the group."""
        self._heartbeats.require_valid(request)

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: Client
    ) -> ShareGroupHeartbeatResponse | asyncio.Future[ShareGroupHeartbeatResponse]:
        """ShareGroupHeartbeat.

        Raises:
            KafkaError: it is refused.
        """
        state = self.state
        if request.member_epoch < JOIN_EPOCH:
            group = self.require_group(request.group_id)
            return self._leave(group, group.member(request.member_id).member_id, request)
        group = self._group_to_join(request)

        def event(transition: Transition) -> ShareGroupHeartbeatResponse:
            return self._heartbeats.heartbeat(transition, request, client)

        return self._handle(group, event, committed=lambda: self._begin_initialization(state, group))

    def _answer(self, **fields: Any) -> ShareGroupHeartbeatResponse:
        return ShareGroupHeartbeatResponse(**fields)

    def _begin_initialization(self, state: StateKeeper, group: ShareGroup) -> None:
        running = self._initializing.get(group)
        if not group.is_complete and (running is None or running.is_overdue):
            search = self._initializing[group] = Initialization(group, self._topics, self._clock)
            self._start(self._initialize(state, group, search))

    def _assign(
        self, transition: Transition, request: TargetRequest, target: ComputedTarget[Partitions]
    ) -> None:
        self._heartbeats.assign(transition, request, target)

    def _group_to_join(self, request: ShareGroupHeartbeatRequest) -> ShareGroup:
        found = self._groups.get(request.group_id)
        if found is None and request.member_epoch == JOIN_EPOCH:
            return ShareGroup(request.group_id)
        if found is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {request.group_id} not found.")
        return self.require_group(request.group_id)

    def empty_group(self, group_id: str, *, create: bool = False) -> ShareGroup:
        """The share group of this id, which must have no members; a new one if there is none.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP; or the partition is not coordinated here.
        """
        self._runtime.require_active(group_id)
        if create and group_id not in self._groups:
            return ShareGroup(group_id)
        group = self.require_group(group_id)
        group.validate_delete()
        return group

    def _remove_members(self, transition: Transition, member_ids: Collection[str]) -> None:
        for member_id in member_ids:
            self._heartbeats.remove(transition, member_id)

    # --- share partitions -----------------------------------------------------------------------------

    def change(self, group: ShareGroup, partitions: StatePartitions, done: Done) -> None:
        """Write which share partitions of the group have a state, get one or lose it."""
        transition = Transition(group)
        group.change_states(transition, partitions)
        self._commit(transition, done)

    async def changed(self, group: ShareGroup, partitions: StatePartitions) -> None:
        """As `change`; wait for the commit.

        Raises:
            KafkaError: it is not committed.
        """
        transition = Transition(group)
        group.change_states(transition, partitions)
        await self._committed(transition)

    async def _committed(self, transition: Transition) -> None:
        """Write the records of an event, and wait for the commit.

        Raises:
            KafkaError: they are not committed.
        """
        written: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self._commit(transition, lambda error: None if written.done() else written.set_result(error))
        error = await written
        if error:
            raise KafkaError(error)

    async def _initialize(self, state: StateKeeper, group: ShareGroup, search: Initialization) -> None:
        """Have the missing states initialized, in pieces, and note what became of it.

        If that fails, a later heartbeat tries it again.
        """
        try:
            with contextlib.suppress(KafkaError):
                while names := await in_the_background(search.find()):
                    if not await self._initialize_some(state, group, search, names):
                        return
        finally:
            if self._initializing.get(group) is search:
                del self._initializing[group]

    async def _initialize_some(
        self, state: StateKeeper, group: ShareGroup, search: Initialization, names: Collection[str]
    ) -> bool:
        """Have the missing states of these topics initialized; return whether others may follow.

        Raises:
            KafkaError: what became of it cannot be noted.
        """
        if not self._is_served(group):
            return False
        transition, epoch = Transition(group), group.epoch
        topics = search.begin(transition, names)
        if not topics:
            return True
        await self._committed(transition)
        offsets = {
            topic: dict.fromkeys(sorted(partitions), NO_OFFSET) for topic, (_, partitions) in topics.items()
        }
        errors: SharePartitionErrors = {}
        try:
            errors = await state.initialize(group.group_id, epoch, offsets)
        except KafkaError as error:
            errors = {(topic, 0): error for topic in topics}
        if errors:
            logger.warning(
                "Group %s: its share partitions are not initialized: %s",
                shortened(group.group_id),
                next(iter(errors.values())),
            )
        if not self._is_served(group):
            return False
        now, image = group.state_partitions, self.topics.image
        known = {topic: each for topic, each in topics.items() if topic in image.topics_by_id}
        await self.changed(group, now.give_up(topics) if errors else now.complete(known))
        return not errors

    def _is_served(self, group: ShareGroup) -> bool:
        """Whether the group is still one of this coordinator."""
        return self._is_current(group) and self._runtime.is_active(group.group_id)

    def delete(self, group: ShareGroup, remove: Callable[[Done], object], done: Done) -> None:
        """Delete an empty group: the states of its share partitions, then itself by `remove`."""
        self._start(self._delete(group, remove, done))

    async def _delete(self, group: ShareGroup, remove: Callable[[Done], object], done: Done) -> None:
        try:
            state, partitions = self.state, self.deletable(group)
            if partitions:
                names = {topic: self.topics.image.topics_by_id[topic].name for topic in partitions}
                await self.changed(group, StatePartitions(deleting=names))
                errors = await state.delete(group.group_id, partitions)
                if errors:
                    raise next(iter(errors.values()))
            self._runtime.require_active(group.group_id)
            if self.require_group(group.group_id) is not group:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
            group.validate_delete()
        except KafkaError as error:
            done(error.code)
            return
        remove(done)

    def deletable(self, group: ShareGroup) -> Partitions:
        """The share partitions of existing topics that have a state, or may have one."""
        partitions, topics = group.state_partitions, self.topics.image.topics_by_id
        found: dict[Uuid, frozenset[int]] = {
            topic: frozenset(range(len(topics[topic].partitions)))
            for topic in partitions.deleting
            if topic in topics
        }
        for known in (partitions.initializing, partitions.initialized):
            for topic, (_, numbers) in known.items():
                if topic in topics:
                    found[topic] = found.get(topic, frozenset()) | numbers
        return found


def topic_names(partitions: Mapping[Uuid, object], topics: TopicsView) -> dict[Uuid, str]:
    """The names of existing topics."""
    by_id = topics.image.topics_by_id
    return {topic: by_id[topic].name for topic in partitions if topic in by_id}
