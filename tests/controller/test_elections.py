"""Who leads: by the replicas that are in sync, by request, and by the automatic rebalance."""

from __future__ import annotations

import json
from collections.abc import Collection
from itertools import combinations

import pytest

from kafkapy.controller.elections import ElectionType
from kafkapy.controller.leader_election import (
    RECOVERING,
    elect_for_shutdown,
    elect_offline,
    elect_preferred,
    elect_reassigned,
)
from kafkapy.controller.state_commits import PARTITIONS_AT_ONCE
from kafkapy.metadata import znodes
from kafkapy.metadata.image import NO_LEADER, PartitionState
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.types import TopicPartition
from tests.controller.brokers_world import World

BROKERS = (1, 2, 3)


def subsets(brokers: Collection[int]) -> list[tuple[int, ...]]:
    return [each for size in range(len(brokers) + 1) for each in combinations(brokers, size)]


@pytest.mark.parametrize("isr", [isr for isr in subsets(BROKERS) if isr])
@pytest.mark.parametrize("online", subsets(BROKERS))
@pytest.mark.parametrize("restarted", subsets(BROKERS))
@pytest.mark.parametrize("unclean", [False, True])
def test_a_partition_without_a_leader_is_led_by_its_first_replica_in_sync_or_else_by_none(
    isr: tuple[int, ...], online: tuple[int, ...], restarted: tuple[int, ...], unclean: bool
) -> None:
    state = PartitionState(NO_LEADER, 0, isr, (3, 1, 2))
    elected = elect_offline(state, online, restarted, unclean=unclean)
    in_sync = set(isr) & set(online)
    if elected is None:
        assert not in_sync
        assert not (unclean and online)
        return
    assert elected.isr
    assert elected.leader in elected.isr
    assert set(elected.isr) <= set(online)
    if in_sync:
        assert set(elected.isr) <= in_sync
        assert elected.recovery_state == 0
        # Brokers that started anew lead only if no other can.
        assert set(elected.isr) == (in_sync - set(restarted) or in_sync)
        assert elected.leader == min(elected.isr, key=state.replicas.index)
    else:
        assert unclean
        assert (elected.isr, elected.recovery_state) == ((elected.leader,), RECOVERING)


def test_the_preferred_replica_leads_only_if_it_is_online_and_in_sync() -> None:
    state = PartitionState(2, 4, (1, 2), (1, 2, 3))
    elected = elect_preferred(state, BROKERS)
    assert elected is not None
    assert (elected.leader, elected.isr) == (1, (1, 2))
    assert elect_preferred(state, (2, 3)) is None
    assert elect_preferred(state._replace(isr=(2, 3)), BROKERS) is None


def test_after_a_reassignment_a_replica_that_stays_leads() -> None:
    state = PartitionState(1, 4, (1, 2, 3), (3, 2, 1), adding=(3,), removing=(1,))
    elected = elect_reassigned(state, BROKERS)
    assert elected is not None
    assert elected.leader == 3
    elected = elect_reassigned(state, (1, 2))
    assert elected is not None
    assert elected.leader == 2
    assert elect_reassigned(state, (1,)) is None


def test_a_broker_that_shuts_down_leads_no_more_if_another_is_in_sync() -> None:
    state = PartitionState(1, 4, (1, 2, 3), (1, 2, 3))
    elected = elect_for_shutdown(state, BROKERS, {1})
    assert elected is not None
    assert (elected.leader, elected.isr) == (2, (2, 3))
    elected = elect_for_shutdown(state, BROKERS, {1, 2})
    assert elected is not None
    assert (elected.leader, elected.isr) == (3, (3,))
    assert elect_for_shutdown(state, BROKERS, set(BROKERS)) is None
    assert elect_for_shutdown(state._replace(isr=(1,)), BROKERS, {1}) is None


# --- by request ------------------------------------------------------------------------------------


async def moved_away(world: World, name: str = "t") -> None:
    """Let broker 2 lose what it should lead, and be in sync again."""
    await world.create(name, (2, 3), (3, 2))
    await world.stop(2)
    await world.led_by(3, name)
    await world.start(2)
    await world.settled()
    await in_sync(world, name)


