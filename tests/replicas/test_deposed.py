"""A leader that nobody has told that another broker leads now.

Its clients were at the new leader already, and come back with offsets, epochs and sequence numbers that it
does not know.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkapy.replicas.leader import IN_FLIGHT_SECONDS, SILENT_SECONDS
from tests.replicas.cluster_rig import TP, Node, Rig

PRODUCER = (7, 0)


async def deposed(rig: Rig) -> Node:
    """The leader of epoch 0, with one record of a producer; that of epoch 1 has four."""
    old = await rig.lead()
    assert (await old.produce(b"0", producer=PRODUCER, sequence=0)).error_code == 0
    await rig.caught_up(2, 3)
    rig.wire.cut |= {frozenset((1, 2)), frozenset((1, 3))}
    await rig.controller.elect(2, (2, 3), tell=(2, 3))
    for sequence in range(1, 4):
        assert (await rig[2].produce(b"1", producer=PRODUCER, sequence=sequence)).error_code == 0
    return old


async def fetched(node: Node, offset: int, last_epoch: int = -1) -> Any:
    """What a consumer gets that knows no leader epoch."""
    wanted = FetchPartition(
        partition=0, fetch_offset=offset, last_fetched_epoch=last_epoch, partition_max_bytes=1 << 20
    )
    response = await node.answer(FetchRequest(topics=[FetchTopic(topic=TP.topic, partitions=[wanted])]), 12)
    return response.responses[0].partitions[0]


async def end_of_epoch(node: Node, epoch: int) -> Any:
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    topic = OffsetForLeaderTopic(topic=TP.topic, partitions=[wanted])
    response = await node.answer(OffsetForLeaderEpochRequest(topics=[topic]), 4)
    return response.topics[0].partitions[0]


async def test_it_does_not_tell_clients_what_only_the_leader_knows(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path, 3))
    old = await deposed(rig)
    rig.ahead += SILENT_SECONDS
    refused = await old.produce(b"4", producer=PRODUCER, sequence=4)
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    for last_epoch in (-1, 1):
        assert (await fetched(old, 4, last_epoch)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await end_of_epoch(old, 1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_it_serves_what_was_committed(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path, 3))
    old = await deposed(rig)
    rig.ahead += SILENT_SECONDS
    data = await fetched(old, 0)
    assert data.error_code == 0
    assert data.records.read() == old.content
    data.records.release()
    assert (await end_of_epoch(old, 0)).end_offset == 1


@pytest.mark.parametrize("silent", [2, 3])
async def test_one_replica_in_sync_that_is_silent_is_enough(
    tmp_path: Path, rigs: list[Rig], silent: int
) -> None:
    rigs.append(rig := Rig(tmp_path, 3))
    leader = await rig.lead()
    assert (await leader.produce(b"0", producer=PRODUCER, sequence=0)).error_code == 0
    rig.wire.cut.add(frozenset((1, silent)))
    rig.ahead += SILENT_SECONDS
    await rig.caught_up(5 - silent)
    assert leader.leader.may_be_deposed


async def test_a_leader_whose_followers_fetch_refuses_as_ever(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path, 3))
    leader = await rig.lead()
    assert not leader.leader.may_be_deposed, "it has just begun"
    assert (await leader.produce(b"0", producer=PRODUCER, sequence=0)).error_code == 0
    await rig.caught_up(2, 3)
    assert (await fetched(leader, 4)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    unknown = await end_of_epoch(leader, 1)
    assert (unknown.error_code, unknown.leader_epoch, unknown.end_offset) == (0, -1, -1)


async def test_a_leader_that_is_the_only_one_in_sync_is_sure(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path, 3))
    leader = await rig.lead()
    rig.wire.cut |= {frozenset((1, 2)), frozenset((1, 3))}
    await rig.controller.elect(1, (1,))
    rig.ahead += SILENT_SECONDS
    assert (await fetched(leader, 4)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_new_leader_waits_for_batches_that_come_again(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path, 3))
    old = await rig.lead()
    assert (await old.produce(b"0", producer=PRODUCER, sequence=0)).error_code == 0
    await rig.caught_up(2, 3)
    await rig.controller.elect(2)
    early = await rig[2].produce(b"2", producer=PRODUCER, sequence=2)
    assert early.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, "the client sends it again"
    for sequence in (1, 2):
        assert (await rig[2].produce(b"1", producer=PRODUCER, sequence=sequence)).error_code == 0
    await rig.caught_up(1, 3)


async def test_a_sequence_that_stays_out_of_order_is_refused(tmp_path: Path, rigs: list[Rig]) -> None:
    rigs.append(rig := Rig(tmp_path, 3))
    leader = await rig.lead()
    assert (await leader.produce(b"0", producer=PRODUCER, sequence=0)).error_code == 0
    await rig.caught_up(2, 3)
    leader.leader._began -= IN_FLIGHT_SECONDS
    refused = await leader.produce(b"4", producer=PRODUCER, sequence=4)
    assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_new_leader_without_other_replicas_refuses_a_gap_as_alone(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path, 1))
    leader = await rig.lead()
    assert (await leader.produce(b"0", producer=PRODUCER, sequence=0)).error_code == 0
    refused = await leader.produce(b"4", producer=PRODUCER, sequence=4)
    assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_leader_whose_other_replicas_were_just_removed_waits_for_batches_that_come_again(
    tmp_path: Path, rigs: list[Rig]
) -> None:
    rigs.append(rig := Rig(tmp_path, 2))
    old = await rig.lead()
    assert (await old.produce(b"0", producer=PRODUCER, sequence=0)).error_code == 0
    await rig.caught_up(2)
    rig.controller.states[TP] = rig.controller.states[TP]._replace(replicas=(2,))
    await rig.controller.elect(2, (2,))
    assert not rig[2].leader.has_others
    early = await rig[2].produce(b"2", producer=PRODUCER, sequence=2)
    assert early.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
