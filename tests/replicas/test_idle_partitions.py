"""Partitions without news cost a follower's fetches nothing.

The leader knows that the follower has them.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kafkapy.fetch.follower_read import NOTE_SECONDS, FollowerRead
from kafkapy.fetch.read import FetchRead
from kafkapy.fetch.sessions import FetchSession
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kafkapy.protocol.types import TopicPartition
from kafkapy.replicas.fetcher import Fetcher
from kafkapy.replicas.follower import Follower
from kafkapy.replicas.housekeeping import delete_old_segments
from tests.calls import Call, calls_of
from tests.replicas.cluster_rig import LAG_SECONDS, TP, Rig, id_of
from tests.replicas.held_files import until

BOTH = frozenset((1, 2))
MANY = [TopicPartition(f"quiet-{number}", 0) for number in range(20)]


async def settled(rig: Rig) -> FetchSession:
    """The session of the follower, once it has everything, and knows it."""
    await rig.caught_up(2)
    sessions = rig[1].fetch_sessions.by_id
    await until(lambda: [len(session.unsettled) for session in sessions.values()] == [0])
    (session,) = sessions.values()
    return session


async def fetches(rig: Rig, count: int = 3) -> None:
    """Wait for some more fetches of the follower."""
    before = len(rig.wire.asked)
    await until(lambda: len(rig.wire.asked) >= before + count)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Call]]:
    """The looks at partitions, by the name of what looks."""
    kinds = (
        (FollowerRead, "_note"),
        (FetchRead, "_read_or_fail"),
        (Fetcher, "_wanted"),
        (FetchSession, "settle"),
    )
    return {name: calls_of(monkeypatch, kind, name) for kind, name in kinds}


async def test_only_partitions_with_news_are_looked_at(
    tmp_path: Path, rigs: list[Rig], looks: dict[str, list[Call]]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    for key in MANY:
        rig.controller.create((1, 2), key=key, configs={})
        await rig.controller.elect(1, key=key)
    leader = await rig.lead()
    await settled(rig)
    await fetches(rig)
    for calls in looks.values():
        calls.clear()
    # Until followers that are not in sync would be noted again.
    due = asyncio.get_running_loop().time() + NOTE_SECONDS
    await until(lambda: asyncio.get_running_loop().time() > due)
    await fetches(rig)
    assert not any(looks.values())
    assert (await leader.produce(b"a")).error_code == 0
    await settled(rig)
    await fetches(rig)
    assert all(len(calls) < 10 for calls in looks.values()), looks


async def test_an_idle_follower_is_in_sync_for_a_whole_lag_after_the_next_append(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    assert (await leader.produce(b"a")).error_code == 0
    await settled(rig)
    for _ in range(3):
        rig.ahead += LAG_SECONDS
        await fetches(rig)
    rig.wire.cut.add(BOTH)
    leader.write(b"b")
    leader.leader.shrink()
    assert leader.leader.proposal is None
    rig.ahead += LAG_SECONDS + 1
    leader.leader.shrink()
    await until(lambda: leader.leader.isr == (1,))


async def test_a_follower_that_stopped_fetching_lags_as_soon_as_there_is_more(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    await settled(rig)
    rig.wire.cut.add(BOTH)
    rig.ahead += 2 * LAG_SECONDS
    leader.leader.shrink()
    assert leader.leader.proposal is None
    leader.write(b"b")
    leader.leader.shrink()
    await until(lambda: leader.leader.isr == (1,))


async def test_a_partition_that_the_follower_fetches_no_more_is_not_caught_up_by_the_others(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    for key in MANY:
        rig.controller.create((1, 2), key=key, configs={})
        await rig.controller.elect(1, key=key)
    leader = await rig.lead()
    session = await settled(rig)
    rig[2].fetchers.unfollow(TP)
    await until(lambda: len(session.targets) == len(MANY))
    rig.ahead += 2 * LAG_SECONDS
    await fetches(rig)
    leader.write(b"b")
    leader.leader.shrink()
    await until(lambda: leader.leader.isr == (1,))


async def test_a_session_that_is_over_does_not_unsettle_the_next_one(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    old = await settled(rig)
    rig.wire.cut.add(BOTH)
    (fetcher,) = rig[2].fetchers.by_place.values()
    await until(lambda: fetcher.session.is_full)
    rig.wire.cut.clear()
    await until(lambda: old.is_closed)
    await settled(rig)
    await until(lambda: not old.targets)
    rig.ahead += 2 * LAG_SECONDS
    await fetches(rig)
    rig.wire.cut.add(BOTH)
    leader.write(b"b")
    leader.leader.shrink()
    assert leader.leader.proposal is None
    assert leader.waiters.watching(leader.partition) == 1


async def test_a_late_request_for_less_does_not_hold_up_what_is_committed(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path, durability="fsync"))
    leader = await rig.lead()
    assert (await leader.produce(b"a")).error_code == 0
    await settled(rig)
    leader.files.hold()
    waiting = asyncio.ensure_future(leader.produce(b"b"))
    replica = leader.leader.follower(2, -1, knows_epoch=True)
    await until(lambda: replica.log_end_offset == 2)
    (session,) = rig[1].fetch_sessions.by_id.values()
    await until(lambda: not session.unsettled)
    late = FetchPartition(
        partition=0, current_leader_epoch=0, fetch_offset=1, log_start_offset=0, partition_max_bytes=1
    )
    request = FetchRequest(
        max_wait_ms=0,
        replica_state=ReplicaState(replica_id=2, replica_epoch=rig[2].epoch),
        session_epoch=-1,
        topics=[FetchTopic(topic_id=id_of(TP.topic), partitions=[late])],
    )
    answer = await leader.answer(request, FetchRequest.VERSIONS[1])
    assert answer.responses[0].partitions[0].error_code == 0
    leader.files.let_go()
    assert (await waiting).error_code == 0


async def test_a_follower_outside_the_isr_is_noted_until_it_is_in(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    await settled(rig)
    rig.controller.refuse = ErrorCode.INELIGIBLE_REPLICA
    state = rig.controller.states[TP]
    rig.controller.states[TP] = state._replace(isr=(1,), version=state.version + 1)
    await rig.controller.tell((1,))
    assert leader.leader.isr == (1,)
    await until(lambda: len(rig.controller.asked) >= 3)
    rig.controller.refuse = ErrorCode.NONE
    await until(lambda: leader.leader.isr == (1, 2))


async def test_a_broker_that_is_registered_anew_is_noted_with_its_new_epoch(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    await settled(rig)
    replica = leader.leader.follower(2, -1, knows_epoch=True)
    assert replica.broker_epoch == rig[2].epoch
    rig[2].epoch = rig.next_epoch()
    rig.register((1, 2))
    await until(lambda: replica.broker_epoch == rig[2].epoch)


async def test_a_log_start_that_retention_moves_reaches_the_follower(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead(configs={"retention.ms": "1000", "segment.bytes": "100"})
    for value in (b"a", b"b", b"c"):
        assert (await leader.produce(value)).error_code == 0
    await settled(rig)
    later = leader.clock.now_ms() + 10_000
    await delete_old_segments(leader.partition, later, lambda _: True, leader.cold_reads.provide)
    assert leader.offsets[0] > 0
    await until(lambda: rig[2].offsets[0] == leader.offsets[0])


async def test_a_log_start_of_a_follower_reaches_the_leader(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    for value in (b"a", b"b"):
        assert (await leader.produce(value)).error_code == 0
    await settled(rig)
    assert (await leader.delete_records(2)).low_watermark == 2
    assert leader.partition.low_watermark == 2


async def test_the_first_request_of_a_session_tells_the_log_start(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    assert (await leader.produce(b"a")).error_code == 0
    assert (await leader.delete_records(1)).low_watermark == 1
    await rig.controller.elect(2)
    assert (await rig[2].delete_records(0)).low_watermark == 1
    assert rig[2].partition.low_watermark == 1, "nothing had to be written first"


async def test_a_changed_limit_of_bytes_is_asked_with(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    await rig.lead()
    session = await settled(rig)
    rig.fetch = rig.fetch._replace(max_bytes=12345)
    await until(lambda: [target.max_bytes for target in session.targets.values()] == [12345])
    last = [request for _, _, request in rig.wire.asked if isinstance(request, FetchRequest)][-1]
    assert last.session_epoch > 0


async def test_a_new_role_of_one_partition_names_no_other(
    tmp_path: Path, rigs: list[Rig], looks: dict[str, list[Call]]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    for key in MANY:
        rig.controller.create((1, 2), key=key, configs={})
        await rig.controller.elect(1, key=key)
    leader = await rig.lead()
    session = await settled(rig)
    looks["_wanted"].clear()
    rig.wire.asked.clear()
    await rig.controller.elect(1)
    assert (await leader.produce(b"a")).error_code == 0
    assert await settled(rig) is session
    named = [
        partition
        for _, _, request in rig.wire.asked
        if isinstance(request, FetchRequest)
        for topic in request.topics
        for partition in topic.partitions
    ]
    assert 0 < len(named) < 5
    assert len(looks["_wanted"]) < 12


async def test_a_high_watermark_is_told_again_to_a_partition_that_was_fetched_no_more_for_a_while(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    stopped = False

    async def stop(answer: Any) -> None:
        nonlocal stopped
        told = [
            data.high_watermark for topic in getattr(answer, "responses", ()) for data in topic.partitions
        ]
        if told == [1] and not stopped:
            stopped = True
            follower = rig[2].partition.replication
            assert isinstance(follower, Follower)
            rig[2].fetchers.unfollow(TP)
            rig[2].fetchers.follow(rig[2].partition, follower)

    rig.wire.delay = stop
    assert (await leader.produce(b"a")).error_code == 0
    await rig.caught_up(2)
    assert stopped