async def in_sync(world: World, name: str = "t") -> None:
    """Put the replicas of a topic back in sync, as their leaders do."""
    commits = world.controller.controller.term.commits
    async with world.controller.turn:
        for index, state in enumerate(commits.image.topics[name].partitions):
            partition = TopicPartition(name, index)
            await commits.make(lambda changes, p=partition, s=state: changes.write_isr(p, s.replicas, 0))  # type: ignore[misc]


async def elect(world: World, election: ElectionType, *partitions: tuple[str, int]) -> list[ErrorCode]:
    wanted = [TopicPartition(*each) for each in partitions]
    results = await world.controller.controller.elect_leaders(election, wanted, 10)
    return [ErrorCode.NONE if error is None else error.code for error in results.values()]


async def test_a_client_has_the_preferred_replica_lead_again(world: World) -> None:
    await world.start(1, 2, 3)
    await moved_away(world)
    wanted = [("t", 0), ("t", 1), ("t", 9), ("x", 0)]
    assert await elect(world, ElectionType.PREFERRED, *wanted) == [
        ErrorCode.NONE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    state = world.state()
    assert state.leader == 2
    assert world.members[2].replicas.led(2) == {TopicPartition("t", 0): state.leader_epoch}


async def test_an_election_in_parts_is_answered_though_the_first_leaders_knew_before_the_last_were_elected(
    world: World,
) -> None:
    await world.start(1, 2, 3, auto_leader_rebalance_enable="false")
    count = 2 * PARTITIONS_AT_ONCE + 1
    await world.create("t", *[(2, 3)] * count)
    await world.stop(2)
    await world.until(
        lambda: all(state.leader == 3 for state in world.controller.image.topics["t"].partitions)
    )
    await world.start(2, auto_leader_rebalance_enable="false")
    await world.settled()
    await in_sync(world)
    wanted = [("t", index) for index in range(count)]
    assert await elect(world, ElectionType.PREFERRED, *wanted) == [ErrorCode.NONE] * count


async def test_a_preferred_replica_that_is_not_in_sync_does_not_lead(world: World) -> None:
    await world.start(1, 2, 3)
    await world.create("t", (2, 3))
    await world.stop(2)
    await world.led_by(3)
    await world.start(2)
    await world.settled()
    assert await elect(world, ElectionType.PREFERRED, ("t", 0)) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    assert world.state().leader == 3


async def test_a_client_has_a_replica_lead_that_is_not_in_sync(world: World) -> None:
    await world.start(1, 2, 3)
    await world.create("t", (2, 3))
    assert await elect(world, ElectionType.UNCLEAN, ("t", 0)) == [ErrorCode.ELECTION_NOT_NEEDED]
    await world.stop(3)
    await world.until(lambda: world.state().isr == (2,))
    await world.stop(2)
    await world.led_by(NO_LEADER)
    assert await elect(world, ElectionType.UNCLEAN, ("t", 0)) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    await world.start(3)
    await world.settled()
    assert await elect(world, ElectionType.UNCLEAN, ("t", 0)) == [ErrorCode.NONE]
    state = world.state()
    assert (state.leader, state.isr, state.recovery_state) == (3, (3,), 1)


async def test_an_election_that_somebody_writes_into_the_tree_is_held(world: World) -> None:
    await world.start(1, 2, 3)
    await moved_away(world)
    asked = {"version": 1, "partitions": [{"topic": "t", "partition": 0}, {"topic": "x", "partition": 0}]}
    path = znodes.PREFERRED_REPLICA_ELECTION
    await world.members[3].store.create(path, json.dumps(asked).encode())
    await world.led_by(2)
    async with world.controller.turn:
        assert await world.members[3].store.exists(path) is None


async def test_leaders_are_rebalanced_when_too_many_are_astray(world: World) -> None:
    settings = {
        "leader_imbalance_check_interval_seconds": "1",
        "leader_imbalance_per_broker_percentage": "60",
    }
    await world.start(1, 2, 3, **settings)
    await moved_away(world)
    await world.led_by(2)


@pytest.mark.parametrize(("percentage", "leader"), [(100, 3), (99, 2)])
async def test_few_leaders_astray_stay_where_they_are(world: World, percentage: int, leader: int) -> None:
    await world.start(1, 2, 3, leader_imbalance_per_broker_percentage=str(percentage))
    await moved_away(world)
    async with world.controller.turn:
        await world.controller.controller.term.elections.rebalance()
    assert world.state().leader == leader
