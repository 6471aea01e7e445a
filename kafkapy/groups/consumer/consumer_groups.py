"""The consumer groups of a coordinator, among its other groups.

Each request is given to the state machine, and its records are written to the log. A member that joins with
ConsumerGroupHeartbeat makes a group a consumer group, and so the last one that goes makes it a classic group
(`conversion.py`). Long work is done in a worker thread: matching regular expressions, and large target
assignments. Its result counts only if it still fits the group.

A method returns a future if the request must wait, and otherwise the answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final

from kafkapy.coordination.answer import Answer
from kafkapy.coordination.commit_deadlines import CommitDeadlines
from kafkapy.coordination.runtime import CoordinatorRuntime
from kafkapy.coordination.timers import Timers
from kafkapy.coordination.topic_log import Done
from kafkapy.groups.classic.group import ClassicGroup, GroupState
from kafkapy.groups.classic.join import NO_MEMBER_ID, Joining
from kafkapy.groups.classic.metadata import group_metadata
from kafkapy.groups.classic.rebalance import Rebalances
from kafkapy.groups.classic.records import encode_group_key, encode_group_value
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.consumer.classic_members import ClassicMembers
from kafkapy.groups.consumer.conversion import classic_group_of, consumer_group_of, require_upgrade
from kafkapy.groups.consumer.departures import leaving_member, may_downgrade, remove_members
from kafkapy.groups.consumer.group import ConsumerGroup, Transition
from kafkapy.groups.consumer.heartbeat import Heartbeats
from kafkapy.groups.consumer.member import ConsumerMember
from kafkapy.groups.consumer.progress import Progress
from kafkapy.groups.consumer.records import ConsumerGroupKey, Target
from kafkapy.groups.consumer.regex import RegexTopics
from kafkapy.groups.consumer.regex_refresh import RegexRefresh
from kafkapy.groups.consumer.target import TargetRequest, load_assignors
from kafkapy.groups.group import Group
from kafkapy.groups.groups import Groups
from kafkapy.groups.modern.change import encode_change
from kafkapy.groups.modern.groups import ignore
from kafkapy.groups.modern.heartbeats import JOIN_EPOCH, STATIC_LEAVE_EPOCH, Client
from kafkapy.groups.modern.subscribed_groups import SubscribedGroups
from kafkapy.groups.modern.target_computations import ComputedTarget
from kafkapy.groups.modern.topics import TopicsView
from kafkapy.logs.text import shortened
from kafkapy.loop.clock import Clock
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupResponse
from kafkapy.protocol.messages.leave_group import MemberIdentity, MemberResponse
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkapy.protocol.plain_batch import KeyValue
from kafkapy.protocol.types import random_uuid, uuid_to_text

logger = logging.getLogger(__name__)

TOPICS_AT_ONCE: Final = 1_000
"""How many topics a member's rights are asked for before other work is done."""


def _random_member_id() -> str:
    return uuid_to_text(random_uuid())


