"""A leader changes the in-sync replicas of its partitions, if the controller agrees."""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy.controller.context import ControllerContext
from kafkapy.controller.isr_changes import IsrChange, is_made
from kafkapy.metadata.image import Broker, PartitionState
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerState,
)
from kafkapy.protocol.types import ZERO_UUID, TopicPartition
from tests.controller.brokers_world import Member, World

T0 = TopicPartition("t", 0)
STATE = PartitionState(1, 5, (1, 2), (1, 2, 3), version=7)


def context(**more: object) -> ControllerContext:
    made = ControllerContext(brokers={id_: Broker(id_, None, {}, id_ * 100) for id_ in (1, 2, 3)})
    for name, value in more.items():
        setattr(made, name, value)
    return made


def change(
    *isr: int,
    leader: int = 1,
    leader_epoch: int = 5,
    partition_epoch: int = 7,
    epochs: tuple[int, ...] | None = None,
    recovery_state: int = 0,
) -> IsrChange:
    found = tuple(broker * 100 for broker in isr) if epochs is None else epochs
    return IsrChange(leader, leader_epoch, partition_epoch, isr, found, recovery_state)


@pytest.mark.parametrize("isr", [(1, 2, 3), (1,), (1, 3), (3, 1)])
def test_a_leader_may_have_any_live_replicas_in_sync_with_itself(isr: tuple[int, ...]) -> None:
    assert not is_made(change(*isr), T0, STATE, context())


