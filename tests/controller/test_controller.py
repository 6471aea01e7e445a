"""The controller elects leaders, and tells the brokers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from kafkapy.controller.topic_plans import MorePartitions, NewTopic
from kafkapy.metadata import znodes
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.image import NO_LEADER, read_image
from kafkapy.metadata.store import Create, MetadataStore, Operation
from kafkapy.metadata.znodes import LeaderAndIsr, ReplicaAssignment
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kafkapy.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from kafkapy.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kafkapy.protocol.messages.stop_replica import StopReplicaRequest
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest
from kafkapy.protocol.types import TopicPartition, random_uuid
from tests.controller.brokers_world import Member, World

T0 = TopicPartition("t", 0)


# --- topics ---------------------------------------------------------------------------------------


async def test_the_creation_of_a_topic_is_answered_when_its_leaders_know_that_they_lead(
    world: World,
) -> None:
    one, two, three = await world.start(1, 2, 3)
    topic = await world.create("t", (2, 3, 1), (3, 1, 2))
    assert [(state.leader, state.isr, state.leader_epoch) for state in topic.partitions] == [
        (2, (2, 3, 1), 0),
        (3, (3, 1, 2), 0),
    ]
    assert two.replicas.led(2) == {T0: 0}
    assert three.replicas.led(3) == {TopicPartition("t", 1): 0}
    await world.settled()
    await world.until(lambda: len(one.replicas.leaders) == 2)
    state = one.replicas.told[T0]
    assert state.is_new
    assert (state.leader, state.isr, state.replicas, state.partition_epoch) == (2, [2, 3, 1], [2, 3, 1], 0)
    assert one.replicas.leaders == {T0: 2, TopicPartition("t", 1): 3}


async def test_a_topic_whose_leader_does_not_answer_is_timed_out_and_there_all_the_same(world: World) -> None:
    one, two = await world.start(1, 2)
    two.replicas.answers.clear()
    new = [NewTopic("t", assignments=[(0, (2, 1))]), NewTopic("u", assignments=[(0, (1, 2))])]
    results = await one.admin.topics.create_topics(new, seconds=0.2)
    assert isinstance(results["t"], KafkaError)
    assert results["t"].code is ErrorCode.REQUEST_TIMED_OUT
    assert not isinstance(results["u"], KafkaError)
    two.replicas.answers.set()
    await world.led_by(2)


async def test_only_live_replicas_are_in_sync_at_first_and_the_others_are_told_when_they_come(
    world: World,
) -> None:
    one, _ = await world.start(1, 2)
    image = one.image
    data = znodes.encode_topic(random_uuid(), [ReplicaAssignment((3, 2, 1)), ReplicaAssignment((3,))])
    await one.store.multi([Create("/brokers/topics/t", data)])
    one.admin._changes.add(["/brokers/topics/t"])
    state = await world.led_by(2)
    assert state.isr == (2, 1)
    assert one.image.partition("t", 1).leader == NO_LEADER  # type: ignore[union-attr]
    (three,) = await world.start(3)
    assert (await world.led_by(3, "t", 1)).isr == (3,)
    await world.until(lambda: three.replicas.told[T0].leader == 2)
    assert image is not one.image
    await world.settled()
    assert not one.image.unfinished


async def test_new_partitions_are_led_before_the_answer(world: World) -> None:
    one, two = await world.start(1, 2)
    await world.create("t", (1, 2))
    more = MorePartitions("t", 3, [(2, 1), (1, 2)])
    assert await one.admin.topics.create_partitions([more]) == {"t": None}
    assert two.replicas.led(2) == {TopicPartition("t", 1): 0}
    await world.settled()


async def test_a_deleted_topic_is_deleted_on_all_brokers_before_its_nodes_go(world: World) -> None:
    one, two = await world.start(1, 2)
    topic = await world.create("t", (1, 2), (2, 1))
    two.replicas.answers.clear()
    results = await one.admin.topics.delete_topics([topic.id], seconds=0.1)
    assert results == {topic.id: None}
    assert "t" not in one.image.topics
    assert await one.store.exists("/brokers/topics/t") is not None
    two.replicas.answers.set()
    await world.until(lambda: not one.controller.term.context.deletions)
    assert await one.store.exists("/brokers/topics/t") is None
    assert await one.store.children("/admin/delete_topics") == []
    assert one.replicas.stopped == two.replicas.stopped == {T0: True, TopicPartition("t", 1): True}
    assert two.replicas.leaders[T0] == -2
    again = await world.create("t", (2, 1))
    assert again.id != topic.id
    await world.settled()


async def test_a_broker_that_is_down_delays_a_deletion_and_no_more(world: World) -> None:
    one, _ = await world.start(1, 2)
    topic = await world.create("t", (1, 2))
    await world.stop(2)
    await world.until(lambda: 2 not in one.controller.term.context.brokers)
    await one.admin.topics.delete_topics([topic.id])
    await world.until(lambda: one.replicas.stopped == {T0: True})
    assert "t" not in one.image.topics
    results = await one.admin.topics.create_topics([NewTopic("t", 1)])
    refused = results["t"]
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert refused.message == "Topic 't' is marked for deletion."
    (two,) = await world.start(2)
    await world.until(lambda: not one.controller.term.context.deletions)
    assert two.replicas.stopped == {T0: True}
    await world.create("t", (2, 1))


async def test_a_broker_that_starts_while_a_deletion_is_delayed_does_not_show_the_topic(world: World) -> None:
    one, _ = await world.start(1, 2)
    topic = await world.create("t", (1, 2))
    await world.stop(2)
    await world.until(lambda: 2 not in one.controller.term.context.brokers)
    await one.admin.topics.delete_topics([topic.id])
    await world.until(lambda: one.replicas.stopped == {T0: True})
    (three,) = await world.start(3)
    assert "t" not in three.image.topics
    await world.stop(1)
    await world.until(lambda: world.controller is three and three.controller.term.has_begun)
    (two,) = await world.start(2)
    assert "t" not in two.image.topics
    (one,) = await world.start(1)
    await world.until(lambda: "t" in three.controller.term.context.deletions)
    await world.until(lambda: not three.controller.term.context.deletions)
    assert two.replicas.stopped == one.replicas.stopped == {T0: True}
    assert await three.store.children("/brokers/topics") == []


async def test_a_deletion_goes_on_under_the_next_controller(world: World) -> None:
    one, two, three = await world.start(1, 2, 3)
    topic = await world.create("t", (2, 3), (3, 2))
    three.replicas.answers.clear()
    await one.admin.topics.delete_topics([topic.id], seconds=0)
    await world.stop(1)
    three.replicas.answers.set()
    await world.until(lambda: all(member.replicas.stopped.get(T0) for member in (two, three)))
    await world.until(lambda: not world.controller.controller.term.context.deletions)
    assert await two.store.children("/brokers/topics") == []
    assert await two.store.children("/admin/delete_topics") == []


async def test_a_request_that_waits_for_its_turn_is_refused_by_a_new_term_of_office(world: World) -> None:
    one, *_ = await world.start(1, 2)
    topic = await world.create("t", (2, 1))
    async with one.turn:
        waiting = [
            asyncio.ensure_future(each)
            for each in (
                one.admin.topics.delete_topics([topic.id]),
                one.admin.topics.create_topics([NewTopic("u", 1)]),
                one.admin.topics.create_partitions([MorePartitions("t", 2)]),
            )
        ]
        await world.until(lambda: len(one.turn._waiters or ()) == len(waiting))
        world.controller.controller.elected()  # it knows no brokers yet
    errors = await asyncio.gather(*waiting, return_exceptions=True)
    assert [getattr(each, "code", each) for each in errors] == [ErrorCode.NOT_CONTROLLER] * 3
    assert await one.store.children("/admin/delete_topics") == []


async def test_a_topic_that_another_session_marks_is_deleted(world: World) -> None:
    one, two = await world.start(1, 2)
    await world.create("t", (1, 2))
    await two.store.create("/admin/delete_topics/t")
    await two.store.create("/admin/delete_topics/unknown")
    await world.until(lambda: one.replicas.stopped == {T0: True} == two.replicas.stopped)
    await world.until(lambda: not one.controller.term.context.deletions and "t" not in two.image.topics)
    await world.create("t", (1, 2))
    assert await one.store.children("/admin/delete_topics") == []


async def test_replicas_of_a_topic_whose_nodes_somebody_deletes_are_deleted_too(world: World) -> None:
    one, two = await world.start(1, 2)
    await world.create("t", (1, 2))
    for path in [*reversed(await two.store.subtree("/brokers/topics/t")), "/brokers/topics/t"]:
        await two.store.delete(path)
    await world.until(lambda: one.replicas.stopped == {T0: True} == two.replicas.stopped)


async def test_the_nodes_of_a_topic_may_be_deleted_one_by_one_and_slowly(world: World) -> None:
    one, two = await world.start(1, 2)
    await world.create("t", (1, 2), (2, 1))
    await world.settled()
    others: set[str] = set()
    for path in [*reversed(await two.store.subtree("/brokers/topics/t")), "/brokers/topics/t"]:
        await two.store.delete(path)
        others.add(other := f"after-{len(others)}")
        await world.create(other, (1, 2))
        await world.led_by(1, other)  # the controller has acted on all that came before
    t1 = TopicPartition("t", 1)
    await world.until(lambda: one.replicas.stopped == {T0: True, t1: True} == two.replicas.stopped)
    assert set(await two.store.children("/brokers/topics")) == others


# --- brokers ---------------------------------------------------------------------------------------


async def test_another_in_sync_replica_leads_when_the_leader_is_gone(world: World) -> None:
    one, _, three = await world.start(1, 2, 3)
    await world.create("t", (2, 3, 1))
    await world.stop(2)
    state = await world.led_by(3)
    assert (state.isr, state.leader_epoch, state.version) == ((3, 1), 1, 1)
    await world.settled()
    await world.until(lambda: one.replicas.offline[T0] == three.replicas.offline[T0] == [2])
    (two,) = await world.start(2)
    await world.settled()
    assert world.state().leader == 3
    assert world.state().isr == (3, 1)
    await world.until(lambda: two.replicas.told[T0].leader == 3 and two.replicas.leaders[T0] == 3)
    assert not two.replicas.told[T0].is_new
    await world.until(lambda: one.replicas.offline[T0] == [])


async def test_the_last_replica_in_sync_leads_again_when_it_is_back_and_no_other_does(world: World) -> None:
    one, _, _ = await world.start(1, 2, 3)
    await world.create("t", (2, 3))
    await world.stop(3)
    await world.until(lambda: world.state().isr == (2,))
    await world.stop(2)
    state = await world.led_by(NO_LEADER)
    assert state.isr == (2,)
    await world.start(3)
    await world.until(lambda: 3 in one.controller.term.context.brokers)
    await world.settled()
    assert world.state() == state
    await world.start(2)
    again = await world.led_by(2)
    assert again.isr == (2,)
    assert again.leader_epoch == state.leader_epoch + 1


async def test_all_replicas_that_were_in_sync_may_lead_after_all_are_gone(world: World) -> None:
    one, _, _ = await world.start(1, 2, 3)
    await world.create("t", (2, 3))
    async with one.turn:  # both go before the controller looks
        await world.stop(2, 3)
    state = await world.led_by(NO_LEADER)
    assert state.isr == (2, 3)
    await world.start(3)
    assert (await world.led_by(3)).isr == (3,)


async def test_a_replica_that_is_not_in_sync_leads_if_the_topic_allows_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    one, _, _ = await world.start(1, 2, 3)
    await world.create("t", (2, 3))
    await world.create("u", (2, 3), unclean_leader_election_enable="true")
    await world.stop(3)
    await world.until(lambda: world.state().isr == (2,) == world.state("u").isr)
    await world.start(3)
    await world.settled()
    await world.stop(2)
    assert (await world.led_by(3, "u")).isr == (3,)
    assert world.state("u").recovery_state == 1
    assert world.state().leader == NO_LEADER
    assert "Unclean election: broker 3 leads u-0" in caplog.text
    data = json.loads((await one.store.get("/brokers/topics/u/partitions/0/state")).data)
    assert data["leader_recovery_state"] == 1


async def test_an_offline_partition_is_led_uncleanly_as_soon_as_its_topic_allows_it(world: World) -> None:
    one, _, _ = await world.start(1, 2, 3)
    await world.create("t", (2, 3))
    await world.stop(3)
    await world.until(lambda: world.state().isr == (2,))
    await world.start(3)
    await world.settled()
    await world.stop(2)
    await world.led_by(NO_LEADER)
    configs = znodes.encode_config({"unclean.leader.election.enable": "true"})
    await world.members[3].store.set("/config/topics/t", configs)
    assert (await world.led_by(3)).recovery_state == 1
    assert one.image.topics["t"].configs


async def test_offline_partitions_are_led_uncleanly_as_soon_as_that_is_the_default(world: World) -> None:
    await world.start(1, 2, 3)
    await world.create("t", (2, 3))
    await world.create("u", (2, 3), unclean_leader_election_enable="false")
    await world.stop(3)
    await world.until(lambda: world.state().isr == (2,) == world.state("u").isr)
    await world.start(3)
    await world.settled()
    await world.stop(2)
    await world.led_by(NO_LEADER)
    configs = znodes.encode_config({"unclean.leader.election.enable": "true"})
    await world.members[3].store.create("/config/brokers/<default>", configs)
    assert (await world.led_by(3)).recovery_state == 1
    assert (await world.led_by(NO_LEADER, "u")).isr == (2,)


async def test_a_leader_that_comes_back_before_anybody_noticed_leads_in_a_new_epoch(world: World) -> None:
    one, two = await world.start(1, 2)
    await world.create("t", (2,))
    before = two.epoch
    async with one.turn:  # the controller sees only that the epoch is another one
        await world.stop(2)
        (two,) = await world.start(2)
    assert two.epoch > before
    state = await world.led_by(2)
    await world.until(lambda: world.state().leader_epoch == 1)
    assert state.isr == (2,)
    await world.until(lambda: two.replicas.led(2) == {T0: 1})


async def test_a_broker_that_started_anew_rejoins_the_in_sync_replicas_only_when_it_caught_up(
    world: World,
) -> None:
    one, _, _ = await world.start(1, 2, 3)
    await world.create("t", (2, 3, 1))
    async with one.turn:
        await world.stop(2)
        await world.start(2)
    state = await world.led_by(3)
    assert state.isr == (3, 1)
    await world.settled()


async def test_after_the_whole_cluster_started_anew_every_partition_has_a_new_epoch(world: World) -> None:
    await world.start(1, 2)
    await world.create("t", (1, 2), (2, 1))
    await world.create("u", (2,))
    assert world.state("u").leader_epoch == 0
    await world.stop(2, 1)
    await world.start(2, 1)
    await world.settled()
    await world.until(lambda: all(world.state("t", index).leader > 0 for index in range(2)))
    assert world.state("t", 0).leader_epoch > 0 < world.state("t", 1).leader_epoch
    assert (await world.led_by(2, "u")).leader_epoch > 0


async def test_a_new_controller_gives_new_epochs_to_those_leaders_only_that_started_anew(
    world: World,
) -> None:
    one, _, _ = await world.start(1, 2, 3)
    await world.create("t", (2,), (3,))
    await world.until(lambda: one.controller.term.acted_on == {m.id: m.epoch for m in world.members.values()})
    turn = one.turn
    await turn.acquire()  # the controller does not act any more
    await world.stop(2)
    await world.start(2)
    turn.release()
    one.controller.resigned()
    await world.stop(1)
    await world.until(lambda: world.controller)
    await world.settled()
    assert world.state("t", 0).leader_epoch == 1
    assert world.state("t", 1).leader_epoch == 0
    assert (world.state("t", 0).leader, world.state("t", 1).leader) == (2, 3)


@pytest.mark.parametrize("path", [znodes.CONTROLLER, znodes.FEATURE])
@pytest.mark.parametrize("is_made", [False, True])
async def test_a_connection_lost_between_registration_and_election_does_not_end_the_broker(
    world: World, caplog: pytest.LogCaptureFixture, path: str, is_made: bool
) -> None:
    left = 2

    def loses_answer(operations: Sequence[Operation]) -> bool | None:
        nonlocal left
        if not left or all(operation.path != path for operation in operations):
            return None
        left -= 1
        return is_made

    def prepare(member: Member) -> None:
        member.loses_answer = loses_answer

    world.prepare = prepare
    await world.start(1)
    assert "cannot take part in the controller's election: the connection was lost" in caplog.text
    await world.until(lambda: world.controller.controller)
    await world.create("t", [1])
    await world.led_by(1)
    assert not [record for record in caplog.records if record.exc_info]


async def test_the_next_controller_knows_and_tells_the_same(world: World) -> None:
    await world.start(1, 2, 3)
    await world.create("t", (1, 2, 3), (2, 3, 1), (3, 1, 2))
    await world.stop(1)
    await world.until(lambda: world.controller.id in (2, 3) and world.state().leader == 2)
    await world.settled()
    assert [world.state("t", index).leader for index in range(3)] == [2, 2, 3]
    assert (await world.controller.store.get("/controller_epoch")).data == b"2"
    assert world.controller.replicas.requests[-1].controller_epoch == 2
    await world.create("u", (3, 2))
    await world.settled()


async def test_what_a_broker_is_not_told_while_it_cannot_be_reached_it_is_told_later(world: World) -> None:
    one, two = await world.start(1, 2)
    world.unreachable.add(2)
    new = NewTopic("t", assignments=[(0, (1, 2))])
    await one.admin.topics.create_topics([new])
    assert not two.replicas.told
    world.unreachable.clear()
    await world.settled()


async def test_requests_carry_the_epochs_of_the_controller_and_of_the_broker(world: World) -> None:
    one, two = await world.start(1, 2)
    topic = await world.create("t", (2, 1))
    await world.until(lambda: two.replicas.leaders[T0] == 2)
    (leader_and_isr,) = (each for each in two.replicas.requests if isinstance(each, LeaderAndIsrRequest))
    assert leader_and_isr.controller_id == 1
    assert leader_and_isr.controller_epoch == 1
    assert leader_and_isr.broker_epoch == two.epoch
    assert leader_and_isr.type == 0
    assert not leader_and_isr.is_kraft_controller
    assert leader_and_isr.topic_states[0].topic_id == topic.id
    (leader,) = leader_and_isr.live_leaders
    assert (leader.broker_id, leader.host_name, leader.port) == (2, "localhost", 9093)
    update = [each for each in two.replicas.requests if isinstance(each, UpdateMetadataRequest)][-1]
    assert [broker.id for broker in update.live_brokers] == [1, 2]
    assert update.broker_epoch == two.epoch
    assert one.image.topics["t"].id == update.topic_states[0].topic_id


# --- log directories that fail ---------------------------------------------------------------------


async def test_a_replica_whose_directory_failed_is_offline_until_its_broker_starts_anew(world: World) -> None:
    one, two, _ = await world.start(1, 2, 3)
    await world.create("t", (2, 3))
    await world.create("u", (2,))
    two.replicas.failed = {T0, TopicPartition("u", 0)}
    two.admin.replicas_changed()
    state = await world.led_by(3)
    assert state.isr == (3,)
    assert (await world.led_by(NO_LEADER, "u")).isr == (2,)
    await world.until(lambda: two.replicas.stopped == {T0: False, TopicPartition("u", 0): False})
    await world.until(lambda: one.replicas.offline[T0] == [2])
    async with one.turn:
        assert await two.store.children(znodes.LOG_DIR_EVENTS) == []
    await world.stop(2)
    await world.start(2)
    assert (await world.led_by(2, "u")).isr == (2,)
    await world.settled()


async def test_a_replica_that_has_room_again_is_online_without_a_restart(world: World) -> None:
    one, two, _ = await world.start(1, 2, 3)
    await world.create("t", (2, 3))
    await world.create("u", (2,))
    two.replicas.failed = {T0, TopicPartition("u", 0)}
    two.admin.replicas_changed()
    await world.led_by(3)
    await world.led_by(NO_LEADER, "u")
    await world.until(lambda: one.replicas.offline[T0] == [2])
    two.replicas.failed = set()
    two.admin.replicas_changed()
    assert (await world.led_by(2, "u")).isr == (2,)
    await world.until(lambda: one.replicas.offline[T0] == [])
    assert two.replicas.told[T0].leader == 3
    await world.settled()


async def test_a_deletion_does_not_wait_until_a_replica_has_room(world: World) -> None:
    one, two = await world.start(1, 2)
    topic = await world.create("t", (1, 2))
    two.replicas.failed = {T0}
    two.admin.replicas_changed()
    await world.until(lambda: one.replicas.offline[T0] == [2])
    two.replicas.failed = set()  # deleting takes no room
    await one.admin.topics.delete_topics([topic.id])
    await world.until(lambda: not one.controller.term.context.deletions)
    assert two.replicas.stopped == {T0: True}


async def test_the_controller_hears_of_its_own_failed_directories(world: World) -> None:
    one, _ = await world.start(1, 2)
    await world.create("t", (1, 2))
    one.replicas.failed = {T0}
    one.admin.replicas_changed()
    assert (await world.led_by(2)).isr == (2,)


# --- changes by hand -------------------------------------------------------------------------------


async def test_a_state_that_somebody_writes_by_hand_is_told_to_the_replicas(world: World) -> None:
    _, two = await world.start(1, 2)
    await world.create("t", (1, 2))
    data = znodes.encode_state(LeaderAndIsr(2, 7, (2, 1), 1))
    await two.store.set("/brokers/topics/t/partitions/0/state", data)
    state = await world.led_by(2)
    assert state.leader_epoch == 7
    await world.settled()


async def until_empty(store: MetadataStore, path: str) -> None:
    """Wait until a node has no children any more."""
    async with asyncio.timeout(10):
        while True:
            changed = asyncio.Event()
            if not await store.children(path, lambda _, changed=changed: changed.set()):  # type: ignore[misc]
                return
            await changed.wait()


async def test_the_notices_of_leaders_that_change_the_isr_themselves_are_taken(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers with an old protocol write the state, and then a notice.

    Old is an `inter.broker.protocol.version` below 2.7.
    """
    one, two = await world.start(1, 2)
    await world.create("t", (1, 2))
    prefix = f"{znodes.ISR_CHANGES}/isr_change_"
    before = world.state()
    state = LeaderAndIsr(before.leader, before.leader_epoch, (1,), before.controller_epoch)
    other = await EmbeddedStore.open(world.path / "metadata.db", sync=False)
    await other.set("/brokers/topics/t/partitions/0/state", znodes.encode_state(state))
    partitions = [{"topic": "t", "partition": 0}, {"topic": "gone", "partition": 3}]
    notice = json.dumps({"version": 1, "partitions": partitions}).encode()
    for data in (notice, b"nonsense", notice):
        await other.create(prefix, data, sequence=True)
    await world.until(lambda: world.state().isr == (1,))
    await world.until(lambda: one.replicas.told[T0].isr == [1] and two.replicas.told[T0].isr == [1])
    await until_empty(other, znodes.ISR_CHANGES)
    await world.settled()
    await other.close()
    assert caplog.text.count("a notice is ignored") == 1


