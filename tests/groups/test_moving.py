"""Groups that move to another broker of a cluster, with the leadership of their partition."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkapy.coordination.partitioning import partition_of
from kafkapy.groups.classic.group import ClassicGroup, GroupState
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.coordinator import GroupCoordinator
from kafkapy.groups.offsets.committed_offset import decode_offset, encode_offset
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupResponse
from kafkapy.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kafkapy.protocol.types import TopicPartition
from tests.groups.classic_world import joining
from tests.groups.memory_log import MemoryLog, coordinator
from tests.loop.turned_clock import TurnedClock, TurnedTimers

T0 = TopicPartition("t", 0)
TOPIC = MemoryLog.topic
PARTITIONS = 4
PARTITION = partition_of("g", PARTITIONS)
OTHER = (PARTITION + 1) % PARTITIONS
"""A partition without the group."""
CONFIG = GroupConfig(initial_rebalance_delay_ms=0, offsets_commit_timeout_ms=5_000)


class Two:
    """Two coordinators on one replicated log; the first one leads the group's partition."""

    def __init__(self) -> None:
        self.log = MemoryLog(PARTITIONS)
        self.clock = TurnedClock()
        self.timers = TurnedTimers(self.clock)
        self.second = coordinator(self.log, self.clock, self.timers, CONFIG, leads=False)
        self.first = coordinator(self.log, self.clock, self.timers, CONFIG, leads=False)
        self.epoch = 0

    async def start(self) -> Two:
        self.first.start()
        await self.log.create()
        self.second.start()
        self.first.leadership_changed(TOPIC, PARTITION, True, 0)
        return self

    async def fail_over(self) -> None:
        """The second one leads, the first one follows."""
        self.epoch += 1
        self.first.leadership_changed(TOPIC, PARTITION, False, self.epoch)
        self.timers.advance(0)
        self.second.leadership_changed(TOPIC, PARTITION, True, self.epoch)
        while reading := tuple(self.second.runtime.loads):
            await asyncio.wait(reading)
        self.first, self.second = self.second, self.first

    def commit(self, offset: int) -> list[ErrorCode]:
        self.first.check_commit("g", "", None, -1)
        answers: list[ErrorCode] = []
        committed = encode_offset(offset, 3, "m", self.clock.now_ms())
        self.first.writes.report(self.first.writes.commit("g", {T0: committed}), answers.append)
        return answers

    def join(self, member_id: str = "") -> Any:
        answer = self.first.join_group("g", joining(member_id, ["t"]))
        self.timers.advance(0.1)
        return answer

    async def member(self) -> JoinGroupResponse:
        """A member that has joined alone, and not synced."""
        answer = self.join()
        joined: JoinGroupResponse = answer if isinstance(answer, JoinGroupResponse) else await answer
        assert joined.error_code == ErrorCode.NONE
        return joined

    def sync(self, joined: JoinGroupResponse) -> Any:
        assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
        return self.first.sync_group(
            SyncGroupRequest(
                group_id="g",
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=[assignment],
            )
        )

    async def stable_member(self) -> JoinGroupResponse:
        joined = await self.member()
        answer = self.sync(joined)
        synced = answer if isinstance(answer, SyncGroupResponse) else await answer
        assert synced.assignment == b"all"
        return joined

    def heartbeat(self, groups: GroupCoordinator, joined: JoinGroupResponse) -> ErrorCode:
        return groups.heartbeat(
            HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
        )

    @property
    def committed(self) -> int | None:
        found = self.first.offsets.of_group("g").get(T0)
        return None if found is None else decode_offset(found).offset


@pytest.fixture
async def two() -> Two:
    return await Two().start()


async def test_offsets_move(two: Two) -> None:
    assert two.commit(7) == [ErrorCode.NONE]
    await two.fail_over()
    assert two.committed == 7
    assert not two.second.offsets.of_group("g")


async def test_a_stable_group_moves_without_a_rebalance(two: Two) -> None:
    joined = await two.stable_member()
    await two.fail_over()
    group = two.first.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation) == (GroupState.STABLE, joined.generation_id)
    assert two.heartbeat(two.first, joined) is ErrorCode.NONE
    assert two.heartbeat(two.second, joined) is ErrorCode.NOT_COORDINATOR


async def test_sessions_begin_anew_where_a_group_moves_to(two: Two) -> None:
    joined = await two.stable_member()
    two.timers.advance(8)
    await two.fail_over()
    two.timers.advance(8)
    assert two.heartbeat(two.first, joined) is ErrorCode.NONE, "it has ten seconds from the move"
    two.timers.advance(11)
    assert two.heartbeat(two.first, joined) is ErrorCode.UNKNOWN_MEMBER_ID


