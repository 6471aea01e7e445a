"""Commits of members of a simulated group, of former members, and of strangers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterable
from typing import Protocol

from kafkapy.groups.offsets.committed_offset import decode_offset, encode_offset
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import TopicPartition
from tests.groups.consumer.consumer_world import Claim, ConsumerWorld, Owned


class Committer(Protocol):
    """A simulated consumer."""

    owned: Owned

    @property
    def claim(self) -> Claim:
        """What it would commit now."""
        ...


NONE = ErrorCode.NONE
REFUSALS = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.GROUP_ID_NOT_FOUND,
}


class SimulatedCommits:
    """Who commits what, and which offsets count."""

    def __init__(self, world: ConsumerWorld, chance: random.Random, topics: Collection[str]) -> None:
        """`topics` are those whose offsets are committed; they are never deleted."""
        self._world = world
        self._random = chance
        self._topics = topics
        self._next = itertools.count(1)
        self._offsets: dict[TopicPartition, int] = {}
        self._gone: list[Claim] = []
        self.accepted = 0
        self.refused = 0

    def goes(self, consumer: Committer) -> None:
        """Remember a consumer that is about to leave or to crash: it may commit later all the same."""
        self._gone.append(consumer.claim)

    def somebody_commits(self, alive: Iterable[Committer]) -> None:
        """Let somebody commit, and assert that nothing is accepted of which another member reads."""
        consumers = list(alive)
        roll = self._random.random()
        if roll < 0.6 and consumers:
            consumer = self._random.choice(consumers)
            others = [each for each in consumers if each is not consumer]
            claim = consumer.claim
            if roll < 0.2:
                claim = claim._replace(epoch=claim.epoch - self._random.choice((1, 1, 2, 3)))
        else:
            others, claim = consumers, self._stranger(consumers)
        partitions = frozenset(each for each in claim.partitions if self._name(each[0]) in self._topics)
        self._commit(claim._replace(partitions=partitions), set().union(*(each.owned for each in others)))

    def check(self) -> None:
        """Assert that those offsets count whose commits were accepted, and are in the log."""
        found = self._world.groups.offsets.of_group("g")
        assert {key: decode_offset(each).offset for key, each in found.items()} == self._offsets
        stored = self._world.log.replay(0).offsets.get("g", {})
        assert {key: decode_offset(each).offset for key, each in stored.items()} == self._offsets

    def _stranger(self, consumers: list[Committer]) -> Claim:
        if self._gone and self._random.random() < 0.6:
            return self._random.choice(self._gone[-6:])
        topics = self._world.image.topics
        everything = frozenset(
            (topics[name].id, partition)
            for name in self._topics
            for partition in range(len(topics[name].partitions))
        )
        if self._random.random() < 0.5 or not consumers:
            return Claim("", None, -1, everything)  # as a consumer that assigns partitions to itself does
        return Claim("nobody", None, self._random.choice(consumers).claim.epoch, everything)

    def _name(self, topic: bytes) -> str | None:
        found = self._world.image.topics_by_id.get(topic)
        return None if found is None else found.name

    def _commit(self, claim: Claim, owned_by_others: Owned) -> None:
        group = self._world.groups.groups.get("g")
        members = dict(getattr(group, "members", {}))
        offset = next(self._next)
        error = self._ask(claim, offset)
        if error is not NONE:
            assert error in REFUSALS
            self.refused += 1
            return
        self.accepted += 1
        assert claim.member_id in members or (claim.epoch < 0 and not members), "only members commit"
        assert claim.partitions.isdisjoint(owned_by_others), "another member reads the partition"
        for topic, partition in claim.partitions:
            self._offsets[TopicPartition(self._name(topic) or "", partition)] = offset

    def _ask(self, claim: Claim, offset: int) -> ErrorCode:
        """OffsetCommit."""
        world = self._world
        try:
            check = world.groups.check_commit("g", claim.member_id, claim.instance_id, claim.epoch, 9)
            for topic, partition in claim.partitions:
                if check is not None:
                    check(self._name(topic) or "", topic, partition)
        except KafkaError as refused:
            return refused.code
        value = encode_offset(offset, -1, "", world.clock.now_ms())
        keys = [TopicPartition(self._name(topic) or "", partition) for topic, partition in claim.partitions]
        if keys:
            assert world.groups.writes.commit("g", dict.fromkeys(keys, value)) is NONE
        return NONE
