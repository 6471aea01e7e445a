"""A controller is deposed at any moment.

An operator deletes its node, or its session ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from kafkapy.metadata import znodes
from kafkapy.metadata.store import Create, Delete, MetadataStore, Operation
from kafkapy.metadata.znodes import LeaderAndIsr
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from kafkapy.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from tests.controller.brokers_world import Member, World
from tests.metadata.intercepted_store import Multi

STATE = znodes.partition_state_path("t", 0)


async def depose(hand: MetadataStore) -> None:
    await hand.multi([Delete(znodes.CONTROLLER)])


def shutdown_of(member: Member) -> ControlledShutdownRequest:
    return ControlledShutdownRequest(broker_id=member.id, broker_epoch=member.epoch)


def channels() -> int:
    """How many channels the controllers of this process have open."""
    return sum(task.get_name().startswith("kafkapy-controller-to-") for task in asyncio.all_tasks())


async def test_the_first_state_that_a_new_controller_tells_is_the_last_that_its_predecessor_wrote(
    world: World, hand: MetadataStore
) -> None:
    """An Apache Kafka leader takes no second state of the same leader epoch."""
    one, two, three = await world.start(1, 2, 3)
    await world.create("t", (3, 1, 2))
    await world.settled()

    async def overtaken(multi: Multi, operations: Sequence[Operation]) -> Any:
        if any(isinstance(each, Create) and each.path == znodes.CONTROLLER for each in operations):
            two.store.let_through("multi")
            await hand.set(STATE, znodes.encode_state(LeaderAndIsr(3, 0, (3, 1), 1)))
        return await multi(operations)

    two.store.intercept("multi", overtaken)
    async with one.turn, three.turn:  # they are not elected
        await depose(hand)
        await world.until(lambda: two.admin.controller is not None and two.admin.controller.term.has_begun)
        states = await world.until(
            lambda: [
                state
                for request in three.replicas.requests
                if isinstance(request, LeaderAndIsrRequest) and request.controller_epoch == 2
                for topic in request.topic_states
                for state in topic.partition_states
            ]
        )
        assert {(state.partition_epoch, tuple(state.isr)) for state in states} == {(1, (3, 1))}
    await world.settled()


def depose_within_the_next_change(world: World, controller: Member, hand: MetadataStore) -> None:
    """Have another broker become controller between the controller's next check and its commit."""

    async def overtaken(multi: Multi, operations: Sequence[Operation]) -> Any:
        controller.store.let_through("multi")
        await depose(hand)
        others = [member for member in world.members.values() if member is not controller]
        await world.until(lambda: any(each.image.controller_id == each.id for each in others))
        return await multi(operations)

    controller.store.intercept("multi", overtaken)


async def test_a_controller_that_is_deposed_within_a_change_ends_its_channels(
    world: World, hand: MetadataStore
) -> None:
    one, _, three = await world.start(1, 2, 3)
    await world.create("t", (3, 1, 2))
    await world.settled()
    assert channels() == 3
    depose_within_the_next_change(world, one, hand)
    with pytest.raises(KafkaError) as caught:
        await one.controller.controlled_shutdown(shutdown_of(three))
    assert caught.value.code is ErrorCode.NOT_CONTROLLER
    await world.until(lambda: world.controller.id in (2, 3))
    await world.until(lambda: channels() == 3)


async def test_a_controller_that_was_deposed_within_a_change_tells_all_when_it_is_elected_again(
    world: World, hand: MetadataStore
) -> None:
    """An Apache Kafka tells nobody anything then (KAFKA-12315)."""
    one, two, three = await world.start(1, 2, 3)
    await world.create("t", (1, 2, 3))
    await world.settled()
    depose_within_the_next_change(world, one, hand)
    with pytest.raises(KafkaError):
        await one.controller.controlled_shutdown(shutdown_of(three))
    await world.stop(3)
    await world.settled()
    async with two.turn:  # it is not elected
        await depose(hand)
        await world.until(lambda: one.image.controller_id == 1 and one.controller.term.has_begun)
    (three,) = await world.start(3)
    await world.settled()
    assert three.replicas.requests[-1].controller_id == 1