async def test_a_new_controller_takes_the_notices_that_it_finds(world: World) -> None:
    await world.start(1)
    await world.stop(1)
    store = await EmbeddedStore.open(world.path / "metadata.db", sync=False)
    await store.create(f"{znodes.ISR_CHANGES}/isr_change_", b"nonsense", sequence=True)
    await world.start(2)
    await until_empty(store, znodes.ISR_CHANGES)
    await store.close()


async def test_the_image_is_that_of_the_tree(world: World) -> None:
    one, _ = await world.start(1, 2)
    await world.create("t", (1, 2), (2, 1))
    await world.create("u", (2,))
    await world.stop(2)
    await world.led_by(NO_LEADER, "u")
    await one.admin.topics.delete_topics([one.image.topics["t"].id])
    assert "u" in one.image.topics
    tree = await one.store.subtree("/")
    assert read_image(tree).topics["u"] == one.image.topics["u"]


# --- shutdown, producer ids ------------------------------------------------------------------------


async def test_a_broker_that_shuts_down_hands_over_what_it_leads(world: World) -> None:
    one, two, _ = await world.start(1, 2, 3)
    await world.create("t", (2, 3), (3, 2), (2, 1))
    await world.create("u", (2,))
    request = ControlledShutdownRequest(broker_id=2, broker_epoch=two.epoch)
    response = await one.controller.controlled_shutdown(request)
    assert response.error_code == ErrorCode.NONE
    assert response.remaining_partitions == []
    states = [*(world.state("t", index) for index in range(3)), world.state("u")]
    assert [(state.leader, state.isr) for state in states] == [(3, (3,)), (3, (3,)), (1, (1,)), (2, (2,))]
    await world.until(lambda: two.replicas.stopped == {TopicPartition("t", 1): False})
    assert two.replicas.told[T0].leader == 3


