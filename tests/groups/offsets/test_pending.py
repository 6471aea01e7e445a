"""Offsets in transactions: what they do to a group before and after the marker."""

from __future__ import annotations

import random

import pytest

from kafkapy.coordination.runtime import TransactionalProducer
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.offsets.committed_offset import EncodedOffset, decode_offset, encode_offset
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import TopicPartition
from kafkapy.storage.log.markers import TransactionMarker
from tests.groups.groups_world import GroupsWorld

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
DAY_MS = 24 * 60 * 60 * 1000


class OffsetsWorld(GroupsWorld):
    """A coordinator, and producers that commit offsets in transactions."""

    def __init__(self, partitions: int = 1) -> None:
        config = GroupConfig(offsets_retention_ms=DAY_MS, offsets_retention_check_interval_ms=DAY_MS // 4)
        super().__init__(config, partitions)

    def commit(self, key: TopicPartition, offset: int, group: str = "g") -> None:
        self.groups.check_commit(group, "", None, -1)
        assert self.groups.writes.commit(group, {key: self._offset(offset)}) is ErrorCode.NONE

    def commit_in(self, producer_id: int, key: TopicPartition, offset: int, group: str = "g") -> None:
        self.groups.check_commit_in_transaction(group, "", None, -1)
        producer = TransactionalProducer(producer_id, 0, None)
        self.groups.writes.commit_in_transaction(group, producer, {key: self._offset(offset)}, _succeed)

    def end(self, producer_id: int, *, commit: bool, partition: int = 0) -> None:
        marker = TransactionMarker(not commit, 0, self.clock.now_ms())
        self.groups.writes.end_transaction(partition, producer_id, 0, marker, _succeed)

    def delete(self, key: TopicPartition, group: str = "g") -> None:
        self.groups.writes.delete(group, [key], _succeed)

    def _offset(self, offset: int) -> EncodedOffset:
        return encode_offset(offset, -1, "", self.clock.now_ms())

    def offsets(self, group: str = "g") -> dict[TopicPartition, int]:
        return {key: decode_offset(each).offset for key, each in self.groups.offsets.of_group(group).items()}

    def undecided(self, group: str = "g") -> set[TopicPartition]:
        return set(self.groups.offsets.pending.keys(group))


def _succeed(error: ErrorCode) -> None:
    assert error is ErrorCode.NONE


@pytest.fixture
async def cluster() -> OffsetsWorld:
    return await OffsetsWorld().start()


async def test_offsets_count_after_the_commit_marker(cluster: OffsetsWorld) -> None:
    cluster.commit(T0, 1)
    cluster.commit_in(7, T0, 5)
    assert (cluster.offsets(), cluster.undecided()) == ({T0: 1}, {T0})
    cluster.end(7, commit=True)
    assert (cluster.offsets(), cluster.undecided()) == ({T0: 5}, set())


async def test_aborted_offsets_are_dropped(cluster: OffsetsWorld) -> None:
    cluster.commit_in(7, T0, 5)
    cluster.end(7, commit=False)
    assert (cluster.offsets(), cluster.undecided()) == ({}, set())


async def test_a_marker_ends_one_producer_and_its_groups_in_that_partition() -> None:
    cluster = await OffsetsWorld(partitions=2).start()
    first, second = "a", "b"
    here, there = (cluster.groups.runtime.partition_of(group) for group in (first, second))
    assert here != there
    cluster.commit_in(7, T0, 5, first)
    cluster.commit_in(7, T0, 6, second)
    cluster.commit_in(8, T1, 7, first)
    cluster.end(7, commit=True, partition=here)
    assert cluster.offsets(first) == {T0: 5}
    assert cluster.undecided(first) == {T1}
    assert cluster.offsets(second) == {}
    cluster.end(7, commit=True, partition=there)
    assert cluster.offsets(second) == {T0: 6}


async def test_a_later_commit_wins_and_the_partition_stays_undecided(cluster: OffsetsWorld) -> None:
    cluster.commit_in(7, T0, 5)
    cluster.commit(T0, 3)
    assert (cluster.offsets(), cluster.undecided()) == ({T0: 3}, {T0})
    cluster.end(7, commit=True)
    assert (cluster.offsets(), cluster.undecided()) == ({T0: 3}, set())


async def test_a_pending_offset_keeps_the_one_before_from_expiry(cluster: OffsetsWorld) -> None:
    cluster.commit(T0, 1)
    cluster.commit(T1, 1)
    cluster.commit_in(7, T0, 5)
    cluster.timers.advance(2 * DAY_MS / 1000)
    assert cluster.offsets() == {T0: 1}
    assert "g" in cluster.groups.groups
    cluster.end(7, commit=False)
    cluster.timers.advance(DAY_MS / 1000)
    assert cluster.offsets() == {}
    assert "g" not in cluster.groups.groups


async def test_deleting_a_group_deletes_its_pending_offsets(cluster: OffsetsWorld) -> None:
    cluster.commit_in(7, T0, 5)
    for _ in cluster.groups.delete_group("g", _succeed):
        pass
    assert cluster.undecided() == set()
    cluster.end(7, commit=True)
    assert cluster.offsets() == {}
    await cluster.restart()
    assert cluster.offsets() == {}


async def test_a_marker_waits_for_the_offsets_before_it(cluster: OffsetsWorld) -> None:
    cluster.log.hold = True
    cluster.commit_in(7, T0, 5)
    cluster.end(7, commit=True)
    cluster.log.release()
    assert (cluster.offsets(), cluster.undecided()) == ({}, {T0})
    cluster.log.release()
    assert (cluster.offsets(), cluster.undecided()) == ({T0: 5}, set())


async def test_a_partition_that_is_not_loaded_takes_no_marker() -> None:
    cluster = OffsetsWorld()
    errors: list[ErrorCode] = []
    marker = TransactionMarker(True, 0, 0)
    cluster.groups.writes.end_transaction(0, 7, 0, marker, errors.append)
    assert errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_members_commit_in_transactions_with_their_generation(cluster: OffsetsWorld) -> None:
    with pytest.raises(KafkaError) as raised:
        cluster.groups.check_commit_in_transaction("g", "m", None, 3)
    assert raised.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    cluster.commit(T0, 1)
    with pytest.raises(KafkaError) as raised:
        cluster.groups.check_commit_in_transaction("g", "m", None, 3)
    assert raised.value.code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("seed", range(20))
async def test_a_restart_finds_what_was_there_before(seed: int) -> None:
    """Whatever was committed, ended and deleted: the log gives the same state, decided or not."""
    chance = random.Random(seed)
    cluster = await OffsetsWorld().start()
    cluster.commit(T0, 0)
    for offset in range(1, 60):
        key, producer = chance.choice([T0, T1]), chance.choice([7, 8, 9])
        step = chance.random()
        if step < 0.2:
            cluster.commit(key, offset)
        elif step < 0.65:
            cluster.commit_in(producer, key, offset)
        elif step < 0.95:
            cluster.end(producer, commit=chance.random() < 0.7)
        else:
            cluster.delete(key)
        if offset % 10 == 0:
            before = cluster.offsets(), cluster.undecided()
            await cluster.restart()
            assert (cluster.offsets(), cluster.undecided()) == before
    for producer in (7, 8, 9):
        cluster.end(producer, commit=True)
    before = cluster.offsets(), cluster.undecided()
    assert before[1] == set()
    await cluster.restart()
    assert (cluster.offsets(), cluster.undecided()) == before