def test_a_change_that_is_in_force_is_made_already_even_with_an_old_partition_epoch() -> None:
    assert is_made(change(1, 2), T0, STATE, context())
    assert is_made(change(1, 2, partition_epoch=6), T0, STATE, context())


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (change(1, leader_epoch=6), ErrorCode.NOT_CONTROLLER),
        (change(1, partition_epoch=8), ErrorCode.NOT_CONTROLLER),
        (change(1, leader_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
        (change(1, partition_epoch=6), ErrorCode.INVALID_UPDATE_VERSION),
        (change(2, leader=2), ErrorCode.INVALID_REQUEST),
        (change(2, 3), ErrorCode.INVALID_REQUEST),
        (change(), ErrorCode.INVALID_REQUEST),
        (change(1, 4), ErrorCode.INVALID_REQUEST),
        (change(1, 1), ErrorCode.INVALID_REQUEST),
        (change(1, recovery_state=1), ErrorCode.INVALID_REQUEST),
        (change(1, recovery_state=2), ErrorCode.INVALID_REQUEST),
        (change(1, 2, 3, epochs=(100, 200, 299)), ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_what_is_refused(asked: IsrChange, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        is_made(asked, T0, STATE, context())
    assert caught.value.code is code


@pytest.mark.parametrize(
    "lost",
    [
        {"shutting_down": {3}},
        {"restarted": {3}},
        {"offline": {3: {T0}}},
        {"brokers": {id_: Broker(id_, None, {}, id_ * 100) for id_ in (1, 2)}},
    ],
)
def test_a_replica_that_is_not_online_may_not_join(lost: dict[str, object]) -> None:
    with pytest.raises(KafkaError) as caught:
        is_made(change(1, 2, 3), T0, STATE, context(**lost))
    assert caught.value.code is ErrorCode.INELIGIBLE_REPLICA


def test_a_leader_that_shuts_down_may_be_joined_so_that_another_replica_can_take_over() -> None:
    assert not is_made(change(1, 2, 3), T0, STATE, context(shutting_down={1}))


def test_a_broker_epoch_that_the_leader_does_not_know_is_not_compared() -> None:
    assert not is_made(change(1, 2, 3, epochs=(-1, -1, -1)), T0, STATE, context())


def test_a_leader_that_is_recovering_is_alone_in_sync_until_it_has_recovered() -> None:
    recovering = STATE._replace(isr=(1,), recovery_state=1)
    assert not is_made(change(1), T0, recovering, context())
    assert not is_made(change(1, 2), T0, recovering, context())
    with pytest.raises(KafkaError) as caught:
        is_made(change(1, 2, recovery_state=1), T0, recovering, context())
    assert caught.value.code is ErrorCode.INVALID_REQUEST


async def alter(
    world: World, leader: Member, *isr: int, version: int = 3, **fields: object
) -> AlterPartitionResponse:
    """Ask as a leader does that knows the present state."""
    state = world.state()
    asked = AlterPartitionRequestPartitionData(leader_epoch=state.leader_epoch, partition_epoch=state.version)
    if version >= 3:
        asked.new_isr_with_epochs = [
            BrokerState(broker_id=broker, broker_epoch=world.members[broker].epoch) for broker in isr
        ]
    else:
        asked.new_isr = list(isr)
    topic = AlterPartitionRequestTopicData(partitions=[asked])
    if version >= 2:
        topic.topic_id = world.controller.image.topics["t"].id
    else:
        topic.topic_name = "t"
    request = AlterPartitionRequest(broker_id=leader.id, broker_epoch=leader.epoch, topics=[topic])
    for name, value in fields.items():
        setattr(request if hasattr(request, name) else topic, name, value)
    return await world.controller.controller.alter_partition(request)


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_the_new_in_sync_replicas_are_written_and_published(world: World, version: int) -> None:
    one, two, _ = await world.start(1, 2, 3)
    await world.create("t", (2, 3, 1))
    response = await alter(world, two, 2, 1, version=version)
    (topic,) = response.topics
    (answer,) = topic.partitions
    assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (0, 2, 0)
    assert (answer.isr, answer.partition_epoch) == ([2, 1], 1)
    assert (topic.topic_name, topic.topic_id == ZERO_UUID) == (("t", True) if version < 2 else ("", False))
    assert world.state().isr == (2, 1)
    await world.until(lambda: two.image.partition("t", 0) == world.state())
    assert (await one.store.get("/brokers/topics/t/partitions/0/state")).stat.version == 1
    # The same again is in force already.
    (topic,) = (await alter(world, two, 2, 1, version=version)).topics
    assert topic.partitions[0].partition_epoch == 1


async def test_a_leader_that_the_controller_does_not_know_by_this_epoch_is_stale(world: World) -> None:
    _, two = await world.start(1, 2)
    await world.create("t", (2, 1))
    assert (await alter(world, two, 2, broker_epoch=two.epoch - 1)).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert (await alter(world, two, 2, broker_id=9)).error_code == ErrorCode.STALE_BROKER_EPOCH


async def test_an_unknown_topic_is_said_to_be_so(world: World) -> None:
    _, two = await world.start(1, 2)
    await world.create("t", (2, 1))
    (topic,) = (await alter(world, two, 2, topic_id=b"x" * 16)).topics
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    (topic,) = (await alter(world, two, 2, version=1, topic_name="x")).topics
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("version", "code"), [(1, ErrorCode.OPERATION_NOT_ATTEMPTED), (3, ErrorCode.INELIGIBLE_REPLICA)]
)
async def test_a_replica_that_may_not_join_has_another_error_in_old_versions(
    world: World, version: int, code: ErrorCode
) -> None:
    one, two, _ = await world.start(1, 2, 3)
    await world.create("t", (2, 3))
    await alter(world, two, 2)
    one.controller.term.context.shutting_down.add(3)
    (topic,) = (await alter(world, two, 2, 3, version=version)).topics
    assert topic.partitions[0].error_code == code
    assert world.state().isr == (2,)


async def test_a_state_that_somebody_changes_meanwhile_is_told_to_the_leader(world: World) -> None:
    one, two = await world.start(1, 2)
    await world.create("t", (2, 1))
    path = "/brokers/topics/t/partitions/0/state"

    async def overtaken(multi: Any, operations: Any) -> Any:
        one.store.let_through("multi")
        await two.store.set(path, (await two.store.get(path)).data)
        return await multi(operations)

    one.store.intercept("multi", overtaken)
    (topic,) = (await alter(world, two, 2)).topics
    assert topic.partitions[0].error_code == ErrorCode.INVALID_UPDATE_VERSION
    await world.until(lambda: two.replicas.told[T0].partition_epoch == 1)
    assert (await alter(world, two, 2)).topics[0].partitions[0].error_code == ErrorCode.NONE