async def test_a_broker_that_shuts_down_hears_what_nobody_else_can_lead(world: World) -> None:
    one, two, _ = await world.start(1, 2, 3)
    await world.create("t", (2, 3))
    await world.stop(3)
    await world.until(lambda: world.state().isr == (2,))
    request = ControlledShutdownRequest(broker_id=2, broker_epoch=two.epoch)
    response = await one.controller.controlled_shutdown(request)
    assert [(each.topic_name, each.partition_index) for each in response.remaining_partitions] == [("t", 0)]


@pytest.mark.parametrize(
    ("broker_id", "epoch_offset", "code"),
    [(9, 0, ErrorCode.BROKER_NOT_AVAILABLE), (2, -1, ErrorCode.STALE_BROKER_EPOCH)],
)
async def test_only_a_live_broker_can_shut_down(
    world: World, broker_id: int, epoch_offset: int, code: ErrorCode
) -> None:
    one, two = await world.start(1, 2)
    request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=two.epoch + epoch_offset)
    with pytest.raises(KafkaError) as caught:
        await one.controller.controlled_shutdown(request)
    assert caught.value.code is code


async def test_producer_ids_are_reserved_for_the_broker_that_asks(world: World) -> None:
    one, two = await world.start(1, 2)
    request = AllocateProducerIdsRequest(broker_id=2, broker_epoch=two.epoch)
    first = await one.controller.allocate_producer_ids(request)
    second = await one.controller.allocate_producer_ids(request)
    assert (first.producer_id_start, first.producer_id_len) == (0, 1000)
    assert second.producer_id_start == 1000
    block = znodes.decode_producer_id_block((await one.store.get(znodes.PRODUCER_ID_BLOCK)).data)
    assert block == (2, 1000, 1999)
    for broker_id, epoch, code in (
        (9, 1, ErrorCode.BROKER_ID_NOT_REGISTERED),
        (2, 1, ErrorCode.STALE_BROKER_EPOCH),
    ):
        with pytest.raises(KafkaError) as caught:
            await one.controller.allocate_producer_ids(
                AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)
            )
        assert caught.value.code is code


async def test_a_broker_that_is_not_the_controller_says_so(world: World) -> None:
    _, two = await world.start(1, 2)
    with pytest.raises(KafkaError) as caught:
        two.admin.active_controller()
    assert caught.value.code is ErrorCode.NOT_CONTROLLER


async def test_a_controller_of_an_earlier_epoch_tells_nobody_anything(world: World) -> None:
    one, two = await world.start(1, 2)
    await two.store.set("/controller_epoch", b"7")
    results: Any = await one.admin.topics.create_topics([NewTopic("t", 1)])
    assert results["t"].code is ErrorCode.NOT_CONTROLLER
    await world.until(lambda: world.controller.admin.writer.controller_epoch == 8)
    await world.create("u", (2, 1))
    await world.settled()
    assert not any(isinstance(each, StopReplicaRequest) for each in two.replicas.requests)
