"""The group coordinator: which groups there are, and what each request does to them.

This broker coordinates the groups of every partition of `__consumer_offsets` that it leads
(`kafkapy.coordination.runtime`). While a partition is read, its groups answer COORDINATOR_LOAD_IN_PROGRESS. A
heartbeat is accepted, as in Apache Kafka, so that a restart of the broker starts no rebalance. Groups come
back Stable with the members they had. Each member then has one session timeout to send a sign of life.

A request for one type of group may meet a group of another type. It is answered as in Apache Kafka: mostly as
if there were no such group.

Waiting requests return a future, all others their answer. Source: Apache Kafka's GroupCoordinatorService,
GroupMetadataManager.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final

from kafkapy.coordination.answer import Answer
from kafkapy.coordination.errors import TOO_LARGE, coordinator_error, describe
from kafkapy.coordination.runtime import CoordinatorRuntime
from kafkapy.coordination.timers import Cancellable, Timers
from kafkapy.coordination.topic_log import Done, TopicLog
from kafkapy.groups.classic.group import ClassicGroup, GroupState
from kafkapy.groups.classic.join import NO_MEMBER_ID, Joining, Joins
from kafkapy.groups.classic.leave import leave
from kafkapy.groups.classic.member import PROTOCOL_BYTES, protocol_bytes
from kafkapy.groups.classic.metadata import restore_group
from kafkapy.groups.classic.rebalance import Rebalances
from kafkapy.groups.classic.sync import Syncs
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.group import Group
from kafkapy.groups.group_writes import GroupWrites
from kafkapy.groups.loading import GroupReplay, LoadedPartition
from kafkapy.groups.offset_writes import OffsetWrites
from kafkapy.groups.offsets import CommittedOffset, Offsets
from kafkapy.metadata.image import MetadataImage
from kafkapy.process.clock import Clock
from kafkapy.process.log_text import shortened
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupResponse
from kafkapy.protocol.messages.leave_group import MemberIdentity, MemberResponse
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.disk.files import is_exhausted

MAX_MEMBER_BYTES: Final = 4 << 20
"""What one member may take: subscriptions to 10,000 topics take some 500 KiB for each assignor."""
MAX_MEMBERS_BYTES: Final = 64 << 20
"""What members may take in all groups. Beyond this only members up to SMALL_MEMBER_BYTES may join."""
SMALL_MEMBER_BYTES: Final = 64 << 10
MAX_PROTOCOLS: Final = MAX_MEMBER_BYTES // PROTOCOL_BYTES
"""More protocols exceed MAX_MEMBER_BYTES, whatever they are."""

logger = logging.getLogger(__name__)


def _random_id() -> str:
    return str(uuid.uuid4())


class GroupCoordinator:
    """All groups that this broker coordinates (`kafkapy.coordination.runtime.StateMachine`)."""

    def __init__(
        self,
        config: GroupConfig,
        clock: Clock,
        timers: Timers,
        log: TopicLog,
        *,
        blocking: Callable[..., Awaitable[Any]],
        new_id: Callable[[], str] = _random_id,
    ) -> None:
        """`blocking(call, *args)` runs what takes long in a worker thread."""
        self.config = config
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.runtime = CoordinatorRuntime(self, log, clock, timers, blocking=blocking)
        self._clock = clock
        self._timers = timers
        self._expiry: Cancellable | None = None
        self._writes = OffsetWrites(self.offsets, self.runtime)
        self._rebalances = Rebalances(config, clock, timers, GroupWrites(self.runtime))
        self._joins = Joins(self._rebalances, new_id)
        self._syncs = Syncs(self._rebalances)

    # --- the offsets topic ----------------------------------------------------------------------------

    def start(self) -> None:
        """Read what there is, in the background, and look for expired offsets from time to time."""
        self.runtime.open_topic()
        self._schedule_expiry()

    async def stop(self) -> None:
        """Keep no group, no timer and no task."""
        if self._expiry is not None:
            self._expiry.cancel()
        await self.runtime.stop()

    def metadata_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Act on topics that came and went."""
        self.runtime.metadata_changed(old, new)
        deleted = {
            name
            for name in new.changed_topics(old)
            if name in old.topics and old.topics[name].id not in new.topics_by_id
        }
        if deleted:
            self._topics_deleted(deleted)

    def _topics_deleted(self, topics: Collection[str]) -> None:
        """Offsets of these topics mean nothing any more."""
        for group_id in tuple(self.offsets.groups()):
            keys = [key for key in self.offsets.keys(group_id) if key.topic in topics]
            if keys and self.runtime.is_active(group_id):
                self._writes.remove(group_id, keys, _ignore)

    def replay(self, name: str) -> GroupReplay:
        """A partition begins to be read."""
        return GroupReplay(name)

    def install(self, loaded: LoadedPartition) -> str:
        """Take over the groups of a partition, and their offsets."""
        for group_id, value in loaded.groups.items():
            try:
                group = restore_group(group_id, value)
            except Exception as error:
                if is_exhausted(error):
                    raise
                logger.error("Group %s starts anew: %s", shortened(group_id), describe(error))
                continue
            self.groups[group_id] = group
            for member in group.members.values():
                self._rebalances.sessions.touch(group, member)
            if len(group.members) > self.config.max_size:
                self._rebalances.prepare(group, "it is larger than group.max.size allows by now")
        now = self._clock.now_ms()
        for group_id, offsets in loaded.offsets.items():
            self.groups.setdefault(group_id, ClassicGroup(group_id, now))
            for key, committed in offsets.items():
                self.offsets.put(group_id, key, committed)
        return f"{len(loaded.groups)} groups, offsets of {len(loaded.offsets)}"

    def unload(self, partitions: Collection[int]) -> None:
        """Forget the groups of these partitions.

        Requests that wait are told to look for the coordinator again.
        """
        now = self._clock.now_ms()
        for group_id in tuple(self.groups):
            if self.runtime.partition_of(group_id) in partitions:
                self.groups.pop(group_id).close(ErrorCode.NOT_COORDINATOR, now)
                self.offsets.forget(group_id)

    # --- membership -----------------------------------------------------------------------------------

    def join_group(
        self, group_id: str, joining: Joining
    ) -> JoinGroupResponse | asyncio.Future[JoinGroupResponse]:
        """JoinGroup."""
        try:
            self._require_group_id(group_id)
            limits = self.config
            if (
                not limits.min_session_timeout_ms
                <= joining.session_timeout_ms
                <= limits.max_session_timeout_ms
            ):
                raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
            self._require_room(joining)
            group = self.groups.get(group_id)
            if group is None:
                if joining.member_id != NO_MEMBER_ID:
                    raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
                group = self._new_group(group_id)
        except KafkaError as error:
            return JoinGroupResponse(member_id=joining.member_id, error_code=error.code)
        if not isinstance(group, ClassicGroup):
            return JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        answer = Answer[JoinGroupResponse]()
        self._joins.join(group, joining, answer)
        return answer.result()

    def _require_room(self, joining: Joining) -> None:
        """Raises KafkaError where members would take more memory than they may."""
        nbytes = protocol_bytes(joining.protocols)
        if nbytes <= SMALL_MEMBER_BYTES:
            return
        held = sum(
            protocol_bytes(member.protocols)
            for group in self.groups.values()
            if isinstance(group, ClassicGroup)
            for member in group.members.values()
            if member.member_id != joining.member_id
        )
        if nbytes > MAX_MEMBER_BYTES or held + nbytes > MAX_MEMBERS_BYTES:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def sync_group(self, request: SyncGroupRequest) -> SyncGroupResponse | asyncio.Future[SyncGroupResponse]:
        """SyncGroup."""
        try:
            self._require_group_id(request.group_id)
            group = self._classic_group(request.group_id)
        except KafkaError as error:
            return SyncGroupResponse(error_code=error.code)
        answer = Answer[SyncGroupResponse]()
        self._syncs.sync(group, request, answer)
        return answer.result()

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Heartbeat."""
        try:
            self._require_group_id(request.group_id)
            group = self._classic_group(request.group_id)
            member = group.require_member(request.member_id, request.group_instance_id)
            group.require_generation(request.generation_id)
        except KafkaError as error:
            loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return ErrorCode.NONE if loading else error.code
        self._rebalances.sessions.touch(group, member)
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def may_be_member(self, group_id: str, identity: MemberIdentity) -> bool:
        """Whether LeaveGroup has to look more closely at this one."""
        group = self.groups.get(group_id)
        return isinstance(group, ClassicGroup) and (
            identity.member_id in group.members
            or identity.member_id in group.pending
            or identity.group_instance_id in group.static_members
        )

    def leave_group(self, group_id: str, identities: Sequence[MemberIdentity]) -> list[MemberResponse]:
        """LeaveGroup, one answer for each.

        Raises:
            KafkaError: none of them is answered for.
        """
        self._require_group_id(group_id)
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            group = ClassicGroup(group_id, 0)  # nobody is a member
        return leave(self._rebalances, group, identities)

    def _require_group_id(self, group_id: str) -> None:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        self.runtime.require_active(group_id)

    def _new_group(self, group_id: str) -> ClassicGroup:
        group = self.groups[group_id] = ClassicGroup(group_id, self._clock.now_ms())
        return group

    def _classic_group(self, group_id: str) -> ClassicGroup:
        """The group that a member says it is in."""
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    def require_group(self, group_id: str) -> Group:
        """Raises KafkaError GROUP_ID_NOT_FOUND, or that it is not coordinated here."""
        self.runtime.require_active(group_id)
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def require_classic_group(self, group_id: str) -> ClassicGroup:
        """The group of this id, which must be a classic one.

        Raises KafkaError as `require_group` does, and GROUP_ID_NOT_FOUND for a group of another type.
        """
        group = self.require_group(group_id)
        if not isinstance(group, ClassicGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
        return group

    # --- offsets --------------------------------------------------------------------------------------

    def check_commit(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation: int
    ) -> None:
        """Let a member commit offsets, or a consumer that manages its partitions itself.

        The commit is a sign of life.

        Raises:
            KafkaError: the commit is refused; GROUP_ID_NOT_FOUND when only a group could have made it.
        """
        self.runtime.require_active(group_id)
        group = self.groups.get(group_id)
        if group is None:
            if generation >= 0:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
            group = self._new_group(group_id)
        group.validate_offset_commit(member_id, group_instance_id, generation)
        if isinstance(group, ClassicGroup) and (member := group.members.get(member_id)) is not None:
            self._rebalances.sessions.touch(group, member)

    def commit_offsets(
        self, group_id: str, commits: Sequence[tuple[TopicPartition, CommittedOffset]], done: Done
    ) -> None:
        """Store offsets that were let in; `done` is called once, with what the client is told."""
        self._writes.commit(group_id, commits, lambda error: done(_commit_error(error)))

    def delete_offsets(self, group: Group, keys: Collection[TopicPartition], done: Done) -> None:
        """Remove offsets of a group, as far as there are any."""
        present = [key for key in self.offsets.keys(group.group_id) if key in keys]
        self._writes.remove(group.group_id, present, lambda error: done(coordinator_error(error)))

    def delete_group(self, group_id: str, done: Done) -> None:
        """Remove an empty group and its offsets.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP, or that it is not coordinated here.
        """
        group = self.require_group(group_id)
        group.validate_delete()
        self._remove_group(group, self.offsets.keys(group_id), lambda error: done(coordinator_error(error)))

    def _remove_group(self, group: Group, keys: Sequence[TopicPartition], done: Done) -> None:
        """Remove an empty group at once, for good when that is committed."""
        group_id = group.group_id
        del self.groups[group_id]

        def finished(error: ErrorCode) -> None:
            if self.groups.get(group_id) is not group:
                group.close(ErrorCode.UNKNOWN_MEMBER_ID, self._clock.now_ms())
            done(error)

        self._writes.remove_group(group, keys, finished, lambda: self.groups.setdefault(group_id, group))

    # --- expiry ---------------------------------------------------------------------------------------

    def _schedule_expiry(self) -> None:
        interval_ms = self.config.offsets_retention_check_interval_ms
        self._expiry = self._timers.call_later(interval_ms / 1000, self._expire)

    def _expire(self) -> None:
        self._schedule_expiry()
        now = self._clock.now_ms()
        for group in tuple(self.groups.values()):
            if not self.runtime.is_active(group.group_id):
                continue
            expired = self.offsets.expired(group, now, self.config.offsets_retention_ms)
            is_last = len(expired) == len(self.offsets.keys(group.group_id))
            if is_last and group.is_abandoned:
                name = shortened(group.group_id)
                logger.info("Group %s is empty and has no offsets any more: removed", name)
                self._remove_group(group, expired, _ignore)
            elif expired:
                name = shortened(group.group_id)
                logger.info("Group %s: offsets of %d partitions expired", name, len(expired))
                self._writes.remove(group.group_id, expired, _ignore)


def _commit_error(error: ErrorCode) -> ErrorCode:
    if error in TOO_LARGE:
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    return coordinator_error(error)


def _ignore(error: ErrorCode) -> None:
    """Ignore the error: the removal is tried again at the next occasion."""
