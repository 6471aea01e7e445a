"""The group coordinator: which groups there are, and what each request does to them.

This broker coordinates the groups of every partition of `__consumer_offsets` that it leads
(`kafkapy.coordination.runtime`). While a partition is being read, requests for its groups get
COORDINATOR_LOAD_IN_PROGRESS. A heartbeat is accepted, as in Apache Kafka, so that a restart of the broker
starts no rebalance. Groups are restored as Stable with their members. Each member then has one session
timeout to send a heartbeat. So a group moves to another broker of a cluster without a rebalance. What it was
doing is lost: members that wait in JoinGroup or SyncGroup get NOT_COORDINATOR, and ask the new coordinator.

In a cluster a commit may wait long for the other replicas, or for ever: this broker may not know yet that
another one leads the partition. A client that commits offsets or an assignment then gets an error after
offsets.commit.timeout.ms, and looks for the coordinator again. The record may still be committed later. If
so, it counts.

A request for one type of group may name a group of another type. Classic groups and consumer groups turn into
each other, and consumer groups have members with the classic protocol (`kafkapy.groups.consumer`). A classic
group without members and a streams group (`kafkapy.groups.streams`) do so too.

A method returns a future if the request must wait, and otherwise the answer. Source: Apache Kafka's
GroupCoordinatorService, GroupMetadataManager.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from kafkapy.coordination.answer import Answer
from kafkapy.coordination.commit_deadlines import CommitDeadlines
from kafkapy.coordination.errors import coordinator_error, describe
from kafkapy.coordination.runtime import CoordinatorRuntime
from kafkapy.coordination.timers import Timers
from kafkapy.coordination.topic_log import Done, TopicLog
from kafkapy.groups.classic.group import ClassicGroup, GroupState
from kafkapy.groups.classic.join import NO_MEMBER_ID, Joining, Joins
from kafkapy.groups.classic.leave import leave
from kafkapy.groups.classic.metadata import restore_group
from kafkapy.groups.classic.rebalance import Rebalances
from kafkapy.groups.classic.sync import Syncs
from kafkapy.groups.classic.writes import GroupWrites
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.consumer.consumer_groups import ConsumerGroups
from kafkapy.groups.consumer.group import ConsumerGroup
from kafkapy.groups.consumer.regex import error_in
from kafkapy.groups.group import CommitCheck, Group
from kafkapy.groups.groups import LONG_GROUP_ID, Groups
from kafkapy.groups.loading import GroupReplay, LoadedPartition
from kafkapy.groups.member_memory import MAX_MEMBER_BYTES, MAX_TAGS
from kafkapy.groups.member_total import identity_bytes, regex_bytes, subscription_bytes
from kafkapy.groups.modern.heartbeats import JOIN_EPOCH, Client
from kafkapy.groups.offsets.committed_offset import EncodedOffset
from kafkapy.groups.offsets.offsets import Offsets
from kafkapy.groups.offsets.sweeps import OffsetSweeps
from kafkapy.groups.offsets.writes import OFFSETS_AT_ONCE, OffsetWrites, ignore
from kafkapy.groups.share.group import ShareGroup
from kafkapy.groups.share.offsets import ShareGroupOffsets
from kafkapy.groups.share.persister import StateKeeper
from kafkapy.groups.share.share_groups import ShareGroups
from kafkapy.groups.streams.group import StreamsGroup
from kafkapy.groups.streams.heartbeat import HeartbeatAnswer
from kafkapy.groups.streams.member import metadata_bytes
from kafkapy.groups.streams.streams_groups import StreamsGroups
from kafkapy.groups.streams.topology import topology_bytes
from kafkapy.logs.text import shortened
from kafkapy.loop.clock import Clock
from kafkapy.loop.turns import Steps
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupResponse
from kafkapy.protocol.messages.leave_group import MemberIdentity, MemberResponse
from kafkapy.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kafkapy.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.disk.errors import is_exhausted

MAX_TOPIC_NAMES: Final = 10_000
"""The most names that one member may subscribe to; there is no limit for regular expressions.

