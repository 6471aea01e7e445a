"""Consumer groups under a random schedule.

Members join, leave, crash and commit offsets, topics change, and writes fail.
"""

from __future__ import annotations

import itertools
import random

import pytest

from kafkapy.groups.config import GroupConfig
from kafkapy.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from kafkapy.protocol.errors import ErrorCode
from tests.groups.consumer.consumer_world import ConsumerWorld, SimulatedConsumer
from tests.groups.consumer.simulated_commits import SimulatedCommits

STEPS = 1500
SESSION = 45.0
SUBSCRIPTIONS = (("a",), ("b",), ("a", "b"), ("a", "b", "c"), ("missing",))
REGEXES = ("a|c", "[ab]", ".*", "x+")


class Simulation:
    """The world, its consumers, and what must hold after each step."""

    def __init__(self, seed: int, assignors: tuple[str, ...]) -> None:
        self.random = random.Random(seed)
        self.world = ConsumerWorld(
            GroupConfig(
                consumer_assignment_interval_ms=self.random.choice((0, 1000)),
                consumer_assignors=assignors,
                offsets_retention_check_interval_ms=10**12,  # an empty group would be removed
            )
        )
        self.consumers: list[SimulatedConsumer] = []
        self.epochs = 0, 0
        self.commits = SimulatedCommits(self.world, self.random, ("a", "b"))
        self._ids = itertools.count()

    async def run(self, steps: int) -> None:
        world = self.world
        await world.start()
        for name, count in (("a", 5), ("b", 3)):
            world.topic(name, count)
        for step in range(steps):
            await self.step()
            self.check()
            self.commits.somebody_commits(self.alive)
            if step % 50 == 0:
                world.check_stored()
                self.commits.check()
            if step % 300 == 299:
                await self.converge()

    @property
    def alive(self) -> list[SimulatedConsumer]:
        return [consumer for consumer in self.consumers if consumer.is_alive]

    async def step(self) -> None:
        roll, world = self.random.random(), self.world
        alive = self.alive
        if roll < 0.60:
            if alive:
                await self.random.choice(alive).heartbeat()
        elif roll < 0.75:
            await self.pass_time(self.random.choice((0.1, 1.0, 5.0)))
        elif roll < 0.82:
            if len(alive) < 8:
                await self.join()
        elif roll < 0.87:
            if alive:
                consumer = self.random.choice(alive)
                self.commits.goes(consumer)
                await consumer.leave()
        elif roll < 0.90:
            if alive:
                consumer = self.random.choice(alive)
                self.commits.goes(consumer)
                consumer.crash()
        elif roll < 0.93:
            if alive:
                consumer = self.random.choice(alive)
                self.subscribe(consumer)
                consumer.must_tell_all = True
        elif roll < 0.95:
            self.change_topics()
        elif roll < 0.97:
            if alive:
                world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
                await self.random.choice(alive).heartbeat()
                world.log.error = ErrorCode.NONE
        elif roll < 0.98:
            await world.restart()
        else:
            await self.expire()

    async def join(self) -> None:
        away = [
            each.instance_id
            for each in self.consumers
            if each.instance_id is not None
            and all(other.instance_id != each.instance_id for other in self.alive)
        ]
        instance_id = None
        if self.random.random() < 0.4:
            if away and self.random.random() < 0.7:
                instance_id = self.random.choice(away)
            else:
                instance_id = f"i{next(self._ids)}"
        consumer = SimulatedConsumer(self.world, f"m{next(self._ids)}", instance_id=instance_id)
        self.subscribe(consumer)
        self.consumers.append(consumer)
        if await consumer.heartbeat() is ErrorCode.UNRELEASED_INSTANCE_ID:
            consumer.crash()  # the old one crashed, and its session has not expired yet

    def subscribe(self, consumer: SimulatedConsumer) -> None:
        if self.random.random() < 0.3:
            consumer.topics, consumer.regex = (), self.random.choice(REGEXES)
        else:
            consumer.topics, consumer.regex = self.random.choice(SUBSCRIPTIONS), ""

    def change_topics(self) -> None:
        topics = self.world.image.topics
        if "c" in topics and self.random.random() < 0.5:
            self.world.delete_topic("c")
        else:
            name = self.random.choice("abc")
            count = len(topics[name].partitions) + 1 if name in topics else 2
            self.world.topic(name, min(count, 9))

    async def pass_time(self, seconds: float) -> None:
        """Let time pass; consumers that are alive are not silent for a session."""
        await self.world.advance(seconds)
        for consumer in self.alive:
            if self.world.clock.monotonic() - consumer.last_heard > SESSION / 2:
                await consumer.heartbeat()
                self.check()

    async def expire(self) -> None:
        """Let the sessions of those end who crashed."""
        for _ in range(10):
            await self.pass_time(5.0)

    async def converge(self) -> None:
        """Without further changes every member reaches its target.

        Every partition has an owner.
        """
        await self.expire()
        for _ in range(40):
            for consumer in self.alive:
                await consumer.heartbeat()
                self.check()
            await self.world.advance(1.0)
        self.world.check_stored()
        group = self.world.groups.groups.get("g")
        if not isinstance(group, ConsumerGroup):
            return
        if not self.alive:
            return
        assert group.state is ConsumerGroupState.STABLE
        topics = self.world.image.topics
        wanted = {
            (topics[name].id, partition)
            for consumer in self.alive
            for name in group.topics_of(group.members[consumer.member_id])
            if name in topics
            for partition in range(len(topics[name].partitions))
        }
        owned = [each for consumer in self.alive for each in consumer.owned]
        away = [
            (topic, partition)
            for member in group.members.values()
            if member.is_away
            for topic, partitions in member.assigned.items()
            for partition in partitions
        ]
        assert wanted <= {*owned, *away}, "nothing is stranded"
        assert len(owned) == len(set(owned))

    def check(self) -> None:
        owned = [each for consumer in self.alive for each in consumer.owned]
        assert len(owned) == len(set(owned)), "no partition is owned by two members"
        group = self.world.groups.groups.get("g")
        if isinstance(group, ConsumerGroup):
            group.check()
            epochs = group.epoch, group.assignment_epoch
            assert epochs >= self.epochs, "epochs never go back"
            self.epochs = epochs


@pytest.mark.parametrize("assignors", [("uniform",), ("range",)])
@pytest.mark.parametrize("seed", range(4))
async def test_no_partition_has_two_owners_and_all_reach_the_target(
    seed: int, assignors: tuple[str, ...]
) -> None:
    simulation = Simulation(seed, assignors)
    await simulation.run(STEPS)
    assert min(simulation.commits.accepted, simulation.commits.refused) > STEPS / 20
    await simulation.world.groups.stop()
