"""Coordinators on replicated partitions.

What is acknowledged survives the leader, and is known once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kafkapy.groups.classic.group import ClassicGroup, GroupState
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.coordinator import GroupCoordinator
from kafkapy.groups.offsets.committed_offset import decode_offset, encode_offset
from kafkapy.loop.clock import Clock
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupResponse
from kafkapy.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kafkapy.protocol.topic_names import GROUP_METADATA_TOPIC
from kafkapy.protocol.types import TopicPartition
from tests.groups.classic_world import joining
from tests.replicas.cluster_rig import Node, Rig
from tests.replicas.held_files import until

PARTITION = TopicPartition(GROUP_METADATA_TOPIC, 0)
T0 = TopicPartition("t", 0)
CONFIG = GroupConfig(initial_rebalance_delay_ms=0, offsets_commit_timeout_ms=200)


class Brokers:
    """Three brokers with the one partition of the offsets topic; broker 1 leads it."""

    def __init__(self, root: Path) -> None:
        self.rig = Rig(root, 3)
        self.groups = {number: self.coordinator(self.rig[number]) for number in (1, 2, 3)}

    def coordinator(self, node: Node) -> GroupCoordinator:
        log = node.topic_log(GROUP_METADATA_TOPIC)
        groups = GroupCoordinator(
            CONFIG, Clock(), node.timers, log, blocking=node.blocking, costly=node.blocking
        )
        node.replicas.on_leadership(groups.leadership_changed)
        groups.start()
        return groups

    async def start(self) -> Brokers:
        before = self.rig.image
        self.rig.controller.create((1, 2, 3), key=PARTITION, configs={"cleanup.policy": "compact"})
        for groups in self.groups.values():
            groups.metadata_changed(before, self.rig.image)
        await self.rig.controller.elect(1, key=PARTITION)
        await self.available(1)
        return self

    async def elect(self, leader: int, isr: tuple[int, ...], tell: tuple[int, ...] | None = None) -> None:
        await self.rig.controller.elect(leader, isr, key=PARTITION, tell=tell)
        await self.available(leader)

    async def available(self, number: int) -> None:
        await until(lambda: self.groups[number].runtime.is_active("g"))

    async def commit(self, number: int, offset: int) -> ErrorCode:
        """Commit through a broker; the answer."""
        groups = self.groups[number]
        try:
            groups.check_commit("g", "", None, -1)
        except KafkaError as error:
            return error.code
        answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        committed = encode_offset(offset, 0, "", Clock().now_ms())
        groups.writes.report(groups.writes.commit("g", {T0: committed}), answer.set_result)
        return await answer

    def committed(self, number: int) -> int | None:
        found = self.groups[number].offsets.of_group("g").get(T0)
        return None if found is None else decode_offset(found).offset

    def cut_off(self, number: int) -> None:
        """Let no broker reach this one."""
        self.rig.wire.cut |= {frozenset((number, other)) for other in (1, 2, 3) if other != number}

    async def close(self) -> None:
        for groups in self.groups.values():
            await groups.stop()
        await self.rig.close()


@pytest.fixture
async def brokers(tmp_path: Path) -> AsyncIterator[Brokers]:
    made = Brokers(tmp_path)
    yield await made.start()
    await made.close()


async def test_what_is_acknowledged_is_known_to_the_next_coordinator(brokers: Brokers) -> None:
    for offset in range(20):
        assert await brokers.commit(1, offset) is ErrorCode.NONE
    await brokers.groups[1].stop()
    await brokers.rig[1].stop(clean=False)
    await brokers.elect(2, (2, 3))
    assert brokers.committed(2) == 19
    assert await brokers.commit(2, 20) is ErrorCode.NONE
    await brokers.rig[1].restart(clean=False)
    brokers.groups[1] = brokers.coordinator(brokers.rig[1])
    await brokers.rig.controller.tell(key=PARTITION)
    assert await brokers.commit(1, 0) is ErrorCode.NOT_COORDINATOR


async def test_a_leader_that_was_replaced_without_knowing_acknowledges_nothing(brokers: Brokers) -> None:
    assert await brokers.commit(1, 7) is ErrorCode.NONE
    brokers.cut_off(1)
    await brokers.elect(2, (2, 3), tell=(2, 3))
    assert await brokers.commit(1, 8) is ErrorCode.COORDINATOR_NOT_AVAILABLE, "it takes too long"
    assert brokers.committed(1) == 7
    assert brokers.committed(2) == 7
    assert await brokers.commit(2, 9) is ErrorCode.NONE
    # It hears of its successor, and follows it.
    waiting = asyncio.create_task(brokers.commit(1, 10))
    await asyncio.sleep(0)
    brokers.rig.wire.cut.clear()
    await brokers.rig.controller.tell((1,), key=PARTITION)
    assert await waiting is ErrorCode.NOT_COORDINATOR
    assert await brokers.commit(1, 11) is ErrorCode.NOT_COORDINATOR
    await until(lambda: brokers.committed(1) is None)
    # And it may become the coordinator again, with what its successor has stored.
    log = brokers.rig[2].replicas.partition(*PARTITION).log
    await until(
        lambda: brokers.rig[1].replicas.partition(*PARTITION).log.log_end_offset == log.log_end_offset
    )
    await brokers.elect(1, (1, 2, 3))
    assert brokers.committed(1) == 9


async def test_a_stable_group_goes_on_where_the_leadership_goes(brokers: Brokers) -> None:
    waiting = brokers.groups[1].join_group("g", joining("", ["t"]))
    joined = waiting if isinstance(waiting, JoinGroupResponse) else await waiting
    assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[assignment],
    )
    answer = brokers.groups[1].sync_group(request)
    synced = answer if isinstance(answer, SyncGroupResponse) else await answer
    assert (synced.error_code, synced.assignment) == (0, b"all")
    for leader in (2, 3, 1):
        await brokers.elect(leader, (1, 2, 3))
        group = brokers.groups[leader].groups["g"]
        assert isinstance(group, ClassicGroup)
        assert (group.state, group.generation) == (GroupState.STABLE, joined.generation_id)
        heartbeat = HeartbeatRequest(
            group_id="g", generation_id=joined.generation_id, member_id=joined.member_id
        )
        assert brokers.groups[leader].heartbeat(heartbeat) is ErrorCode.NONE
        others = {number: groups.heartbeat(heartbeat) for number, groups in brokers.groups.items()}
        del others[leader]
        assert set(others.values()) == {ErrorCode.NOT_COORDINATOR}


async def test_a_new_leader_waits_until_its_followers_have_what_it_loads(brokers: Brokers) -> None:
    assert await brokers.commit(1, 7) is ErrorCode.NONE
    brokers.rig.wire.cut |= {frozenset((1, 3)), frozenset((2, 3))}
    waiting = asyncio.create_task(brokers.commit(1, 8))
    followed = brokers.rig[1].replicas.partition(*PARTITION).log
    await until(
        lambda: (
            brokers.rig[2].replicas.partition(*PARTITION).log.log_end_offset == followed.log_end_offset == 2
        )
    )
    await brokers.rig.controller.elect(2, (2, 3), key=PARTITION)
    assert await waiting is ErrorCode.NOT_COORDINATOR
    assert brokers.groups[2].runtime.is_loading
    assert await brokers.commit(2, 9) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    brokers.rig.wire.cut.clear()
    await brokers.available(2)
    assert brokers.committed(2) == 8, "the record reached it, although nobody was told"


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_happens_to_leaders_no_acknowledged_commit_is_forgotten(
    brokers: Brokers, seed: int
) -> None:
    chance = random.Random(seed)
    leader, acknowledged, offset = 1, -1, 0
    for _ in range(25):
        what = chance.choice(("commit", "commit", "commit", "cut", "heal", "move", "kill"))
        if what == "commit":
            error = await brokers.commit(leader, offset)
            assert error in (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE), (seed, error)
            if error is ErrorCode.NONE:
                acknowledged = offset
            offset += 1
        elif what == "cut":
            brokers.rig.wire.cut.add(frozenset(chance.sample((1, 2, 3), 2)))
        elif what == "heal":
            brokers.rig.wire.cut.clear()
        else:
            before, leader = leader, chance.choice([each for each in (1, 2, 3) if each != leader])
            if what == "kill":
                await brokers.groups[before].stop()
                await brokers.rig[before].restart(clean=False)
                brokers.groups[before] = brokers.coordinator(brokers.rig[before])
                brokers.rig.register((1, 2, 3))
            brokers.rig.wire.cut.clear()  # so that what was written is committed, and can be loaded
            await brokers.elect(leader, (1, 2, 3))
            known = brokers.committed(leader)
            assert acknowledged <= (-1 if known is None else known) < max(offset, 1), (seed, what)
            await until(lambda before=before: brokers.committed(before) is None)  # type: ignore[misc]
