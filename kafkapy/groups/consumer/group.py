"""A consumer group: its members and their subscriptions, epochs, target assignment.

    Empty        no members
    Assigning    the group epoch is ahead of the target assignment
    Reconciling  members are on their way to the target assignment
    Stable       every member has reached it

The state changes by `replay` only, one record at a time: when an event changes the group, and when its
partition is read. The order of the records of different keys does not matter. `value_of` is the opposite: the
record that brings back the present state of a key.

This module does no I/O and has no clock. `check()` asserts the invariants between any two events. Source:
Apache Kafka's ModernGroup, ConsumerGroup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any, Final, TypeAlias

from kafkapy.groups.classic.member import protocol_bytes
from kafkapy.groups.classic.subscription import CONSUMER_PROTOCOL_TYPE
from kafkapy.groups.consumer import records
from kafkapy.groups.consumer.member import ConsumerMember, MemberState, Partitions
from kafkapy.groups.consumer.records import ConsumerChange, ConsumerGroupKey, ResolvedRegex, Target
from kafkapy.groups.group import CommitCheck, GroupType
from kafkapy.groups.member_total import identity_bytes, regex_bytes, subscription_bytes
from kafkapy.groups.modern.event_records import EventRecords
from kafkapy.groups.modern.group import NO_EPOCH
from kafkapy.groups.modern.heartbeats import FIRST_COMMIT_VERSION
from kafkapy.groups.modern.subscribed_group import SubscribedGroup
from kafkapy.groups.modern.subscriptions import NO_TOPICS
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from kafkapy.protocol.types import Uuid

_NOBODY: Final = ConsumerMember("")


class ConsumerGroupState(Enum):
    """Kafka's names, as ConsumerGroupDescribe and ListGroups show them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerGroup(SubscribedGroup[ConsumerMember, Target]):
    """One consumer group."""

    type = GroupType.CONSUMER
    target_key = ConsumerGroupTargetAssignmentMemberKey
    protocol_type: str | None = CONSUMER_PROTOCOL_TYPE

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.static_members: dict[str, str] = {}
        """Member id by group.instance.id."""
        self.regexes: dict[str, ResolvedRegex] = {}
        self.regex_subscribers: Counter[str] = Counter()
        """The number of members that subscribe to a regular expression."""
        self.regexes_paused_at = 0
        """When a look at the expressions used up its time, in wall clock milliseconds."""
        self.classic_members = 0
        """The number of members that use the classic protocol."""
        self.partition_metadata: Any = None
        """The value of the ConsumerGroupPartitionMetadata record, if there is one."""
        self._member_bytes = 0
        """About how many bytes the metadata of the members takes."""
        self._matched_topics = 0
        """How many topics the regular expressions match, each by itself."""
        self.owners: dict[Uuid, dict[int, int]] = {}
        """For each partition that a member has or has not given up yet, how many: 1, but between records."""

    # --- records --------------------------------------------------------------------------------------

    def replay(self, change: ConsumerChange) -> None:
        """Apply a record."""
        key, value = change
        if isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            self._replay_current_assignment(key.member_id, value)
        elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
            if value is None:
                self.targets.pop(key.member_id, None)
            else:
                self.targets[key.member_id] = records.read_target(value)
        elif isinstance(key, ConsumerGroupMemberMetadataKey):
            self._replay_member(key.member_id, value)
        elif isinstance(key, ConsumerGroupMetadataKey):
            self._replay_epoch(value)
        elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
            self._replay_assignment_epoch(value)
        elif isinstance(key, ConsumerGroupRegularExpressionKey):
            self._replay_regex(key.regular_expression, value)
        else:
            self.partition_metadata = value

    def value_of(self, key: ConsumerGroupKey) -> Any:
        """The value of the group's own record of this key; None if there is none."""
        group_id = self.group_id
        if isinstance(key, ConsumerGroupMetadataKey):
            return records.group_epoch(group_id, self.epoch, self.metadata_hash).value
        if isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
            change = records.assignment_epoch(group_id, self.assignment_epoch, self.assignment_timestamp)
            return change.value
        if isinstance(key, ConsumerGroupRegularExpressionKey):
            resolved = self.regexes.get(key.regular_expression)
            if resolved is None:
                return None
            return records.regular_expression(group_id, key.regular_expression, resolved).value
        return self.partition_metadata

    def _replay_member(self, member_id: str, value: Any) -> None:
        if value is None:
            self._put(member_id, None)
            return
        member = self.members.get(member_id, ConsumerMember(member_id))
        classic = records.read_classic(value.classic_member_metadata)
        self._put(
            member_id,
            replace(
                member,
                nbytes=subscription_bytes(value.subscribed_topic_names, value.subscribed_topic_regex)
                + protocol_bytes(() if classic is None else classic.protocols)
                + identity_bytes(
                    member_id, value.instance_id, value.rack_id, value.client_id, value.client_host
                ),
                instance_id=value.instance_id,
                rack_id=value.rack_id,
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                client_id=value.client_id,
                client_host=value.client_host,
                topic_names=frozenset(value.subscribed_topic_names),
                topic_regex=value.subscribed_topic_regex or "",
                assignor=value.server_assignor,
                classic=classic,
            ),
        )

    def _replay_regex(self, regex: str, value: Any) -> None:
        old = self.regexes.pop(regex, None)
        new = None if value is None else records.read_regex(value)
        before = NO_TOPICS if old is None else old.topics
        topics = self.subscriptions.replace(before, NO_TOPICS if new is None else new.topics)
        if new is not None:
            self.regexes[regex] = new._replace(topics=topics)
        self._matched_topics += len(topics) - len(before)
        self._count_memory()

    def _replay_current_assignment(self, member_id: str, value: Any) -> None:
        member = self.members.get(member_id)
        if value is None:
            if member is not None:
                self._put(member_id, replace(member, epoch=NO_EPOCH, assigned={}, revoking={}))
            return
        self._put(
            member_id,
            replace(
                member or ConsumerMember(member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=records.read_state(value.state),
                assigned=records.read_partitions(value.assigned_partitions, value.member_epoch),
                revoking=records.read_partitions(value.partitions_pending_revocation, value.member_epoch),
            ),
        )

    def _put(self, member_id: str, new: ConsumerMember | None) -> None:
        """Add, replace or remove a member, and update the totals of all members."""
        old = self.members.pop(member_id, None) if new is None else self.members.get(member_id)
        before = NO_TOPICS if old is None else old.topic_names
        names = self.subscriptions.replace(before, NO_TOPICS if new is None else new.topic_names)
        if new is not None and new.topic_names is not names:
            new = replace(new, topic_names=names)
        self._change_owners(_NOBODY if old is None else old, _NOBODY if new is None else new)
        if old is not None:
            self._count(old, -1)
            if old.instance_id is not None and self.static_members.get(old.instance_id) == member_id:
                del self.static_members[old.instance_id]
        if new is not None:
            self.members[member_id] = new
            self._count(new, 1)
            if new.instance_id is not None:
                self.static_members[new.instance_id] = member_id
        self._count_memory()

    def _count_memory(self) -> None:
        self.memory.set(
            self._member_bytes + regex_bytes(self._matched_topics),
            len(self.regex_subscribers) - len(self.regexes),
        )

    def _count(self, member: ConsumerMember, by: int) -> None:
        self._member_bytes += by * member.nbytes
        if member.topic_regex:
            _add(self.regex_subscribers, (member.topic_regex,), by)
        self.classic_members += by * (member.classic is not None)

    def _change_owners(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """Count the partitions of a member, which has thousands of topics that stay as they are."""
        for before, after in ((old.assigned, new.assigned), (old.revoking, new.revoking)):
            if before is after:
                continue
            for topic, epochs in before.items():
                if after.get(topic) is not epochs:
                    self._count_owners(topic, epochs, -1)
            for topic, epochs in after.items():
                if before.get(topic) is not epochs:
                    self._count_owners(topic, epochs, 1)

    def _count_owners(self, topic: Uuid, partitions: Collection[int], by: int) -> None:
        owners = self.owners.get(topic)
        if owners is None:
            if partitions:
                self.owners[topic] = dict.fromkeys(partitions, by)
            return
        for partition in partitions:
            count = owners.get(partition, 0) + by
            if count:
                owners[partition] = count
            else:
                del owners[partition]
        if not owners:
            del self.owners[topic]

    # --- members --------------------------------------------------------------------------------------

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member of this group.instance.id."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target(self, member_id: str) -> Target:
        """The target assignment of a member."""
        return self.targets.get(member_id, {})

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether another member still has a partition of the member's target assignment."""
        return member.state is MemberState.UNRELEASED_PARTITIONS and any(
            partition not in member.assigned.get(topic, ()) and partition in self.owners.get(topic, ())
            for topic, partitions in self.target(member.member_id).items()
            for partition in partitions
        )

    def preferred_assignor(self) -> str | None:
        """The assignor that most members ask for; None if nobody asks for one."""
        votes = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        return votes.most_common(1)[0][0] if votes else None

    def supports_classic(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these classic protocols can join."""
        if protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        supported: Counter[str] = Counter(
            name
            for member in self.members.values()
            if member.classic is not None
            for name, _ in member.classic.protocols
        )
        return any(supported[name] == self.classic_members for name in names)

    # --- subscriptions --------------------------------------------------------------------------------

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topics that a member subscribes to, whether they exist or not."""
        resolved = self.regexes.get(member.topic_regex) if member.topic_regex else None
        return member.topic_names if resolved is None else member.topic_names | resolved.topics

    @property
    def regexes_time(self) -> int:
        """When the regular expressions were last looked at; 0 if there are none."""
        return max((resolved.timestamp for resolved in self.regexes.values()), default=0)

    @property
    def regexes_version(self) -> int:
        """The version of the metadata in which regular expressions were last looked at."""
        return max((resolved.version for resolved in self.regexes.values()), default=0)

    # --- the interface of any group -------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        """The state."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        """The state's name, as tools show it."""
        return self.state.value

    def bytes_of_member(self, member_id: str) -> int:
        """The part of `memory` that one member takes, the topics of its expression apart."""
        member = self.members.get(member_id)
        return 0 if member is None else member.nbytes

    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        version: int | None = None,
        *,
        in_transaction: bool = False,
    ) -> CommitCheck | None:
        """Check that a member may commit offsets, or a consumer that assigns partitions to itself.

        A member whose epoch rose meanwhile may commit those partitions that it has had since (KIP-1251). The
        returned function checks one.

        Raises:
            KafkaError: the commit is refused.
        """
        if generation < 0 and not self.members:
            return None
        if in_transaction and generation == NO_EPOCH and not member_id and group_instance_id is None:
            return None  # a transactional producer need not say which member it works for
        member = self.member(member_id)
        if version is not None and member.classic is None and version < FIRST_COMMIT_VERSION:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
            )
        if generation == member.epoch:
            return None
        error = _epoch_error(member)
        what = "member epoch" if member.classic is None else "generation id"
        if generation > member.epoch:
            text = f"Received {what} {generation} is newer than current member epoch {member.epoch}."
            raise KafkaError(error, text)
        return partial(_check_partition, member, generation, what, error)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise KafkaError if this is not a member, or its epoch is another one."""
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.epoch:
            what = "member epoch" if member.classic is None else "generation id"
            text = (
                f"The received {what} {member_epoch} does not match the expected member epoch {member.epoch}."
            )
            raise KafkaError(_epoch_error(member), text)

    def validate_offset_delete(self) -> None:
        """Accept: the subscriptions are known."""

    def retention_start(self, commit_timestamp: int) -> int | None:
        """The commit's own time: offsets of topics that nobody subscribes to expire."""
        return commit_timestamp

    def tombstones(self) -> Sequence[ConsumerChange]:
        """The records that remove the group, apart from its offsets."""
        return records.group_gone(self.group_id, self.members, self.regexes)

    # --- invariants -----------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert the invariants that hold between any two events."""
        owners: Counter[tuple[Uuid, int]] = Counter()
        for member_id, member in self.members.items():
            assert member_id == member.member_id
            assert member.epoch <= self.assignment_epoch <= self.epoch, "no epoch is ahead of what it is of"
            assert not _pairs(member.assigned) & _pairs(member.revoking), "a partition is kept or given up"
            owners.update(_pairs(member.assigned) | _pairs(member.revoking))
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                assert member.revoking or member.is_away, "there is something to give up"
            elif not member.is_away:
                assert not member.revoking
            if member.state is MemberState.STABLE and member.epoch == self.assignment_epoch == self.epoch:
                target = {(topic, each) for topic, found in self.target(member_id).items() for each in found}
                assert _pairs(member.assigned) <= target, "a stable member has no more than its target"
        assert all(count == 1 for count in owners.values()), "a partition has one owner"
        counted = {
            (topic, each): count for topic, found in self.owners.items() for each, count in found.items()
        }
        assert counted == dict(owners)
        targets = Counter(
            (topic, each)
            for target in self.targets.values()
            for topic, found in target.items()
            for each in found
        )
        assert all(count == 1 for count in targets.values()), "a partition is in one target"
        assert self.targets.keys() <= self.members.keys()
        assert self.static_members == {
            member.instance_id: key for key, member in self.members.items() if member.instance_id is not None
        }
        self.subscriptions.check(
            (
                *(member.topic_names for member in self.members.values()),
                *(resolved.topics for resolved in self.regexes.values()),
            )
        )
        nbytes = sum(each.nbytes for each in self.members.values())
        matched = sum(len(resolved.topics) for resolved in self.regexes.values())
        assert self.memory.nbytes == nbytes + regex_bytes(matched)
        assert self.memory.unresolved_regexes == len(self.regex_subscribers.keys() - self.regexes.keys())
        assert self.classic_members == sum(member.classic is not None for member in self.members.values())
        assert self.regex_subscribers == Counter(
            member.topic_regex for member in self.members.values() if member.topic_regex
        )
        assert self.regexes.keys() <= self.regex_subscribers.keys(), "nobody needs other expressions"


def _pairs(partitions: Partitions) -> set[tuple[Uuid, int]]:
    return {(topic, partition) for topic, epochs in partitions.items() for partition in epochs}


def _add(counter: Counter[str], names: Iterable[str], by: int) -> None:
    for name in names:
        counter[name] += by
        if not counter[name]:
            del counter[name]


def _epoch_error(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _check_partition(
    member: ConsumerMember,
    generation: int,
    what: str,
    error: ErrorCode,
    name: str,
    topic: Uuid,
    partition: int,
) -> None:
    """Raise KafkaError unless the member has had the partition since this epoch."""
    epoch = member.assigned.get(topic, {}).get(partition)
    if epoch is None:
        epoch = member.revoking.get(topic, {}).get(partition)
    if epoch is None or generation < epoch:
        raise KafkaError(error, f"Received {what} {generation} is older than the partition's assignment.")


Transition: TypeAlias = EventRecords[ConsumerGroup, ConsumerGroupKey]
"""The records of one event of a group."""