Each name costs the event loop time whenever the member's group changes: 10,000 take some 10 ms.
"""

logger = logging.getLogger(__name__)


def _random_id() -> str:
    return str(uuid.uuid4())


class GroupCoordinator:
    """All groups that this broker coordinates (`kafkapy.coordination.runtime.StateMachine`)."""

    max_group_ids_bytes: int = 16 << 20
    """The most characters of all long group ids. Beyond this, only groups with shorter ids are added."""

    def __init__(
        self,
        config: GroupConfig,
        clock: Clock,
        timers: Timers,
        log: TopicLog,
        *,
        blocking: Callable[..., Awaitable[Any]],
        costly: Callable[..., Awaitable[Any]],
        new_id: Callable[[], str] = _random_id,
        share_state: StateKeeper | None = None,
    ) -> None:
        """`blocking(call, *args)` runs a long call in a worker thread.

        `costly(call, *args)` runs one whose cost clients choose, in a thread for such calls.
        `share_state` keeps the states of share partitions; without it there are no share groups.
        """
        self.config = config
        self.groups = Groups()
        self.offsets = Offsets()
        self.runtime = CoordinatorRuntime(self, log, clock, timers, blocking=blocking)
        self._topic = log.topic
        self._clock = clock
        self._timers = timers
        self._costly = costly
        self._image = MetadataImage()
        """The metadata, as of the last change."""
        self._deadlines = CommitDeadlines(timers, config.offsets_commit_timeout_ms / 1000)
        self.writes = OffsetWrites(self.offsets, self.runtime, self._deadlines)
        """Stores and removes offsets, after `check_commit` or another check has accepted that."""
        self.sweeps = OffsetSweeps(
            self.groups,
            self.offsets,
            config,
            clock,
            timers,
            writes=self.writes,
            is_active=self.runtime.is_active,
            remove_group=self._remove_group,
            has_topic=lambda name: name in self._image.topics,
        )
        self._rebalances = Rebalances(config, clock, timers, GroupWrites(self.runtime, self._deadlines))
        self._joins = Joins(self._rebalances, new_id)
        self._syncs = Syncs(self._rebalances, self.groups.members)
        self.consumers = ConsumerGroups(
            self.groups,
            config,
            clock,
            timers,
            runtime=self.runtime,
            deadlines=self._deadlines,
            rebalances=self._rebalances,
            costly=costly,
        )
        self.streams = StreamsGroups(
            self.groups,
            config,
            clock,
            timers,
            runtime=self.runtime,
            deadlines=self._deadlines,
            costly=costly,
        )
        self.shares = ShareGroups(
            self.groups,
            config,
            clock,
            timers,
            runtime=self.runtime,
            deadlines=self._deadlines,
            topics=lambda: self.consumers.topics,
            state=share_state,
            costly=costly,
        )
        self.share_offsets = ShareGroupOffsets(self.shares)

    # --- the offsets topic ----------------------------------------------------------------------------

    def start(self, image: MetadataImage | None = None) -> None:
        """Load the groups in the background, and look for expired offsets at intervals.

        `image` is the present metadata; later ones come with `metadata_changed`.
        """
        if image is not None:
            self.consumers.metadata_changed(self._image, image)
            self.streams.metadata_changed(self._image, self.consumers.topics)
            self._image = image
        self.runtime.open_topic()
        self.sweeps.start()

    def configure(self, config: GroupConfig) -> None:
        """Take over the settings that are dynamic."""
        for groups in (self.consumers, self.shares, self.streams):
            groups.configure(config)

    async def stop(self) -> None:
        """Unload all groups, and cancel all timers and tasks."""
        self.sweeps.stop()
        self.consumers.stop()
        self.shares.stop()
        self.streams.stop()
        await self.runtime.stop()

    def leadership_changed(self, topic: str, partition: int, leads: bool, leader_epoch: int) -> None:
        """Load or unload a partition's groups after this broker became its leader or ceased to be.

        It is called for each change, in their order.
        """
        if topic == self._topic:
            self.runtime.leadership_changed(partition, leads=leads, leader_epoch=leader_epoch)

    def metadata_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Act on topics that were created or deleted."""
        self.runtime.metadata_changed(old, new)
        self.consumers.metadata_changed(old, new)
        self.shares.metadata_changed(old, new)
        self.streams.metadata_changed(old, self.consumers.topics)
        self._image = new
        deleted = {
            name: old.topics[name].id
            for name in new.changed_topics(old)
            if name in old.topics and old.topics[name].id not in new.topics_by_id
        }
        if deleted:
            self.sweeps.topics_deleted(deleted)

    def replay(self, name: str) -> GroupReplay:
        """Begin to read a partition."""
        return GroupReplay(name)

    def install(self, loaded: LoadedPartition) -> str:
        """Add the groups of a partition, and their offsets."""
        for group_id, value in loaded.groups.items():
            try:
                group = restore_group(group_id, value)
            except Exception as error:
                if is_exhausted(error):
                    raise
                logger.error(
                    "Group %s cannot be restored and starts empty: %s", shortened(group_id), describe(error)
                )
                continue
            self.groups[group_id] = group
            for member in group.members.values():
                self._rebalances.sessions.touch(group, member)
            if len(group.members) > self.config.max_size:
                self._rebalances.prepare(group, "it is larger than group.max.size, which was lowered")
        for group_id, changes in loaded.consumer_groups.items():
            self.consumers.install(group_id, changes)
        for group_id, share_changes in loaded.share_groups.items():
            self.shares.install(group_id, share_changes)
        for group_id, streams_changes in loaded.streams_groups.items():
            self.streams.install(group_id, streams_changes)
        now = self._clock.now_ms()
        for group_id, offsets in loaded.offsets.items():
            self.groups.setdefault(group_id, ClassicGroup(group_id, now))
            self.offsets.load(group_id, offsets)
        for group_id, key, producer_id, offset in loaded.pending:
            self.groups.setdefault(group_id, ClassicGroup(group_id, now))
            self.offsets.pending.put(group_id, key, producer_id, offset)
        count = len(loaded.groups) + len(loaded.consumer_groups)
        count += len(loaded.share_groups) + len(loaded.streams_groups)
        return f"{count} groups, offsets of {len(loaded.offsets)}"

    def unload(self, partitions: Collection[int]) -> None:
        """Drop the groups of these partitions.

        Waiting requests are answered so that their clients look for the coordinator again.
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
        """JoinGroup.

        Only some refusals repeat the member id of the request, as in Apache Kafka.
        """
        limits = self.config
        if not group_id:
            return _not_joined(joining, ErrorCode.INVALID_GROUP_ID)
        if not limits.min_session_timeout_ms <= joining.session_timeout_ms <= limits.max_session_timeout_ms:
            return _not_joined(joining, ErrorCode.INVALID_SESSION_TIMEOUT)
        try:
            self.runtime.require_active(group_id)
            self._require_room(group_id, joining.member_id, joining.nbytes)
            group = self.groups.get(group_id)
            if isinstance(group, ConsumerGroup) and group.members:
                return self.consumers.join(group, joining)
            if isinstance(group, StreamsGroup) and group.members:
                raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if group is None or isinstance(group, (ConsumerGroup, StreamsGroup)):
                if joining.member_id != NO_MEMBER_ID:
                    return _not_joined(joining, ErrorCode.UNKNOWN_MEMBER_ID)
                group = self._new_group(group_id) if group is None else self._replace_empty(group)
            if not isinstance(group, ClassicGroup):
                raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        except KafkaError as error:
            return JoinGroupResponse(error_code=error.code)
        answer: Answer[JoinGroupResponse] = Answer()
        self._joins.join(group, joining, answer)
        return answer.result()

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, version: int, client: Client
    ) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
        """ConsumerGroupHeartbeat.

        Raises:
            KafkaError: it is refused. It is raised at once, or when the answer is awaited.
        """
        self.consumers.require_valid(request, version)
        self.runtime.require_active(request.group_id)
        if self.consumers.must_check_regex(request):
            return self._heartbeat_with_regex(request, client)
        return self._heartbeat(request, client)

    async def _heartbeat_with_regex(
        self, request: ConsumerGroupHeartbeatRequest, client: Client
    ) -> ConsumerGroupHeartbeatResponse:
        """Have the regular expression of a heartbeat compiled in a worker thread first."""
        invalid = await self._costly(error_in, request.subscribed_topic_regex)
        self.runtime.require_active(request.group_id)
        answer = self._heartbeat(request, client, invalid)
        return answer if isinstance(answer, ConsumerGroupHeartbeatResponse) else await answer

    def _heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        invalid_regex: KafkaError | None = None,
    ) -> ConsumerGroupHeartbeatResponse | asyncio.Future[ConsumerGroupHeartbeatResponse]:
        _require_few_names(
            request.subscribed_topic_names, "by their names, and to more by a regular expression"
        )
        if request.member_epoch >= JOIN_EPOCH:
            self._require_room(request.group_id, request.member_id, self._member_bytes(request, client))
        return self.consumers.heartbeat(request, client, invalid_regex)

    def _member_bytes(self, request: ConsumerGroupHeartbeatRequest, client: Client) -> int:
        """About how many bytes of memory the member of a heartbeat will take."""
        nbytes = subscription_bytes(request.subscribed_topic_names or (), request.subscribed_topic_regex)
        nbytes += identity_bytes(
            request.member_id, request.instance_id, request.rack_id, client.client_id, client.client_host
        )
        if self.consumers.must_check_regex(request):
            # However many topics there are, one member may subscribe to them by an expression.
            nbytes += min(regex_bytes(len(self._image.topics)), max(MAX_MEMBER_BYTES - nbytes, 0))
        return nbytes

    def share_heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: Client
    ) -> ShareGroupHeartbeatResponse | asyncio.Future[ShareGroupHeartbeatResponse]:
        """ShareGroupHeartbeat; raises KafkaError if it is refused."""
        self.shares.require_valid(request)
        self.runtime.require_active(request.group_id)
        _require_few_names(request.subscribed_topic_names, "at most")
        if request.member_epoch >= JOIN_EPOCH:
            nbytes = subscription_bytes(request.subscribed_topic_names or ())
            nbytes += identity_bytes(request.member_id, request.rack_id, client.client_id, client.client_host)
            self._require_room(request.group_id, request.member_id, nbytes)
        return self.shares.heartbeat(request, client)

    def streams_heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client: Client
    ) -> HeartbeatAnswer | asyncio.Future[HeartbeatAnswer]:
        """StreamsGroupHeartbeat; raises KafkaError if it is refused."""
        self.streams.require_valid(request)
        self.runtime.require_active(request.group_id)
        if request.member_epoch >= JOIN_EPOCH:
            endpoint = request.user_endpoint
            # The first MAX_TAGS are too many already.
            tags = [(tag.key, tag.value) for tag in (request.client_tags or ())[:MAX_TAGS]]
            nbytes = metadata_bytes(request.process_id, "" if endpoint is None else endpoint.host, tags)
            nbytes += identity_bytes(
                request.member_id,
                request.instance_id,
                request.rack_id,
                client.client_id,
                client.client_host,
            )
            group = self.groups.get(request.group_id)
            if request.topology is not None and not (isinstance(group, StreamsGroup) and group.members):
                nbytes += topology_bytes(request.topology)
            self._require_room(request.group_id, request.member_id, nbytes)
        return self.streams.heartbeat(request, client)

    def _replace_empty(self, group: Group) -> ClassicGroup:
        """Make a group without members a classic group, which keeps the offsets."""
        classic = self.groups[group.group_id] = ClassicGroup(group.group_id, self._clock.now_ms())

        def restore() -> None:
            if self.groups.get(group.group_id) is classic and not classic.members:
                self.groups[group.group_id] = group

        self.writes.remove_group(group, (), ignore, restore)
        return classic

    def _require_room(self, group_id: str, member_id: str, nbytes: int) -> None:
        """Refuse a member of so many bytes, or a new group, that would take too much memory."""
        group = self.groups.get(group_id)
        if group is None:
            self._require_room_for_id(group_id)
        replaced = 0 if group is None else group.bytes_of_member(member_id)
        topics = len(self._image.topics)
        self.groups.members.require_room(nbytes, replaced=replaced, topics=topics)

    def sync_group(self, request: SyncGroupRequest) -> SyncGroupResponse | asyncio.Future[SyncGroupResponse]:
        """SyncGroup."""
        try:
            self._require_group_id(request.group_id)
            found = self.groups.get(request.group_id)
            if isinstance(found, ConsumerGroup):
                return self.consumers.sync(found, request)
            group = self._classic_group(request.group_id)
        except KafkaError as error:
            return SyncGroupResponse(error_code=error.code)
        answer: Answer[SyncGroupResponse] = Answer()
        self._syncs.sync(group, request, answer)
        return answer.result()

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Heartbeat."""
        try:
            self._require_group_id(request.group_id)
            found = self.groups.get(request.group_id)
            if isinstance(found, ConsumerGroup):
                return self.consumers.classic_heartbeat(found, request)
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

    def hear_from_all(self) -> None:
        """Take each member of a group to have sent a heartbeat now."""
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    self._rebalances.sessions.touch(group, member)
        for groups in (self.consumers, self.shares, self.streams):
            groups.hear_from_all()

    def is_pending(self, group_id: str, identity: MemberIdentity) -> bool:
        """Whether this is a member id that was handed out, and with which nobody has joined yet."""
        group = self.groups.get(group_id)
        return isinstance(group, ClassicGroup) and identity.member_id in group.pending

    def may_be_member(self, group_id: str, identity: MemberIdentity) -> bool:
        """Whether LeaveGroup must look up this member.

        False if it is certainly none.
        """
        group = self.groups.get(group_id)
        return isinstance(group, (ClassicGroup, ConsumerGroup)) and (
            identity.member_id in group.members or identity.group_instance_id in group.static_members
        )

    def leave_group(self, group_id: str, identities: Sequence[MemberIdentity]) -> list[MemberResponse]:
        """LeaveGroup, one answer for each.

        Raises:
            KafkaError: all of the request is refused.
        """
        self._require_group_id(group_id)
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumers.leave(group, identities)
        if not isinstance(group, ClassicGroup):
            group = ClassicGroup(group_id, 0)  # a group without members
        return leave(self._rebalances, group, identities)

    def _require_group_id(self, group_id: str) -> None:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        self.runtime.require_active(group_id)

    def _new_group(self, group_id: str) -> ClassicGroup:
        """Add a group; raises KafkaError if the ids of groups would take too much memory."""
        self._require_room_for_id(group_id)
        group = self.groups[group_id] = ClassicGroup(group_id, self._clock.now_ms())
        return group

    def _require_room_for_id(self, group_id: str) -> None:
        held = self.groups.long_ids
        if len(group_id) > LONG_GROUP_ID and held + len(group_id) > self.max_group_ids_bytes:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def _classic_group(self, group_id: str) -> ClassicGroup:
        """The group that a member names."""
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
        self,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        version: int | None = None,
    ) -> CommitCheck | None:
        """Check that a member may commit offsets, or a consumer that assigns partitions to itself.

        The commit extends the member's session. `version` is that of the OffsetCommit. If a function is
        returned, it must accept every partition.

        Raises:
            KafkaError: the commit is refused; GROUP_ID_NOT_FOUND when only a group could have made it.
        """
        group = self._committing_group(group_id, generation)
        check = group.validate_offset_commit(member_id, group_instance_id, generation, version)
        if isinstance(group, ClassicGroup) and (member := group.members.get(member_id)) is not None:
            self._rebalances.sessions.touch(group, member)
        return check

    def check_commit_in_transaction(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation: int
    ) -> CommitCheck | None:
        """Check that offsets may be committed in a transaction, for a member or without one.

        If a function is returned, it must accept every partition.

        Raises:
            KafkaError: the commit is refused; GROUP_ID_NOT_FOUND when only a group could have made it.
        """
        group = self._committing_group(group_id, generation)
        return group.validate_offset_commit(member_id, group_instance_id, generation, in_transaction=True)

    def _committing_group(self, group_id: str, generation: int) -> Group:
        """The group whose offsets are committed; a new one without members if there is none."""
        self.runtime.require_active(group_id)
        group = self.groups.get(group_id)
        if group is None:
            if generation >= 0:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
            try:
                group = self._new_group(group_id)
            except KafkaError:
                # Clients that commit do not know that a group may be too large.
                raise KafkaError(ErrorCode.INVALID_COMMIT_OFFSET_SIZE) from None
        return group

    def delete_group(self, group_id: str, done: Done) -> Steps[None]:
        """Remove an empty group and its offsets, or its share partitions.

        Most of very many offsets are removed before the group is: a member that joins meanwhile finds a part
        of them, and the group stays.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP, or that it is not coordinated here.
        """
        offsets = self.offsets
        failed = ErrorCode.NONE

        def part_removed(error: ErrorCode) -> None:
            nonlocal failed
            failed = failed or error

        group = self.require_group(group_id)
        group.validate_delete()
        if isinstance(group, ShareGroup):
            self.shares.delete(group, partial(self._remove_group, group, ()), done)
            return
        removed: dict[TopicPartition, EncodedOffset | None] = {}
        left = iter(offsets.keys(group_id)[OFFSETS_AT_ONCE:])
        while part := list(islice(left, OFFSETS_AT_ONCE)):
            committed = offsets.of_group(group_id)
            removed.update((key, committed.get(key)) for key in part)
            self.writes.remove(group_id, part, part_removed)
            yield
            group = self.require_group(group_id)
            group.validate_delete()
            if failed is not ErrorCode.NONE:
                raise KafkaError(coordinator_error(failed))
        committed = offsets.of_group(group_id)
        keys = [
            key
            for key in offsets.keys(group_id)
            # A commit may have come after the removal.
            if key not in removed
            or offsets.is_undecided(group_id, key)
            or committed.get(key) is not removed[key]
        ]
        self._remove_group(group, keys, lambda error: done(coordinator_error(failed or error)))

    def _remove_group(self, group: Group, keys: Sequence[TopicPartition], done: Done) -> None:
        """Remove an empty group at once.

        The removal is final when it is committed.
        """
        group_id = group.group_id
        del self.groups[group_id]

        def finished(error: ErrorCode) -> None:
            if self.groups.get(group_id) is not group:
                group.close(ErrorCode.UNKNOWN_MEMBER_ID, self._clock.now_ms())
            done(error)

        self.writes.remove_group(group, keys, finished, lambda: self.groups.setdefault(group_id, group))


def _require_few_names(names: Sequence[str] | None, how: str) -> None:
    """Raise KafkaError if a member subscribes to too many topics."""
    if names is not None and len(names) > MAX_TOPIC_NAMES:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"A member may subscribe to {MAX_TOPIC_NAMES} topics {how}."
        )


def _not_joined(joining: Joining, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(member_id=joining.member_id, error_code=error)
