"""Leaders propose changes of their in-sync replicas.

They commit as if those might have happened.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.replicas.leader import REFUSED_SECONDS
from kafkapy.replicas.remote_replica import RemoteReplica
from kafkapy.storage.log.log_config import LogConfig
from tests.replicas.cluster_rig import LAG_SECONDS, TP, Rig, id_of
from tests.replicas.held_files import until
from tests.storage.log_harness import fill

BOTH = frozenset((1, 2))


async def shrunk(rig: Rig) -> None:
    """Let the follower lag, until the leader continues without it."""
    rig.wire.cut.add(BOTH)
    rig[1].write(b"behind")
    rig.ahead += 2 * LAG_SECONDS
    rig[1].leader.shrink()
    await until(lambda: rig[1].leader.isr == (1,))


async def test_a_replica_that_lags_leaves_the_isr(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    rig.wire.cut.add(BOTH)
    waiting = asyncio.ensure_future(leader.produce(b"a"))
    await until(lambda: leader.offsets[2] == 1)
    leader.leader.shrink()
    assert leader.leader.proposal is None
    rig.ahead += 2 * LAG_SECONDS
    leader.leader.shrink()
    assert (await waiting).error_code == 0
    assert rig.controller.states[TP].isr == leader.leader.isr == (1,)
    assert leader.leader.partition_epoch == rig.controller.states[TP].version
    (request,) = rig.controller.asked
    (partition,) = request.topics[0].partitions
    assert (request.topics[0].topic_id, request.broker_id) == (id_of(TP.topic), 1)
    assert [(each.broker_id, each.broker_epoch) for each in partition.new_isr_with_epochs] == [
        (1, leader.epoch)
    ]


async def test_replicas_are_checked_every_half_of_the_lag(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    rig.lag_seconds = 0.1
    for node in (rig[1], rig[2]):
        await node.isr_changes.stop()
        node.isr_changes.start()
    leader = await rig.lead()
    rig.wire.cut.add(BOTH)
    assert (await leader.produce(b"a")).error_code == 0
    assert leader.leader.isr == (1,)


async def test_a_replica_that_has_caught_up_joins_the_isr(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    await shrunk(rig)
    rig.wire.cut.clear()
    await until(lambda: leader.leader.isr == (1, 2))
    members = rig.controller.asked[-1].topics[0].partitions[0].new_isr_with_epochs
    assert [(each.broker_id, each.broker_epoch) for each in members] == [
        (1, leader.epoch),
        (2, rig[2].epoch),
    ]


async def test_a_replica_joins_only_when_it_has_the_start_of_the_epoch(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    rig.wire.cut.add(BOTH)
    fill(leader.partition.log, 3)
    leader.partition.log.high_watermark = 0
    await rig.controller.elect(1, (1,))
    role = leader.leader
    assert role.epoch_start_offset == 3
    replica = role.follower(2, rig[2].epoch, knows_epoch=True)
    leader.partition.log.high_watermark = 2
    role.fetched(replica, 2, 0, rig[2].epoch)
    assert role.proposal is None
    role.fetched(replica, 3, 0, rig[2].epoch)
    assert role.proposal is not None
    assert role.proposal.isr == (1, 2)


async def test_what_followers_had_in_an_earlier_epoch_does_not_count(tmp_path: Path, rigs: list[Rig]) -> None:
    """Another broker may have led in between, and replaced it."""
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    assert (await leader.produce(b"a")).error_code == 0
    rig.wire.cut.add(BOTH)
    leader.write(b"b")
    leader.leader.follower(2, rig[2].epoch, knows_epoch=True).log_end_offset = 2
    assert leader.offsets[1:] == (1, 2)
    await rig.controller.elect(1, (1, 2))
    leader.partition.advance()
    assert leader.offsets[1:] == (1, 2)
    rig.wire.cut.clear()
    await until(lambda: leader.offsets[1:] == (2, 2))


async def test_a_broker_that_is_not_registered_does_not_join(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    await shrunk(rig)
    role, replica = leader.leader, leader.leader.follower(2, -1, knows_epoch=True)
    rig.register((1,))
    role.fetched(replica, leader.offsets[2], 0, rig[2].epoch)
    assert role.proposal is None
    rig.register((1, 2))
    role.fetched(replica, leader.offsets[2], 0, rig[2].epoch - 1)
    assert role.proposal is None
    role.fetched(replica, leader.offsets[2], 0, rig[2].epoch)
    assert role.proposal is not None


async def test_a_replica_counts_as_soon_as_it_is_proposed(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    await shrunk(rig)
    rig.controller.held = asyncio.Event()
    rig.wire.cut.clear()
    await until(lambda: leader.leader.proposal is not None)
    rig.wire.cut.add(BOTH)
    rig.ahead += 2 * LAG_SECONDS
    end = leader.write(b"b")
    assert (leader.leader.isr, leader.offsets[1:]) == ((1,), (end - 1, end))
    rig.controller.held.set()
    await until(lambda: leader.leader.isr == (1, 2))
    assert leader.offsets[1] == end - 1


async def test_a_replica_counts_until_the_controller_knows_that_it_left(
    tmp_path: Path, rigs: list[Rig], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafkapy.replicas.isr_changes")
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    rig.controller.unreachable = True
    rig.wire.cut.add(BOTH)
    end = leader.write(b"a")
    rig.ahead += 2 * LAG_SECONDS
    leader.leader.shrink()
    await until(lambda: len(rig.controller.asked) > 2)
    assert leader.offsets[1] == 0
    rig.controller.unreachable = False
    await until(lambda: leader.offsets[1] == end)
    assert sum("has not answered about ISRs" in record.message for record in caplog.records) == 1


async def test_a_replica_that_lost_committed_records_leaves_the_isr_at_once(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    assert (await leader.produce(b"a")).error_code == 0
    assert (await leader.produce(b"b")).error_code == 0
    rig.controller.held = asyncio.Event()
    await rig[2].stop(clean=False)
    role = leader.leader
    role.fetched(role.follower(2, -1, knows_epoch=True), 1, 0, -1)
    assert role.proposal is not None
    assert role.proposal.isr == (1,)


async def test_what_waited_for_a_broker_that_was_about_to_join_is_committed_when_it_is_gone(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path, 3))
    leader = await rig.lead()
    rig.wire.cut.add(frozenset((1, 3)))
    leader.write(b"a")
    await until(lambda: rig[2].offsets[2] == 1)
    rig.ahead += 2 * LAG_SECONDS
    leader.write(b"b")
    await until(lambda: rig[2].offsets[2] == 2)
    leader.leader.shrink()
    await until(lambda: leader.leader.isr == (1, 2))
    rig.controller.refuse = ErrorCode.INELIGIBLE_REPLICA  # it is about to stop
    before = len(rig.controller.asked)
    rig.wire.cut.clear()
    await until(lambda: len(rig.controller.asked) > before and leader.leader.proposal is None)
    rig.wire.cut.add(frozenset((1, 3)))
    end = leader.write(b"c")
    await until(lambda: leader.offsets[1] == end)  # it was refused a moment ago
    rig.ahead += REFUSED_SECONDS
    end = leader.write(b"d")
    fetches = len(rig.wire.asked)
    await until(lambda: rig[2].offsets[2] == end and len(rig.wire.asked) > fetches + 3)
    assert leader.offsets[1] == end - 1
    rig.register((1, 2))
    assert leader.offsets[1] == end


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
async def test_what_was_not_applied_is_proposed_again(
    tmp_path: Path, rigs: list[Rig], error: ErrorCode
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    await shrunk(rig)
    rig.controller.refuse = error
    rig.wire.cut.clear()
    before = len(rig.controller.asked)
    await until(lambda: len(rig.controller.asked) > before + 1)
    rig.controller.refuse = ErrorCode.NONE
    await until(lambda: leader.leader.isr == (1, 2))


@pytest.mark.parametrize(
    "error", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_ID]
)
async def test_a_leader_that_is_out_of_date_waits_for_the_controllers_state(
    tmp_path: Path, rigs: list[Rig], error: ErrorCode
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    await shrunk(rig)
    rig.controller.refuse = error
    before = len(rig.controller.asked)
    rig.wire.cut.clear()
    await until(lambda: len(rig.controller.asked) > before)
    rig.controller.refuse = ErrorCode.NONE
    fetches = len(rig.wire.asked)
    await until(lambda: len(rig.wire.asked) > fetches + 3)
    assert (len(rig.controller.asked), leader.leader.isr) == (before + 1, (1,))
    state = rig.controller.states[TP]
    rig.controller.states[TP] = state._replace(version=state.version + 1)
    await rig.controller.tell()
    await until(lambda: leader.leader.isr == (1, 2))


async def test_a_leader_hears_of_its_isr_from_the_metadata_too(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    await shrunk(rig)
    role = leader.leader
    state = rig.controller.states[TP]._replace(isr=(1, 2), version=role.partition_epoch + 1)
    topic = rig.image.topics[TP.topic]
    for stale in (state._replace(leader_epoch=7), state._replace(version=0)):
        rig.change(rig.image.with_topics([replace(topic, partitions=(stale,))]))
        assert role.isr == (1,)
    rig.change(rig.image.with_topics([replace(topic, partitions=(state,))]))
    assert (role.isr, role.partition_epoch) == ((1, 2), state.version)


async def test_a_new_assignment_does_not_end_a_change_of_the_isr(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    await shrunk(rig)
    rig.controller.held = asyncio.Event()
    rig.wire.cut.clear()
    await until(lambda: leader.leader.proposal is not None)
    rig.wire.cut.add(BOTH)
    state = rig.controller.states[TP]
    assert leader.leader.update(state._replace(replicas=(1, 2, 3)))
    rig.ahead += 2 * LAG_SECONDS
    end = leader.write(b"b")
    assert (leader.leader.replicas, leader.offsets[1]) == ((1, 2, 3), end - 1)


async def test_a_replica_in_sync_counts_while_an_older_assignment_is_shown(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    """An image may show the assignment and the ISR as of two moments."""
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    assert (await leader.produce(b"a")).error_code == 0
    rig.wire.cut.add(BOTH)
    state = rig.controller.states[TP]
    assert leader.leader.update(state._replace(replicas=(3, 1)))
    waiting = asyncio.ensure_future(leader.produce(b"b"))
    await until(lambda: leader.offsets[2] == 2)
    leader.partition.advance()
    assert leader.offsets[1:] == (1, 2)
    rig.wire.cut.clear()
    assert (await waiting).error_code == 0
    assert leader.leader.update(state)
    assert (await leader.produce(b"c")).error_code == 0


async def test_an_answer_to_an_earlier_leader_epoch_counts_for_nothing(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    rig.wire.cut.add(BOTH)
    leader.write(b"a")
    rig.ahead += 2 * LAG_SECONDS
    old = leader.leader
    old.shrink()
    proposal = old.proposal
    assert proposal is not None
    await rig.controller.elect(1)
    old.settle(proposal, rig.controller.states[TP]._replace(isr=(1,)))
    assert leader.leader.isr == (1, 2)
    assert leader.offsets[1] == 0


async def test_too_few_in_sync_replicas_take_no_records(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead(configs={"min.insync.replicas": "2"})
    assert (await leader.produce(b"a")).error_code == 0
    await shrunk(rig)
    assert (await leader.produce(b"b")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await leader.produce(b"c", acks=1)).error_code == 0
    assert leader.offsets == (0, 1, 3)
    rig.wire.cut.clear()
    await until(lambda: leader.offsets == (0, 3, 3))
    assert (await leader.produce(b"d")).error_code == 0


async def test_a_batch_does_not_come_before_the_refused_first_batch_of_its_producer(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead(configs={"min.insync.replicas": "2"})
    await shrunk(rig)
    refused = [await leader.produce(b"refused", producer=(7, 0), sequence=sequence) for sequence in (0, 1)]
    assert [each.error_code for each in refused] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    rig.wire.cut.clear()
    await until(lambda: leader.leader.isr == (1, 2))
    in_flight = await leader.produce(b"third", producer=(7, 0), sequence=2)
    assert in_flight.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    answers = [await leader.produce(b"again", producer=(7, 0), sequence=sequence) for sequence in (0, 1, 2)]
    assert [answer.error_code for answer in answers] == [0, 0, 0]


async def test_a_producer_in_a_new_epoch_is_free_of_the_batch_that_was_refused(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead(configs={"min.insync.replicas": "2"})
    await shrunk(rig)
    refused = await leader.produce(b"refused", producer=(7, 0), sequence=0)
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    rig.wire.cut.clear()
    await until(lambda: leader.leader.isr == (1, 2))
    for sequence in (0, 1):
        assert (await leader.produce(b"new", producer=(7, 1), sequence=sequence)).error_code == 0


async def test_a_topic_demands_no_more_replicas_than_it_has(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead(configs={"min.insync.replicas": "5"})
    assert (await leader.produce(b"a")).error_code == 0


async def test_too_few_replicas_after_the_append(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    assert (await leader.produce(b"a")).error_code == 0
    await shrunk(rig)
    partition = leader.partition
    partition.configure(LogConfig(min_insync_replicas=2))
    assert partition.is_acknowledged(1, 1, partition.term)
    with pytest.raises(KafkaError) as raised:
        partition.is_acknowledged(1, -1, partition.term)
    assert raised.value.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


async def test_proposals_wait_for_the_one_under_way_and_go_together(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path))
    keys = [TP, TP._replace(topic="more"), TP._replace(topic="most")]
    for key in keys:
        rig.controller.create((1, 2), key=key, configs={})
        await rig.controller.elect(1, key=key)
    rig.wire.cut.add(BOTH)
    rig.controller.held = asyncio.Event()
    for key in keys:
        rig[1].write(b"a", key=key)
    rig.ahead += 2 * LAG_SECONDS
    leaders = list(rig[1].requests.leaders())
    leaders[0].shrink()
    await until(lambda: len(rig.controller.asked) == 1)
    for leader in leaders[1:]:
        leader.shrink()
    rig.controller.held.set()
    await until(lambda: all(leader.isr == (1,) for leader in leaders))
    assert [len(request.topics) for request in rig.controller.asked] == [1, 2]


def test_a_replica_is_caught_up_where_the_leader_ended_at_its_fetch_before() -> None:
    replica = RemoteReplica(2)
    replica.fetched(5, 0, -1, leader_end=10, now=1.0)
    assert not replica.is_caught_up(10, 1.0, 100.0)
    replica.fetched(10, 0, -1, leader_end=20, now=2.0)
    assert replica.caught_up_at == 1.0
    replica.fetched(15, 0, -1, leader_end=30, now=3.0)
    assert replica.caught_up_at == 1.0
    replica.fetched(30, 0, -1, leader_end=30, now=4.0)
    assert replica.caught_up_at == 4.0
    assert replica.is_caught_up(30, 1000.0, 1.0)
    assert not replica.is_caught_up(31, 1000.0, 1.0)


async def test_the_high_watermark_waits_for_a_replica_that_is_about_to_join(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path))
    leader = await rig.lead()
    await shrunk(rig)
    rig.controller.refuse = ErrorCode.INVALID_UPDATE_VERSION
    rig.wire.cut.clear()
    await until(lambda: leader.leader.proposal is not None)
    rig.wire.cut.add(BOTH)
    end = leader.write(b"b")
    assert leader.offsets[1] == end - 1
    state = rig.controller.states[TP]
    rig.controller.states[TP] = state._replace(version=state.version + 1)
    await rig.controller.tell((1,))
    assert (leader.leader.isr, leader.offsets[1]) == ((1,), end - 1)
    rig.ahead += 2 * LAG_SECONDS
    leader.partition.advance()
    assert leader.offsets[1] == end
