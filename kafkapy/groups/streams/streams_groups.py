"""The streams groups of a coordinator, among its other groups.

Each request is given to the state machine, and its records are written to the log. Large target assignments
are computed in a worker thread. Such a target counts only if it still fits the group.

A method returns a future if the request must wait, and otherwise the answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from kafkapy.coordination.commit_deadlines import CommitDeadlines
from kafkapy.coordination.runtime import CoordinatorRuntime
from kafkapy.coordination.timers import Timers
from kafkapy.groups.classic.group import ClassicGroup, GroupState
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.group import Group
from kafkapy.groups.groups import Groups
from kafkapy.groups.modern.groups import ModernGroups, ignore
from kafkapy.groups.modern.heartbeats import JOIN_EPOCH, Client
from kafkapy.groups.modern.settings import HEARTBEAT_INTERVAL
from kafkapy.groups.modern.target_computations import ComputedTarget
from kafkapy.groups.modern.topics import TopicsView
from kafkapy.groups.streams.group import StreamsGroup, Transition
from kafkapy.groups.streams.heartbeat import HeartbeatAnswer, Heartbeats
from kafkapy.groups.streams.progress import Progress
from kafkapy.groups.streams.records import StreamsGroupKey
from kafkapy.groups.streams.target import TargetRequest
from kafkapy.groups.streams.tasks import TaskSet
from kafkapy.loop.clock import Clock
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from kafkapy.protocol.plain_batch import KeyValue

logger = logging.getLogger(__name__)


class StreamsGroups(ModernGroups[StreamsGroup, StreamsGroupKey, HeartbeatAnswer]):
    """Those groups of a coordinator that are streams groups, among all its groups."""

    group_class = StreamsGroup
    group_type = "streams"

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
        super().__init__(groups, config, clock, timers, runtime=runtime, deadlines=deadlines, costly=costly)
        self._progress = Progress(
            self._settings,
            clock,
            timers,
            TopicsView(MetadataImage()),
            deadlines=self._deadlines,
            first_assignment=self._first_assignment,
            computations=self._computations,
        )
        self._heartbeats = Heartbeats(self._progress)

    @property
    def topics(self) -> TopicsView:
        return self._progress.topics

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """How often members of a group send heartbeats."""
        return self._settings.of(group_id, HEARTBEAT_INTERVAL)

    # --- the metadata and the log ---------------------------------------------------------------------

    def metadata_changed(self, old: MetadataImage, topics: TopicsView) -> None:
        """Note which topics have changed; each group looks at its own when it hears from a member.

        `topics` are the present ones.
        """
        self._progress.topics = topics
        self._changes.add(topics.image.changed_topics(old))

    # --- requests -------------------------------------------------------------------------------------

    def require_valid(self, request: StreamsGroupHeartbeatRequest) -> None:
        """Raise KafkaError if a StreamsGroupHeartbeat makes no sense, whatever the group."""
        self._heartbeats.require_valid(request)

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client: Client
    ) -> HeartbeatAnswer | asyncio.Future[HeartbeatAnswer]:
        """StreamsGroupHeartbeat.

        Raises:
            KafkaError: it is refused.
        """
        found = self._groups.get(request.group_id)
        group, first = self._group_of(found, request)
        if request.member_epoch < JOIN_EPOCH:
            self._heartbeats.leaving(group, request)
            return self._leave(group, request.member_id, request)

        def event(transition: Transition) -> HeartbeatAnswer:
            return self._heartbeats.heartbeat(transition, request, client)

        return self._handle(group, event, first=first, replaced=found)

    def _answer(self, **fields: Any) -> HeartbeatAnswer:
        return HeartbeatAnswer(StreamsGroupHeartbeatResponse(**fields))

    def _group_of(
        self, found: Group | None, request: StreamsGroupHeartbeatRequest
    ) -> tuple[StreamsGroup, Sequence[KeyValue]]:
        """The group of a heartbeat, and the records that make it a streams group.

        A member that joins replaces a classic group without members, which keeps its offsets.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND.
        """
        if isinstance(found, StreamsGroup):
            return found, ()
        if request.member_epoch == JOIN_EPOCH:
            if found is None:
                return StreamsGroup(request.group_id), ()
            if isinstance(found, ClassicGroup) and found.state is GroupState.EMPTY:
                return StreamsGroup(request.group_id), tuple((key, None) for key in found.tombstone_keys())
        elif found is None and request.member_epoch > JOIN_EPOCH:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {request.group_id} not found.")
        return self.require_group(request.group_id), ()

    # --- timers ---------------------------------------------------------------------------------------

    def _remove_members(self, transition: Transition, member_ids: Collection[str]) -> None:
        for member_id in member_ids:
            self._progress.remove_member(transition, member_id)

    def _first_assignment(self, group: StreamsGroup) -> None:
        """Compute the first target assignment: the initial rebalance delay is over."""
        if not self._is_current(group) or not group.members or group.configured is None:
            return
        transition = Transition(group)
        self._progress.update_target(transition, group.configured)
        self._commit(transition, ignore)

    def _assign(
        self, transition: Transition, request: TargetRequest, target: ComputedTarget[TaskSet]
    ) -> None:
        self._progress.assign(transition, request, target)
