"""Partitions move to other brokers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from kafkapy.controller.reassignments import Assignment, check_target, reassigned
from kafkapy.metadata import znodes
from kafkapy.metadata.image import PartitionState, read_image
from kafkapy.metadata.store import Create, Operation
from kafkapy.metadata.znodes import LeaderAndIsr, ReplicaAssignment
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.types import TopicPartition, random_uuid
from tests.controller.brokers_world import World
from tests.controller.test_alter_partition import alter

T0 = TopicPartition("t", 0)
STATE = PartitionState(1, 0, (1, 2), (1, 2))


def test_a_partition_that_moves_has_its_target_first_and_all_replicas() -> None:
    assert reassigned(STATE, (3, 2)) == Assignment((3, 2, 1), (3,), (1,))
    moving = STATE._replace(replicas=(3, 2, 1), adding=(3,), removing=(1,))
    assert reassigned(moving, (4, 1)) == Assignment((4, 1, 2), (4,), (2,))
    assert reassigned(moving, (2, 1)) == Assignment((2, 1), (), ())
    assert reassigned(STATE, (2, 1)) == Assignment((2, 1), (), ())


@pytest.mark.parametrize(
    ("target", "code", "reason"),
    [
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Empty replica list"),
        ((1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Duplicate replica ids"),
        ((1, -1), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Invalid broker id"),
        ((1, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "not alive"),
        ((1,), ErrorCode.INVALID_REPLICATION_FACTOR, "The replication factor is changed from 2 to 1"),
        ((1, 2, 3), ErrorCode.INVALID_REPLICATION_FACTOR, "The replication factor is changed from 2 to 3"),
    ],
)
def test_a_target_that_is_refused(target: tuple[int, ...], code: ErrorCode, reason: str) -> None:
    with pytest.raises(KafkaError, match=reason) as caught:
        check_target(STATE, target, (1, 2, 3), may_change_factor=False)
    assert caught.value.code is code


async def move(world: World, target: Sequence[int] | None, index: int = 0) -> ErrorCode:
    wanted = {TopicPartition("t", index): target}
    results = await world.controller.controller.alter_reassignments(wanted, may_change_factor=True)
    (error,) = results.values()
    return ErrorCode.NONE if error is None else error.code


async def test_a_partition_moves_when_its_new_replicas_are_in_sync(world: World) -> None:
    one, two, three, four = await world.start(1, 2, 3, 4)
    await world.create("t", (2, 3))
    assert await move(world, (4, 3)) is ErrorCode.NONE
    state = world.state()
    assert (state.replicas, state.adding, state.removing) == ((4, 3, 2), (4,), (2,))
    assert (state.leader, state.isr, state.leader_epoch) == (2, (2, 3), 1)
    assert list(one.controller.moving()) == [T0]
    await world.settled()
    assert four.replicas.told[T0].is_new
    assert four.replicas.told[T0].adding_replicas == [4]
    assert not three.replicas.told[T0].is_new
    await alter(world, two, 2, 3, 4)
    state = await world.led_by(4)
    assert (state.replicas, state.adding, state.removing, state.isr) == ((4, 3), (), (), (3, 4))
    assert state.leader_epoch == 2
    await world.until(lambda: two.replicas.stopped == {T0: True})
    await world.settled()
    assert not one.controller.moving()
    assert read_image(await one.store.subtree("/")).topics["t"] == one.image.topics["t"]


async def test_the_leader_stays_if_its_replica_does(world: World) -> None:
    _, two, three, _ = await world.start(1, 2, 3, 4)
    await world.create("t", (2, 3))
    await move(world, (4, 2))
    await alter(world, two, 2, 3, 4)
    state = await world.led_by(2)
    assert (state.replicas, state.isr) == ((4, 2), (2, 4))
    await world.until(lambda: three.replicas.stopped == {T0: True})


async def test_fewer_replicas_need_no_wait(world: World) -> None:
    _, _, three = await world.start(1, 2, 3)
    await world.create("t", (2, 3))
    assert await move(world, (2,)) is ErrorCode.NONE
    state = world.state()
    assert (state.replicas, state.removing, state.isr, state.leader) == ((2,), (), (2,), 2)
    await world.until(lambda: three.replicas.stopped == {T0: True})


async def test_another_order_of_the_replicas_makes_another_one_preferred(world: World) -> None:
    await world.start(1, 2)
    await world.create("t", (1, 2))
    assert await move(world, (2, 1)) is ErrorCode.NONE
    assert (world.state().replicas, world.state().leader) == ((2, 1), 1)
    await world.settled()


async def test_a_move_is_cancelled(world: World) -> None:
    one, _, _, four = await world.start(1, 2, 3, 4)
    await world.create("t", (2, 3))
    assert await move(world, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    await move(world, (4, 3))
    await world.settled()
    assert await move(world, None) is ErrorCode.NONE
    state = world.state()
    assert (set(state.replicas), state.adding, state.removing) == ({2, 3}, (), ())
    await world.until(lambda: four.replicas.stopped == {T0: True})
    assert not one.controller.moving()
    await world.settled()


async def test_another_target_drops_the_new_replicas_that_it_does_not_need(world: World) -> None:
    _, two, _, four = await world.start(1, 2, 3, 4)
    await world.create("t", (2, 3))
    await move(world, (4, 3))
    await move(world, (1, 3))
    assert (world.state().adding, world.state().removing) == ((1,), (2,))
    await world.until(lambda: four.replicas.stopped == {T0: True})
    await alter(world, two, 2, 3, 1)
    assert (await world.led_by(1)).replicas == (1, 3)


async def test_what_cannot_be_moved(world: World) -> None:
    await world.start(1, 2)
    await world.create("t", (1, 2))
    assert await move(world, (3, 2)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert await move(world, (1, 2), 7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.state().replicas == (1, 2)


async def test_the_next_controller_goes_on_with_a_move(world: World) -> None:
    _, two, _, four = await world.start(1, 2, 3, 4)
    await world.create("t", (2, 3))
    await move(world, (4, 3))
    await world.stop(1)
    await world.until(lambda: world.controller.id != 1)
    await world.settled()
    assert list(world.controller.controller.moving()) == [T0]
    await alter(world, two, 2, 3, 4)
    await world.led_by(4)
    await world.until(lambda: two.replicas.stopped == {T0: True})
    assert not world.controller.controller.moving()
    assert four.replicas.led(4)


async def test_a_topic_that_moves_can_be_deleted(world: World) -> None:
    one, two, three, four = await world.start(1, 2, 3, 4)
    topic = await world.create("t", (2, 3))
    await move(world, (4, 3))
    await one.admin.topics.delete_topics([topic.id])
    assert not one.controller.moving()
    assert await one.store.exists("/brokers/topics/t") is None
    assert two.replicas.stopped == three.replicas.stopped == four.replicas.stopped == {T0: True}


async def test_a_move_that_somebody_writes_into_the_tree_is_made(world: World) -> None:
    _, two, three, _ = await world.start(1, 2, 3, 4)
    await world.create("t", (2, 3), (2, 3))
    asked = {
        "version": 1,
        "partitions": [
            {"topic": "t", "partition": 0, "replicas": [4, 3]},
            {"topic": "t", "partition": 1, "replicas": [2, 9]},
            {"topic": "x", "partition": 0, "replicas": [1]},
        ],
    }
    await three.store.create(znodes.REASSIGN_PARTITIONS, json.dumps(asked).encode())
    await world.until(lambda: world.state().adding == (4,))
    async with world.controller.turn:
        left = znodes.decode_reassignment((await three.store.get(znodes.REASSIGN_PARTITIONS)).data)
    assert left == {T0: (4, 3)}
    await alter(world, two, 2, 3, 4)
    await world.led_by(4)
    assert await three.store.exists(znodes.REASSIGN_PARTITIONS) is None


async def test_a_move_may_be_complete_before_the_controller_has_taken_in_the_partition(world: World) -> None:
    """The metadata may show both while the controller acts on something else."""
    one, two = await world.start(1, 2)
    nodes: list[Operation] = [
        Create(
            "/brokers/topics/t", znodes.encode_topic(random_uuid(), [ReplicaAssignment((2, 1), (2,), (1,))])
        ),
        Create("/brokers/topics/t/partitions"),
        Create("/brokers/topics/t/partitions/0"),
        Create("/brokers/topics/t/partitions/0/state", znodes.encode_state(LeaderAndIsr(1, 0, (1, 2), 1))),
    ]
    async with one.turn, asyncio.timeout(10):
        await two.store.multi(nodes)
        while T0 not in one.controller.moving():  # until the broker has heard of it
            await asyncio.sleep(0.001)
            await one.admin.writer.catch_up()
        await one.controller.term.reassignments.advance_all()
        assert list(one.controller.moving()) == [T0]
    state = await world.led_by(2)
    assert (state.replicas, state.adding, state.removing, state.isr) == ((2,), (), (), (2,))
    await world.settled()
    assert not one.controller.moving()
