"""The group coordinator: which groups there are, and what each request does to them.

This broker coordinates the groups of every partition of `__consumer_offsets` that it leads. A partition
is first read to its end; until then its groups answer COORDINATOR_LOAD_IN_PROGRESS, but a heartbeat is
taken for good, as in Apache Kafka, so that a restart of the broker starts no rebalance. Groups come back
Stable with the members they had, who have one session timeout to be heard of.

Whatever keeps a partition from being read, or written, its groups answer NOT_COORDINATOR from then on, and
it is read again after a second, then after two, and so on up to half a minute. (In Apache Kafka it stays
FAILED until another broker leads it.) It counts as failed meanwhile, not as loading, so that ListGroups
answers with the groups of the other partitions.

Waiting requests return a future, all others their answer. Source: Apache Kafka's
GroupCoordinatorService, CoordinatorRuntime.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from kafkapy.groups.answer import Answer
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.environment import Timers
from kafkapy.groups.group import Group, GroupState
from kafkapy.groups.join import NO_MEMBER_ID, Joining, Joins
from kafkapy.groups.leave import leave
from kafkapy.groups.loading import LoadedPartition, PartitionFold, describe, restore_group
from kafkapy.groups.member import PROTOCOL_BYTES, Cancellable, protocol_bytes
from kafkapy.groups.offset_writes import OffsetWrites
from kafkapy.groups.offsets import CommittedOffset, Offsets
from kafkapy.groups.offsets_topic import Done, OffsetsLog, OffsetsTopic, coordinator_error
from kafkapy.groups.rebalance import Rebalances
from kafkapy.groups.sync import Syncs
from kafkapy.metadata.image import MetadataImage
from kafkapy.metadata.topic_names import GROUP_METADATA_TOPIC
from kafkapy.process.clock import Clock
from kafkapy.process.log_text import shortened
from kafkapy.protocol.errors import DecodeError, ErrorCode, KafkaError
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupResponse
from kafkapy.protocol.messages.leave_group import MemberIdentity, MemberResponse
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.disk.files import is_exhausted

MAX_MEMBER_BYTES: Final = 4 << 20
"""What one member may say of itself: subscriptions to 10,000 topics are some 500 KiB for each assignor."""
MAX_MEMBERS_BYTES: Final = 64 << 20
"""Beyond this in all groups only members with little to say may join."""
SMALL_MEMBER_BYTES: Final = 64 << 10
MAX_PROTOCOLS: Final = MAX_MEMBER_BYTES // PROTOCOL_BYTES
"""More are over that limit, whatever they are."""

RETRY_SECONDS: Final = 1.0
MAX_RETRY_SECONDS: Final = 30.0

logger = logging.getLogger(__name__)


class PartitionState(Enum):
    """What this broker is to a partition of `__consumer_offsets`."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    """It could not be read or written, and is read again by and by."""


@dataclass(slots=True)
class _Failure:
    """Why a partition is FAILED, and when it is read again."""

    why: str
    retry_seconds: float
    timer: Cancellable


def _random_id() -> str:
    return str(uuid.uuid4())


class GroupCoordinator:
    """All groups that this broker coordinates."""

    def __init__(
        self,
        config: GroupConfig,
        clock: Clock,
        timers: Timers,
        log: OffsetsLog,
        *,
        blocking: Callable[..., Awaitable[Any]],
        new_id: Callable[[], str] = _random_id,
    ) -> None:
        """`blocking(call, *args)` runs what takes long in a worker thread."""
        self.config = config
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self._clock = clock
        self._timers = timers
        self._log = log
        self._blocking = blocking
        self._partitions: list[PartitionState] = []
        """The partitions of the offsets topic; none while it does not exist."""
        self._loading: set[asyncio.Task[None]] = set()
        self._failures: dict[int, _Failure] = {}
        """Of the partitions that are FAILED."""
        self._expiry: Cancellable | None = None
        self._topic = OffsetsTopic(log, clock, self._lose)
        self._writes = OffsetWrites(self.offsets, self._topic)
        self._rebalances = Rebalances(config, clock, timers, self._topic)
        self._joins = Joins(self._rebalances, new_id)
        self._syncs = Syncs(self._rebalances)

    # --- the offsets topic ----------------------------------------------------------------------------

    def start(self) -> None:
        """Read what there is, in the background, and look for expired offsets from time to time."""
        self.open_topic()
        self._schedule_expiry()

    async def stop(self) -> None:
        """Keep no group, no timer and no task."""
        if self._expiry is not None:
            self._expiry.cancel()
        self.close_topic()
        if self._loading:
            await asyncio.wait(self._loading)

    @property
    def has_topic(self) -> bool:
        """Whether the offsets topic exists."""
        return bool(self._partitions)

    async def ensure_topic(self) -> None:
        """Have the offsets topic, created on first use.

        Raises:
            KafkaError: it cannot be created.
        """
        if not self._partitions:
            await self._log.create()  # which publishes the metadata with it

    def open_topic(self) -> None:
        """Take over the offsets topic as it exists now."""
        count = self._topic.partitions = self._log.partition_count()
        self._partitions = [PartitionState.LOADING] * count
        for partition in range(count):
            self._open(partition)

    def _open(self, partition: int) -> None:
        """Read a partition, in the background if there is anything in it."""
        try:
            if self._log.is_empty(partition):
                self._opened(partition)
                return
        except Exception as error:
            self._fail(partition, error)
            return
        task = asyncio.get_running_loop().create_task(self._load(partition))
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)

    def _opened(self, partition: int) -> None:
        self._partitions[partition] = PartitionState.ACTIVE
        if self._failures.pop(partition, None) is not None:
            logger.info("__consumer_offsets-%d and its groups are there again", partition)

    def close_topic(self) -> None:
        """Give up all groups, and send everybody who waits to look for the coordinator again: the broker
        stops, or the topic was deleted. Writes that were begun end as they end."""
        for task in self._loading:
            task.cancel()
        for failure in self._failures.values():
            failure.timer.cancel()
        self._failures.clear()
        for group_id in tuple(self.groups):
            self._unload(group_id)
        self._partitions = []
        self._topic.partitions = 0

    def metadata_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Act on topics that came and went; the logs of those that came exist already."""
        deleted = {
            name
            for name in new.changed_topics(old)
            if name in old.topics and old.topics[name].id not in new.topics_by_id
        }
        if GROUP_METADATA_TOPIC in deleted:
            self.close_topic()
        if deleted:
            self._topics_deleted(deleted)
        if GROUP_METADATA_TOPIC in new.topics and not self._partitions:
            self.open_topic()

    def _topics_deleted(self, topics: Collection[str]) -> None:
        """Offsets of these topics mean nothing any more."""
        for group_id in tuple(self.offsets.groups()):
            keys = [key for key in self.offsets.keys(group_id) if key.topic in topics]
            if keys and self._state_of(group_id) is PartitionState.ACTIVE:
                self._writes.remove(group_id, keys, _ignore)

    async def _load(self, partition: int) -> None:
        fold = PartitionFold(f"__consumer_offsets-{partition}")
        try:
            async for batches in self._log.read(partition):
                await self._blocking(fold.add, batches)
            loaded: LoadedPartition = await self._blocking(fold.result)
            self._install(loaded)
        except Exception as error:
            self._fail(partition, error)
        else:
            self._opened(partition)
            logger.info(
                "__consumer_offsets-%d: %d groups, offsets of %d",
                partition,
                len(loaded.groups),
                len(loaded.offsets),
            )

    def _install(self, loaded: LoadedPartition) -> None:
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
            self.groups.setdefault(group_id, Group(group_id, now))
            for key, committed in offsets.items():
                self.offsets.put(group_id, key, committed)

    def _lose(self, partition: int) -> None:
        """The partition cannot be written any more."""
        if self._partitions and self._partitions[partition] is not PartitionState.FAILED:
            self._fail(partition, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "it could not be written"))

    def _fail(self, partition: int, error: Exception) -> None:
        """Give up the partition's groups once the event at hand is over, and read it again later."""
        self._partitions[partition] = PartitionState.FAILED
        why, before = describe(error), self._failures.get(partition)
        if before is None or before.why != why:
            is_known = isinstance(error, (KafkaError, DecodeError, OSError)) or is_exhausted(error)
            logger.error(
                "__consumer_offsets-%d cannot be used, nor its groups, until it can be read again: %s",
                *(partition, why),
                exc_info=None if is_known else error,
            )
        seconds = RETRY_SECONDS if before is None else min(before.retry_seconds * 2, MAX_RETRY_SECONDS)
        timer = self._timers.call_later(0, lambda: self._give_up(partition))
        self._failures[partition] = _Failure(why, seconds, timer)

    def _give_up(self, partition: int) -> None:
        self._unload_partition(partition)
        failure = self._failures[partition]
        failure.timer = self._timers.call_later(failure.retry_seconds, lambda: self._open(partition))

    def _unload_partition(self, partition: int) -> None:
        for group_id in tuple(self.groups):
            if self._topic.partition_of(group_id) == partition:
                self._unload(group_id)

    def _unload(self, group_id: str) -> None:
        self._rebalances.close(self.groups.pop(group_id), ErrorCode.NOT_COORDINATOR)
        self.offsets.forget(group_id)

    def _state_of(self, group_id: str) -> PartitionState:
        if not self._partitions:
            return PartitionState.FAILED
        return self._partitions[self._topic.partition_of(group_id)]

    def require_coordinated(self, group_id: str) -> None:
        """Raises KafkaError NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS where requests must wait or
        go."""
        state = self._state_of(group_id)
        if state is PartitionState.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if state is PartitionState.FAILED:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    @property
    def is_loading(self) -> bool:
        """Whether some groups are not known yet."""
        return PartitionState.LOADING in self._partitions

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
                group = self.groups[group_id] = Group(group_id, self._clock.now_ms())
        except KafkaError as error:
            return JoinGroupResponse(member_id=joining.member_id, error_code=error.code)
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
            for member in group.members.values()
            if member.member_id != joining.member_id
        )
        if nbytes > MAX_MEMBER_BYTES or held + nbytes > MAX_MEMBERS_BYTES:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def sync_group(self, request: SyncGroupRequest) -> SyncGroupResponse | asyncio.Future[SyncGroupResponse]:
        """SyncGroup."""
        try:
            self._require_group_id(request.group_id)
            group = self._group_of_members(request.group_id)
        except KafkaError as error:
            return SyncGroupResponse(error_code=error.code)
        answer = Answer[SyncGroupResponse]()
        self._syncs.sync(group, request, answer)
        return answer.result()

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Heartbeat."""
        try:
            self._require_group_id(request.group_id)
            group = self._group_of_members(request.group_id)
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
        """Whether LeaveGroup has to look closer at this one."""
        group = self.groups.get(group_id)
        return group is not None and (
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
        if group is None:
            group = Group(group_id, 0)  # nobody is a member
        return leave(self._rebalances, group, identities)

    def _require_group_id(self, group_id: str) -> None:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        self.require_coordinated(group_id)

    def _group_of_members(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    def require_group(self, group_id: str) -> Group:
        """Raises KafkaError GROUP_ID_NOT_FOUND, or that it is not coordinated here."""
        self.require_coordinated(group_id)
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    # --- offsets --------------------------------------------------------------------------------------

    def check_commit(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation: int
    ) -> None:
        """Let a member, or a consumer that manages its partitions itself, commit offsets; it is a sign
        of life.

        Raises:
            KafkaError: the commit is refused; GROUP_ID_NOT_FOUND when only a group could have made it.
        """
        self.require_coordinated(group_id)
        group = self.groups.get(group_id)
        if group is None:
            if generation >= 0:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
            group = self.groups[group_id] = Group(group_id, self._clock.now_ms())
        member = group.member_for_commit(member_id, group_instance_id, generation)
        if member is not None:
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
        if group.state is not GroupState.EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        self._remove_group(group, self.offsets.keys(group_id), lambda error: done(coordinator_error(error)))

    def _remove_group(self, group: Group, keys: Collection[TopicPartition], done: Done) -> None:
        del self.groups[group.group_id]
        self._rebalances.close(group, ErrorCode.UNKNOWN_MEMBER_ID)
        self._writes.remove(group.group_id, keys, done, with_group=True)

    # --- expiry ---------------------------------------------------------------------------------------

    def _schedule_expiry(self) -> None:
        interval_ms = self.config.offsets_retention_check_interval_ms
        self._expiry = self._timers.call_later(interval_ms / 1000, self._expire)

    def _expire(self) -> None:
        self._schedule_expiry()
        now = self._clock.now_ms()
        for group in tuple(self.groups.values()):
            if self._state_of(group.group_id) is not PartitionState.ACTIVE:
                continue
            expired = self.offsets.expired(group, now, self.config.offsets_retention_ms)
            is_last = len(expired) == len(self.offsets.keys(group.group_id))
            if is_last and group.state is GroupState.EMPTY and not group.pending:
                name = shortened(group.group_id)
                logger.info("Group %s is empty and has no offsets any more: removed", name)
                self._remove_group(group, expired, _ignore)
            elif expired:
                name = shortened(group.group_id)
                logger.info("Group %s: offsets of %d partitions expired", name, len(expired))
                self._writes.remove(group.group_id, expired, _ignore)


def _commit_error(error: ErrorCode) -> ErrorCode:
    if error is ErrorCode.MESSAGE_TOO_LARGE or error is ErrorCode.RECORD_LIST_TOO_LARGE:
        return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    return coordinator_error(error)


def _ignore(error: ErrorCode) -> None:
    """Removing is tried again at the next occasion."""