class ConsumerGroups(SubscribedGroups[ConsumerGroup, ConsumerGroupKey, ConsumerGroupHeartbeatResponse]):
    """Those groups of a coordinator that are consumer groups, among all its groups."""

    group_class = ConsumerGroup
    group_type = "consumer"

    def __init__(
        self,
        groups: Groups,
        config: GroupConfig,
        clock: Clock,
        timers: Timers,
        *,
        runtime: CoordinatorRuntime[Any],
        deadlines: CommitDeadlines,
        rebalances: Rebalances,
        costly: Callable[..., Awaitable[Any]],
        new_id: Callable[[], str] = _random_member_id,
    ) -> None:
        """`groups` are all groups of the coordinator.

        `rebalances` are those of its classic groups. `costly(call, *args)` runs a call whose cost
        clients choose in a worker thread.

        Raises:
            ValueError: an assignor cannot be loaded.
        """
        super().__init__(groups, config, clock, timers, runtime=runtime, deadlines=deadlines, costly=costly)
        self._rebalances = rebalances
        self._costly = costly
        self.regex_topics = RegexTopics()
        """The topics of the members' regular expressions."""
        self._new_id = new_id
        self.progress = Progress(
            self._settings,
            clock,
            load_assignors(config.consumer_assignors),
            deadlines=self._deadlines,
            computations=self._computations,
        )
        """How groups come to new epochs and targets."""
        self.progress.topics = TopicsView(MetadataImage())
        self._refresh = RegexRefresh(self.progress, self._resolve_later)
        self._heartbeats = Heartbeats(self.progress, self._refresh)
        self._classic = ClassicMembers(self.progress, self._refresh)

    @property
    def default_assignor(self) -> str:
        """The assignor of a group whose members do not ask for one."""
        return next(iter(self.progress.assignors))

    @property
    def topics(self) -> TopicsView:
        return self.progress.topics

    # --- the metadata and the log ---------------------------------------------------------------------

    def metadata_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Note which topics have changed; each group looks at its own when it hears from a member."""
        self.progress.topics = TopicsView(new, self.progress.topics)
        changed = new.changed_topics(old)
        if not changed:
            return
        if any(name not in old.topics for name in changed):
            self._refresh.new_topics_version = self._clock.now_ms()
        self._changes.add(changed)

    def _must_revoke(self, member: ConsumerMember) -> bool:
        return member.classic is None and member.is_revoking

    # --- members that use the consumer protocol -------------------------------------------------------

    def require_valid(self, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
        """Raise KafkaError if a ConsumerGroupHeartbeat makes no sense, whatever the group."""
        self._heartbeats.require_valid(request, version)

    def must_check_regex(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Whether a heartbeat brings a regular expression that no member of its group has."""
        regex, group = request.subscribed_topic_regex, self._groups.get(request.group_id)
        return bool(regex) and not (
            isinstance(group, ConsumerGroup) and self._refresh.is_known(group, regex or "")
        )

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        invalid_regex: KafkaError | None = None,
    ) -> ConsumerGroupHeartbeatResponse | asyncio.Future[ConsumerGroupHeartbeatResponse]:
        """ConsumerGroupHeartbeat.

        `invalid_regex` is the error of the regular expression of the request, if it must be checked.

        Raises:
            KafkaError: it is refused.
        """
        if request.member_epoch < JOIN_EPOCH:
            group = self.require_group(request.group_id)
            member = self._heartbeats.leaving(group, request)
            if request.member_epoch == STATIC_LEAVE_EPOCH:
                return self._leave_for_now(group, member, request)
            return self._leave(group, member.member_id, request)
        request.member_id = request.member_id or self._new_id()
        found = self._groups.get(request.group_id)
        group, first = self._group_to_join(found, request)

        def event(transition: Transition) -> ConsumerGroupHeartbeatResponse:
            return self._heartbeats.heartbeat(transition, request, client, invalid_regex)

        return self._handle(group, event, first=first, replaced=found)

    def _answer(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(**fields)

    def _group_to_join(
        self, found: Group | None, request: ConsumerGroupHeartbeatRequest
    ) -> tuple[ConsumerGroup, Sequence[KeyValue]]:
        """The group of a heartbeat, and the records that make it a consumer group.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND.
        """
        group_id = request.group_id
        if isinstance(found, ConsumerGroup):
            return found, ()
        if request.member_epoch != JOIN_EPOCH:
            if found is None:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
            raise self._of_another_type(group_id)
        if found is None:
            return ConsumerGroup(group_id), ()
        tombstones = tuple((key, None) for key in found.tombstone_keys())
        if not isinstance(found, ClassicGroup):
            raise self._of_another_type(group_id)
        if found.state is GroupState.EMPTY:
            return ConsumerGroup(group_id), tombstones
        require_upgrade(found, self._settings.config)
        group, changes = consumer_group_of(found, self.topics)
        return group, (*tombstones, *map(encode_change, changes))

    def _leave_for_now(
        self, group: ConsumerGroup, member: ConsumerMember, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse | asyncio.Future[ConsumerGroupHeartbeatResponse]:
        who = shortened(member.member_id)
        logger.info("Group %s: static member %s leaves for now", shortened(group.group_id), who)

        def event(transition: Transition) -> ConsumerGroupHeartbeatResponse:
            self._heartbeats.leave_for_now(transition, member)
            return self._answer(member_id=request.member_id, member_epoch=request.member_epoch)

        return self._handle(group, event)

    # --- members that use the classic protocol --------------------------------------------------------

    def join(
        self, group: ConsumerGroup, joining: Joining
    ) -> JoinGroupResponse | asyncio.Future[JoinGroupResponse]:
        """JoinGroup, to a group with members.

        Raises:
            KafkaError: it is refused.
        """
        config = self._settings.config
        if not (config.upgrades or config.downgrades):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self._classic.require_joinable(group, joining)
        member_id = joining.member_id or self._new_id()
        if self._classic.needs_id(joining):
            return JoinGroupResponse(member_id=member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED)
        existing = group.static_member(joining.group_instance_id)
        downgrades = (
            existing is not None
            and existing.classic is None
            and joining.member_id == NO_MEMBER_ID
            and may_downgrade(group, config, without=(existing.member_id,), more=1)
        )
        self._notice_topics(group)
        transition = Transition(group)
        classic: ClassicGroup | None = None
        try:
            member, changed = self._classic.join(transition, joining, member_id, assigns=not downgrades)
            if downgrades:
                now = self._clock.now_ms()
                classic = classic_group_of(group, self.topics, without=(), now_ms=now)
        except BaseException:
            transition.undo()
            raise
        answer: Answer[JoinGroupResponse] = Answer()

        def done(error: ErrorCode) -> None:
            refused = JoinGroupResponse(error_code=error)
            answer(refused if error else self._classic.join_response(member))

        if classic is not None:
            reason = "a static member with another subscription came back" if changed else None
            self._downgrade(group, classic, done, transition, reason)
        else:
            transition.afterwards(lambda: self._classic.joined(group, member))
            self._commit(transition, done)
        return answer.result()

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
        """SyncGroup; raises KafkaError."""
        return self._classic.sync(group, request)

    def classic_heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> ErrorCode:
        """Heartbeat; raises KafkaError."""
        return self._classic.heartbeat(group, request)

    def leave(self, group: ConsumerGroup, identities: Sequence[MemberIdentity]) -> list[MemberResponse]:
        """LeaveGroup, one answer for each.

        Members of either protocol leave so: an administrator takes out those with the consumer protocol too.
        """
        answers, leaving = [], []
        for identity in identities:
            answer = MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id
            )
            try:
                member = leaving_member(group, identity)
            except KafkaError as error:
                answer.error_code = error.code
            else:
                reason = "without a reason" if identity.reason is None else f"saying: {identity.reason}"
                who = shortened(member.member_id)
                logger.info(
                    "Group %s: member %s leaves, %s", shortened(group.group_id), who, shortened(reason)
                )
                leaving.append(member.member_id)
            answers.append(answer)
        if leaving:
            self._remove(group, tuple(dict.fromkeys(leaving)), ignore)
        return answers

    # --- members that go ------------------------------------------------------------------------------

    def _expect_heartbeat(self, group: ConsumerGroup, member_id: str) -> None:
        self.progress.expect_heartbeat(group, group.members[member_id])

    def _remove(self, group: ConsumerGroup, member_ids: Collection[str], done: Done) -> None:
        """Remove members, at least one.

        Where a classic group cannot be made of the others, they remain a consumer group. (Apache Kafka
        refuses that a member leaves, and never removes one that is late.)
        """
        if may_downgrade(group, self._settings.config, without=member_ids):
            self._notice_topics(group)
            now = self._clock.now_ms()
            try:
                classic = classic_group_of(group, self.topics, without=member_ids, now_ms=now)
            except KafkaError as error:
                logger.warning("Group %s stays a consumer group: %s", shortened(group.group_id), error)
            else:
                reason = "its last member with the consumer protocol went"
                self._downgrade(group, classic, done, None, reason)
                return
        super()._remove(group, member_ids, done)

    def _remove_members(self, transition: Transition, member_ids: Collection[str]) -> None:
        remove_members(transition, self.progress, member_ids)

    def _downgrade(
        self,
        group: ConsumerGroup,
        classic: ClassicGroup,
        done: Done,
        transition: Transition | None,
        rebalance_reason: str | None,
    ) -> None:
        """Replace a consumer group by a classic one, after the changes of `transition`.

        If it rebalances at once, it is stored without members: a coordinator that took over meanwhile would
        find a stable group, whose members never get the partitions of the one that went. (Apache Kafka stores
        the members.) Then they join anew.
        """
        assignments = {member_id: member.assignment for member_id, member in classic.members.items()}
        changes = (*(transition.changes if transition is not None else ()), *group.tombstones())
        metadata = group_metadata(classic, assignments)
        if rebalance_reason is not None:
            metadata.members, metadata.leader, metadata.protocol = [], None, None
        value = encode_group_value(metadata)

        def accepted() -> None:
            self._groups[group.group_id] = classic
            group.close(ErrorCode.NONE, self._clock.now_ms())
            for member in classic.members.values():
                self._rebalances.sessions.touch(classic, member)
            logger.info("Group %s is a classic group now", shortened(group.group_id))
            if rebalance_reason is not None:
                self._rebalances.prepare(classic, rebalance_reason)

        self._writes.write(
            group.group_id,
            [*map(encode_change, changes), (encode_group_key(group.group_id), value)],
            accepted=accepted,
            refused=transition.undo if transition is not None else _nothing,
            done=done,
        )

    def _added(self, group: ConsumerGroup) -> None:
        for member in group.members.values():
            if member.classic is not None:
                self.progress.expect_heartbeat(group, member)

    # --- long work ------------------------------------------------------------------------------------

    def _resolve_later(
        self,
        group: ConsumerGroup,
        regexes: Collection[str],
        may_describe: Callable[[str], bool] | None,
    ) -> None:
        self._start(self._resolve(group, regexes, may_describe))

    async def _resolve(
        self,
        group: ConsumerGroup,
        regexes: Collection[str],
        may_describe: Callable[[str], bool] | None,
    ) -> None:
        """Look for the topics of regular expressions, as long as one look may take."""
        now, topics = self._clock.now_ms(), self.topics.image.topics
        look = self.regex_topics.look(regexes, topics)
        try:
            while not look.is_over:
                await self._costly(look.work)
        except Exception:
            logger.exception("Group %s: its regular expressions failed", shortened(group.group_id))
            self._refresh.failed(group.group_id)
            return
        self.regex_topics.keep(look, topics)
        found = look.found if may_describe is None else await _described(look.found, may_describe)
        if not self._is_current(group):
            self._refresh.failed(group.group_id)
            return
        if not look.is_done:
            logger.warning(
                "Group %s: its regular expressions take long: %d of %d were looked at, the rest comes later",
                shortened(group.group_id),
                len(look.found),
                len(regexes),
            )
            self._refresh.paused(group)
            return
        self._notice_topics(group)
        transition = Transition(group)
        self._refresh.resolved(transition, found, started_ms=now, version=now)
        self._commit(transition, ignore)

    def _assign(self, transition: Transition, request: TargetRequest, target: ComputedTarget[Target]) -> None:
        self.progress.assign(transition, request, target)


async def _described(
    found: Mapping[str, frozenset[str]], may_describe: Callable[[str], bool]
) -> dict[str, frozenset[str]]:
    """The topics of expressions without those that a member may not know."""
    described: dict[str, frozenset[str]] = {}
    for regex, topics in found.items():
        names = set()
        for number, name in enumerate(topics):
            if number % TOPICS_AT_ONCE == TOPICS_AT_ONCE - 1:
                await asyncio.sleep(0)
            if may_describe(name):
                names.add(name)
        described[regex] = frozenset(names)
    return described


def _nothing() -> None:
    """Do nothing: there is nothing to undo."""
