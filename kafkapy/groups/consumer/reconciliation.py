"""Moves a member towards its target assignment, one step for each heartbeat.

1. Partitions that are not in the target, or whose topic the member no longer subscribes to, must be given up.
   While the client still has some of them, the member stays at its epoch (UNREVOKED_PARTITIONS).
2. After that the member takes the epoch of the target, and those partitions of it that nobody else has.
3. While others have some of them, it waits for these (UNRELEASED_PARTITIONS).

Source: Apache Kafka's CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Final

from kafkapy.groups.consumer.member import ConsumerMember, MemberState, Partitions
from kafkapy.groups.consumer.records import Target
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.consumer_group_heartbeat import TopicPartitions
from kafkapy.protocol.types import Uuid

_NO_PARTITIONS: Final = frozenset[int]()


class Reconciliation:
    """The next step of one member."""

    def __init__(
        self,
        member: ConsumerMember,
        *,
        target_epoch: int,
        target: Target,
        is_subscribed: Callable[[Uuid], bool],
        owners: Mapping[Uuid, Mapping[int, int]],
        owned: Sequence[TopicPartitions] | None,
    ) -> None:
        """`is_subscribed` says whether the member subscribes to a topic.

        `owners` has the partitions that any member has. `owned` are the partitions that the client says it
        has, or None if it does not say.
        """
        self._member = member
        self._target_epoch = target_epoch
        self._target = target
        self._is_subscribed = is_subscribed
        self._owners = owners
        self._owned = owned

    def next(self, *, subscription_changed: bool) -> ConsumerMember:
        """The member after the step: the same object if there is none.

        Raises:
            KafkaError: FENCED_MEMBER_EPOCH, the member has to start again.
        """
        member = self._member
        if member.state is MemberState.STABLE and member.epoch == self._target_epoch:
            return self._without_unsubscribed() if subscription_changed else member
        if member.state is MemberState.UNREVOKED_PARTITIONS and self._still_has(member.revoking):
            return self._without_unsubscribed() if subscription_changed else member
        if member.state is MemberState.UNKNOWN and (self._owned is None or self._owned):
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )
        return self._towards_target()

    def _still_has(self, partitions: Partitions) -> bool:
        """Whether the client has any of these, as far as it is known."""
        return self._owned is None or any(
            partition in partitions.get(topic.topic_id, ())
            for topic in self._owned
            for partition in topic.partitions
        )

    def _without_unsubscribed(self) -> ConsumerMember:
        """The member without the topics that it no longer subscribes to."""
        member = self._member
        gone = {topic for topic in member.assigned if not self._is_subscribed(topic)}
        if not gone:
            return member
        kept = {topic: epochs for topic, epochs in member.assigned.items() if topic not in gone}
        revoking = dict(member.revoking)
        for topic in gone:
            revoking[topic] = {**revoking.get(topic, {}), **member.assigned[topic]}
        if self._still_has(revoking):
            return replace(
                member.at_epoch(member.epoch),
                state=MemberState.UNREVOKED_PARTITIONS,
                assigned=kept,
                revoking=revoking,
            )
        return replace(member.at_epoch(member.epoch), assigned=kept)

    def _towards_target(self) -> ConsumerMember:
        member = self._member
        kept: dict[Uuid, Mapping[int, int]] = {}
        revoking: dict[Uuid, Mapping[int, int]] = {}
        free: dict[Uuid, Set[int]] = {}
        waits = False
        owners, is_subscribed = self._owners, self._is_subscribed
        for topic in {**self._target, **member.assigned}:
            target = self._target.get(topic, _NO_PARTITIONS) if is_subscribed(topic) else _NO_PARTITIONS
            before = member.assigned.get(topic)
            if before is not None:
                if before and before.keys() == target:  # as most of thousands of topics
                    kept[topic] = before
                    continue
                if not before.keys() <= target:
                    revoking[topic] = {each: epoch for each, epoch in before.items() if each not in target}
                    before = {each: epoch for each, epoch in before.items() if each in target}
                if before:
                    kept[topic] = before
                target = target - before.keys()
            if target and topic in owners:
                taken = owners[topic].keys() - member.revoking.get(topic, {}).keys()
                waits = waits or not taken.isdisjoint(target)
                target = target - taken
            if target:
                free[topic] = target
        if revoking and self._still_has(revoking):
            return replace(
                member.at_epoch(member.epoch),
                state=MemberState.UNREVOKED_PARTITIONS,
                assigned=kept,
                revoking=revoking,
            )
        epochs: dict[frozenset[int], Mapping[int, int]] = {}  # topics with the same partitions share them
        for topic, partitions in free.items():
            key = frozenset(partitions)
            added = epochs.get(key)
            if added is None:
                added = epochs[key] = dict.fromkeys(key, self._target_epoch)
            kept[topic] = {**kept[topic], **added} if topic in kept else added
        return replace(
            member.at_epoch(self._target_epoch),
            state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
            assigned=kept,
            revoking={},
        )
