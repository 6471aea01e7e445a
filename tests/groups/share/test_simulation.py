"""A random schedule of everything that happens to a share group.

Its invariants are checked after each step.
"""

from __future__ import annotations

import itertools
import random
from typing import Final

import pytest

from kafkapy.groups.share.group import ShareGroup
from kafkapy.protocol.errors import ErrorCode
from tests.groups.share.share_world import Member, ShareWorld

STEPS: Final = 1000
STORED_EVERY: Final = 100
"""The steps after which what is in memory is compared with the log, which takes long."""
SUBSCRIPTIONS: Final = (("a",), ("a", "b"), ("b", "c"), ("c",), ("a", "b", "c"))


class Simulation:
    """Members come, change their minds, crash and leave.

    Topics, coordinators and logs fail and return.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        interval = self.random.choice((0, 1000))
        self.world = ShareWorld(share_assignment_interval_ms=interval)
        self.members: list[Member] = []
        self.epoch = 0
        self._ids = itertools.count()

    async def run(self) -> None:
        await self.world.start()
        self.world.topic("a", 3)
        self.world.topic("b", 2)
        for step in range(STEPS):
            await self.step()
            self.check()
            if step % STORED_EVERY == 0:
                self.world.check()
        await self.converge()

    async def step(self) -> None:
        roll, world = self.random.random(), self.world
        if roll < 0.12 or not self.members:
            self.members.append(Member(world, f"m{next(self._ids)}", self.random.choice(SUBSCRIPTIONS)))
            await self.members[-1].heartbeat()
        elif roll < 0.6:
            await self.random.choice(self.members).heartbeat()
        elif roll < 0.66:
            await self.members.pop(self.random.randrange(len(self.members))).leave()
        elif roll < 0.71:
            self.members.pop(self.random.randrange(len(self.members)))  # it crashes
        elif roll < 0.8:
            await self.pass_time(self.random.uniform(0, 20))
        elif roll < 0.85:
            member = self.random.choice(self.members)
            member.topics, member.must_tell_all = self.random.choice(SUBSCRIPTIONS), True
        elif roll < 0.9:
            self.change_topics()
        elif roll < 0.93:
            world.states.error = self.random.choice((ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        elif roll < 0.96:
            world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
            await self.random.choice(self.members).heartbeat()
            world.log.error = ErrorCode.NONE
        elif roll < 0.98:
            await world.restart()

    def change_topics(self) -> None:
        topics = self.world.image.topics
        if "c" in topics and self.random.random() < 0.5:
            self.world.delete_topic("c")
        else:
            name = self.random.choice("abc")
            self.world.topic(name, min(len(topics[name].partitions) + 1, 9) if name in topics else 2)

    async def pass_time(self, seconds: float) -> None:
        await self.world.advance(seconds)
        for member in self.members:
            if self.world.clock.monotonic() - member.last_heard > 20:
                await member.heartbeat()

    async def converge(self) -> None:
        """Without further changes every partition that somebody subscribes to has a member."""
        self.world.states.error = ErrorCode.NONE
        for _ in range(16):
            await self.pass_time(5)
            for member in self.members:
                await member.heartbeat()
            self.check()
        topics = self.world.image.topics
        wanted = {
            (topics[name].id, partition)
            for member in self.members
            for name in member.topics
            if name in topics
            for partition in range(len(topics[name].partitions))
        }
        assert set().union(*(member.assigned for member in self.members)) == wanted
        for topic, partition in wanted:
            assert ("g", topic, partition) in self.world.states.offsets

    def check(self) -> None:
        group = self.world.groups.groups.get("g")
        if isinstance(group, ShareGroup):
            group.check()
            assert group.epoch >= self.epoch, "the epoch never goes back"
            self.epoch = group.epoch
            initialized = group.state_partitions.initialized
            for topic, (_, partitions) in initialized.items():
                for each in partitions:
                    assert ("g", topic, each) in self.world.states.offsets


@pytest.mark.parametrize("seed", range(4))
async def test_every_partition_finds_a_member(seed: int) -> None:
    simulation = Simulation(seed)
    await simulation.run()
    await simulation.world.groups.stop()
