"""Committed offsets expire, and their groups with them."""

from __future__ import annotations

import pytest

from kafkapy.groups.classic.group import GroupState
from kafkapy.groups.offsets.committed_offset import encode_offset
from kafkapy.groups.offsets.writes import OFFSETS_AT_ONCE
from kafkapy.protocol.messages.leave_group import MemberIdentity
from kafkapy.protocol.types import TopicPartition
from tests.groups.classic_world import ClassicWorld, joining

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
DAY = 24 * 60 * 60


def let_pass(cluster: ClassicWorld, days: float) -> None:
    cluster.timers.advance(days * DAY + cluster.config.offsets_retention_check_interval_ms / 1000)


async def test_a_simple_consumers_offsets_expire_after_their_last_commit(cluster: ClassicWorld) -> None:
    cluster.commit((T0, 5), (T1, 6))
    let_pass(cluster, 4)
    cluster.commit((T1, 7))
    let_pass(cluster, 3)
    assert cluster.committed() == {T1: 7}
    let_pass(cluster, 4)
    assert cluster.committed() == {}
    assert "g" not in cluster.groups.groups
    await cluster.restart()
    assert "g" not in cluster.groups.groups


async def test_a_groups_offsets_expire_after_it_became_empty(cluster: ClassicWorld) -> None:
    member_id = await cluster.join()
    cluster.groups.writes.commit("g", {T0: encode_offset(5, -1, "", 0)})
    cluster.groups.leave_group("g", [MemberIdentity(member_id=member_id)])
    let_pass(cluster, 6.9)
    assert cluster.committed() == {T0: 5}
    let_pass(cluster, 0.1)
    assert cluster.committed() == {}
    assert "g" not in cluster.groups.groups


async def test_a_stable_group_keeps_offsets_of_topics_it_subscribes_to(cluster: ClassicWorld) -> None:
    member_id = await cluster.join(topics=("t",))
    old = encode_offset(5, -1, "", cluster.clock.now_ms())
    other = TopicPartition("other", 0)
    cluster.groups.writes.commit("g", {T0: old, other: old})
    for _ in range(70_000):
        cluster.timers.advance(9.9)
        cluster.heartbeat(member_id)
    assert cluster.committed() == {T0: 5}
    assert cluster.groups.require_classic_group("g").state is GroupState.STABLE


async def test_a_client_may_set_the_expiry_itself(cluster: ClassicWorld) -> None:
    now = cluster.clock.now_ms()
    cluster.groups.check_commit("g", "", None, -1)
    cluster.groups.writes.commit(
        "g",
        {T0: encode_offset(5, -1, "", now, now + 1000), T1: encode_offset(6, -1, "", now)},
    )
    let_pass(cluster, 0)
    assert cluster.committed() == {T1: 6}


async def test_nothing_expires_under_a_commit_that_is_on_its_way(cluster: ClassicWorld) -> None:
    cluster.commit((T0, 5))
    cluster.log.hold = True
    cluster.timers.advance(7 * DAY - 1)
    cluster.commit((T0, 6))
    let_pass(cluster, 0.1)
    cluster.log.release()
    assert cluster.committed() == {T0: 6}


async def test_very_many_offsets_expire_in_turns(cluster: ClassicWorld) -> None:
    many = [TopicPartition("t", number) for number in range(3 * OFFSETS_AT_ONCE)]
    cluster.commit(*((key, 5) for key in many))
    group = cluster.groups.groups["g"]
    later = cluster.clock.now_ms() + 8 * DAY * 1000
    steps = cluster.groups.offsets.expired(group, later, 7 * DAY * 1000)
    for _ in range(3):
        next(steps)
    cluster.commit((many[0], 6))
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == many[1:], "one was committed meanwhile"
    let_pass(cluster, 8)
    assert cluster.committed() == {}
    let_pass(cluster, 0)
    assert "g" not in cluster.groups.groups
    await cluster.restart()
    assert "g" not in cluster.groups.groups


async def test_a_mistake_in_one_expiry_does_not_keep_the_next_from_its_work(
    cluster: ClassicWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.commit((T0, 5))
    with monkeypatch.context() as broken:
        broken.setattr(cluster.groups.offsets, "expired", lambda *_: 1 // 0)
        let_pass(cluster, 8)
    assert "Expired offsets could not be removed" in caplog.text
    let_pass(cluster, 0)
    assert cluster.committed() == {}


async def test_a_group_that_was_never_joined_is_forgotten(cluster: ClassicWorld) -> None:
    cluster.groups.join_group("g", joining(session_ms=10_000)).cancel()  # type: ignore[union-attr]
    let_pass(cluster, 1)
    let_pass(cluster, 1)
    assert "g" not in cluster.groups.groups
