"""Whatever brokers, clients and chance do, the cluster's metadata stays sound.

Everybody is told.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from kafkapy.controller.elections import ElectionType
from kafkapy.controller.topic_plans import MorePartitions, NewTopic
from kafkapy.metadata.image import NO_LEADER, MetadataImage, PartitionState, read_image
from kafkapy.metadata.store import MetadataStoreError, Operation
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from kafkapy.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from kafkapy.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkapy.protocol.types import TopicPartition
from tests.controller.brokers_world import Member, World

BROKERS = (1, 2, 3, 4)
STEPS = 40


class History:
    """Checks each image that a broker publishes against those that it published before."""

    def __init__(self, broker: int) -> None:
        self._broker = broker
        self._known: dict[tuple[bytes, int], PartitionState] = {}

    def check(self, old: MetadataImage, new: MetadataImage) -> None:
        for name in new.changed_topics(old):
            topic = new.topics.get(name)
            for index, state in enumerate(topic.partitions if topic is not None else ()):
                assert topic is not None
                before = self._known.get((topic.id, index))
                self._check(TopicPartition(name, index), before, state)
                # Others read a topic's node and the states of its partitions one after another.
                if new.controller_id == self._broker:
                    assert set(state.isr) <= set(state.replicas), (name, index, state)
                self._known[topic.id, index] = state

    def _check(self, partition: TopicPartition, before: PartitionState | None, state: PartitionState) -> None:
        if state.version < 0:
            return
        assert state.isr, partition
        assert state.leader in (NO_LEADER, *state.isr), (partition, state)
        if before is not None and before.version >= 0:
            assert state.version >= before.version, (partition, before, state)
            assert state.leader_epoch >= before.leader_epoch, (partition, before, state)
            if state.leader != before.leader:
                assert state.leader_epoch > before.leader_epoch, (partition, before, state)
            # Nobody leads who was not in sync: records would be lost.
            if state.leader not in (NO_LEADER, before.leader) and state.version == before.version + 1:
                assert state.leader in before.isr, (partition, before, state)


class Chaos:
    """Does things to a cluster by chance."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.histories: list[History] = []
        self.failures: list[BaseException] = []
        self.store_fails = False
        world.prepare = self._prepare
        self._led: dict[tuple[bytes, int, int], tuple[Member, int]] = {}
        """For a partition and a broker, the last leader epoch in which it led, and its life then."""

    async def start(self, *node_ids: int) -> None:
        await self.world.start(*node_ids, auto_leader_rebalance_enable="false")

    def _prepare(self, member: Member) -> None:
        history = History(member.id)

        def check(old: MetadataImage, new: MetadataImage) -> None:
            try:
                history.check(old, new)
            except AssertionError as error:
                self.failures.append(error)

        member.cache.follow(check)
        self._check_leadership(member)
        member.loses_answer = self._loses_answer

    def _check_leadership(self, member: Member) -> None:
        """Let a broker that started anew lead only in later epochs than it led in before."""
        leader_and_isr = member.replicas.leader_and_isr

        async def checked(request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
            response = await leader_and_isr(request)
            for topic in request.topic_states:
                for state in topic.partition_states:
                    key = (topic.topic_id, state.partition_index, member.id)
                    incarnation, epoch = self._led.get(key, (member, -1))
                    if state.leader != member.id or response.error_code:
                        continue
                    if incarnation is not member and state.leader_epoch <= epoch:
                        self.failures.append(AssertionError(f"{key} leads again in epoch {epoch}"))
                    self._led[key] = (member, max(epoch, state.leader_epoch))
            return response

        member.replicas.leader_and_isr = checked  # type: ignore[method-assign]

    def _loses_answer(self, operations: Sequence[Operation]) -> bool | None:
        """Let the store fail now and then, before it has made a change or after it."""
        if not self.store_fails or self.chance.random() > 0.05:
            return None
        return self.chance.random() < 0.5

    async def step(self) -> None:
        members = self.world.members
        down = [each for each in BROKERS if each not in members]
        try:
            match self.chance.randrange(12):
                case 0 if len(members) > 1:
                    await self.world.stop(self.chance.choice(list(members)))
                case 1 | 2 if down:
                    await self.start(self.chance.choice(down))
                case 3 if len(members) > 1:
                    bounced = self.chance.choice(list(members))
                    await self.world.stop(bounced)
                    await self.start(bounced)
                case 4:
                    self.world.unreachable = set(self.chance.sample(BROKERS, self.chance.randint(0, 1)))
                case _:
                    await self._ask(await self.world.until(lambda: self.world.controller))
        except (KafkaError, MetadataStoreError):
            return  # the controller is another one now

    async def _ask(self, controller: Member) -> None:
        image, chance = controller.image, self.chance
        topics, live = list(image.topics.values()), list(image.brokers)
        topic = chance.choice(topics) if topics else None
        admin = controller.admin
        if topic is None or chance.random() < 0.25:
            replicas = chance.sample(live, min(len(live), chance.randint(1, 3)))
            new = NewTopic(chance.choice("abcde"), assignments=[(0, replicas), (1, replicas[::-1])])
            await admin.topics.create_topics([new], seconds=0.2)
            return
        index = chance.randrange(len(topic.partitions))
        state = topic.partitions[index]
        partition = TopicPartition(topic.name, index)
        match chance.randrange(7):
            case 0:
                await admin.topics.delete_topics([topic.id], seconds=0.2)
            case 1:
                await admin.topics.create_partitions(
                    [MorePartitions(topic.name, len(topic.partitions) + 1)], seconds=0.2
                )
            case 2:
                await controller.controller.elect_leaders(ElectionType.PREFERRED, [partition], 0.2)
            case 3:
                target = chance.sample(live, min(len(live), chance.randint(1, 3)))
                await controller.controller.alter_reassignments({partition: target}, may_change_factor=True)
            case 4:
                leader = self.world.members.get(state.leader)
                if leader is not None and len(self.world.members) > 1:
                    await controller.controller.controlled_shutdown(
                        ControlledShutdownRequest(broker_id=leader.id, broker_epoch=leader.epoch)
                    )
                    await self.world.stop(leader.id)
            case _:
                await self._alter(controller, topic.id, partition, state)

    async def _alter(
        self, controller: Member, topic_id: bytes, partition: TopicPartition, state: PartitionState
    ) -> None:
        """Let the leader have some replicas in sync."""
        brokers = controller.image.brokers
        if state.leader not in brokers:
            return
        others = [each for each in state.replicas if each != state.leader and each in brokers]
        isr = [state.leader, *(others if self.chance.random() < 0.7 else ())]
        asked = AlterPartitionRequestPartitionData(
            partition_index=partition.partition,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.version,
            new_isr_with_epochs=[
                BrokerState(broker_id=each, broker_epoch=brokers[each].epoch) for each in isr
            ],
        )
        topic = AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[asked])
        await controller.controller.alter_partition(
            AlterPartitionRequest(
                broker_id=state.leader, broker_epoch=brokers[state.leader].epoch, topics=[topic]
            )
        )


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("store_fails", [False, True])
async def test_a_cluster_to_which_anything_happens_is_sound_and_ends_in_agreement(
    world: World,
    seed: int,
    store_fails: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    chaos = Chaos(world, random.Random(seed))
    await chaos.start(1, 2, 3)
    chaos.store_fails = store_fails
    for _ in range(STEPS):
        await chaos.step()
        assert not chaos.failures, chaos.failures[0]
    world.unreachable, chaos.store_fails = set(), False
    for node_id in BROKERS:
        if node_id in world.members:
            await world.stop(node_id)
        await chaos.start(node_id)
    await world.until(lambda: not world.controller.controller.term.context.deletions)
    image = await world.settled()
    assert not chaos.failures, chaos.failures[0]
    tree = read_image(await world.controller.store.subtree("/"))
    assert tree.topics == image.topics
    for name, topic in image.topics.items():
        for index, state in enumerate(topic.partitions):
            assert state.leader in BROKERS, (name, index, state)
    new = NewTopic("last", assignments=[(index, (index + 1,)) for index in range(len(BROKERS))])
    results = await world.controller.admin.topics.create_topics([new])
    assert not isinstance(results["last"], KafkaError) or results["last"].code is ErrorCode.NONE
    await world.settled()
    assert not [record for record in caplog.records if record.exc_info]
    # What is not in the metadata is not on a broker either.
    for member in world.members.values():
        assert all(image_has(world.controller.image, each, member.id) for each in member.replicas.told)


def image_has(image: MetadataImage, partition: TopicPartition, broker: int) -> bool:
    state = image.partition(*partition)
    return state is not None and broker in state.replicas