async def test_the_session_timers_of_a_group_that_moved_away_are_gone(two: Two) -> None:
    await two.stable_member()
    await two.fail_over()
    written = len(two.log.batches[PARTITION])
    two.first.leadership_changed(TOPIC, PARTITION, False, 9)
    two.timers.advance(60)
    assert len(two.log.batches[PARTITION]) == written, "nobody coordinates the group"


async def test_a_member_that_waits_for_others_asks_the_new_coordinator(two: Two) -> None:
    await two.stable_member()
    waiting = two.join()
    assert not isinstance(waiting, JoinGroupResponse)
    await two.fail_over()
    assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("reaches", [True, False])
async def test_a_member_that_waits_for_its_assignment_asks_the_new_coordinator(
    two: Two, reaches: bool
) -> None:
    two.log.reaches_next_leader = reaches
    joined = await two.member()
    two.log.hold = True
    waiting = two.sync(joined)
    await two.fail_over()
    assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
    two.log.hold = False
    expected = ErrorCode.NONE if reaches else ErrorCode.UNKNOWN_MEMBER_ID
    assert two.heartbeat(two.first, joined) is expected, "the log decides"


@pytest.mark.parametrize(("reaches", "offset"), [(True, 8), (False, 7)])
async def test_a_commit_that_is_not_committed_is_the_new_leaders_matter(
    two: Two, reaches: bool, offset: int
) -> None:
    two.commit(7)
    two.log.reaches_next_leader = reaches
    two.log.hold = True
    answers = two.commit(8)
    await two.fail_over()
    assert answers == [ErrorCode.NOT_COORDINATOR]
    assert two.committed == offset


async def test_a_group_that_could_not_be_deleted_in_time_is_there_again(two: Two) -> None:
    two.commit(7)
    two.log.hold = True
    answers: list[ErrorCode] = []
    for _ in two.first.delete_group("g", answers.append):
        pass
    assert not two.first.groups
    await two.fail_over()
    assert answers == [ErrorCode.NOT_COORDINATOR]
    assert not two.second.groups
    assert two.committed == 7


async def test_other_groups_are_not_touched(two: Two) -> None:
    two.commit(7)
    two.first.leadership_changed(TOPIC, OTHER, True, 0)
    two.first.leadership_changed(TOPIC, OTHER, False, 1)
    two.first.leadership_changed("t", PARTITION, False, 1)
    two.timers.advance(0)
    assert two.committed == 7


async def test_a_group_of_another_broker_is_refused(two: Two) -> None:
    two.commit(7)
    for call in (
        lambda: two.second.require_group("g"),
        lambda: two.second.require_classic_group("g"),
        lambda: two.second.check_commit("g", "", None, -1),
        lambda: two.second.leave_group("g", []),
        lambda: next(two.second.delete_group("g", lambda _: None)),
    ):
        with pytest.raises(KafkaError) as refused:
            call()
        assert refused.value.code is ErrorCode.NOT_COORDINATOR
    answer = two.second.join_group("g", joining("", ["t"]))
    assert isinstance(answer, JoinGroupResponse)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    assert not two.second.groups


class TestDeadlines:
    """A leader that was replaced without knowing it commits nothing more."""

    async def test_a_commit_that_takes_too_long_is_answered_and_still_counts(self, two: Two) -> None:
        two.log.hold = True
        answers = two.commit(8)
        two.timers.advance(4.9)
        assert not answers
        two.timers.advance(0.2)
        assert answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert two.first.offsets.is_undecided("g", T0), "its record may be committed yet"
        two.log.release()
        assert answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert two.committed == 8

    async def test_a_commit_in_time_leaves_no_timer(self, two: Two) -> None:
        pending = two.timers.pending
        two.log.hold = True
        answers = two.commit(8)
        two.log.release()
        assert answers == [ErrorCode.NONE]
        assert two.timers.pending == pending

    async def test_members_join_again_after_an_assignment_that_takes_too_long(self, two: Two) -> None:
        joined = await two.member()
        two.log.hold = True
        waiting = two.sync(joined)
        two.timers.advance(5)
        assert (await waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        group = two.first.groups["g"]
        assert isinstance(group, ClassicGroup)
        assert group.state is GroupState.PREPARING_REBALANCE
        two.log.release()
        group.check()
        assert group.state is GroupState.PREPARING_REBALANCE
