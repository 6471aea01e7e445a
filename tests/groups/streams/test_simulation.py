"""Streams groups under a random schedule.

Members join, leave and crash, threads are slow and writes fail.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from kafkapy.groups.config import GroupConfig
from kafkapy.groups.streams.group import StreamsGroup, StreamsGroupState
from kafkapy.groups.streams.tasks import Task
from kafkapy.protocol.errors import ErrorCode, KafkaError
from tests.groups.streams.streams_world import (
    REBALANCE_MS,
    SimulatedThread,
    StreamsWorld,
    subtopology,
    topology,
)

STEPS = 2000
SESSION = 45.0
TOPOLOGY = topology(
    subtopology("0", ["a", "b"], sinks=["g-words-repartition"]),
    subtopology("1", repartition=["g-words-repartition"], changelogs=["g-words-changelog"]),
    subtopology("2", ["c"], changelogs=["g-c-changelog"]),
)
STATEFUL = ("1", "2")
SIZES = {"a": 3, "b": 2, "c": 2}
LARGEST = 7


class Simulation:
    """The world, its threads, and what must hold after each step."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = StreamsWorld(
            GroupConfig(
                streams_assignment_interval_ms=self.random.choice((0, 1000)),
                streams_initial_rebalance_delay_ms=self.random.choice((0, 3000)),
                offsets_retention_check_interval_ms=10**12,  # an empty group would be removed
            )
        )
        self.threads: list[SimulatedThread] = []
        self.epochs = 0, 0
        self.sizes = dict(SIZES)
        self.standbys = 0
        self.seen: Counter[str] = Counter()
        self._ids = itertools.count()

    async def run(self, steps: int) -> None:
        world = self.world
        await world.start()
        for name, count in self.sizes.items():
            world.topic(name, count)
        for step in range(steps):
            await self.step()
            self.check()
            if step % 50 == 0:
                world.check_app_stored()
            if step % 500 == 499:
                await self.converge()

    @property
    def alive(self) -> list[SimulatedThread]:
        return [thread for thread in self.threads if thread.is_alive]

    async def step(self) -> None:
        roll, world = self.random.random(), self.world
        alive = self.alive
        if roll < 0.58:
            await self.beat_one()
        elif roll < 0.72:
            await self.pass_time(self.random.choice((0.1, 1.0, 5.0)))
        elif roll < 0.79:
            if len(alive) < 8:
                await self.join()
        elif roll < 0.84:
            if alive:
                await self.random.choice(alive).leave()
        elif roll < 0.87:
            if alive:
                self.random.choice(alive).crash()
        elif roll < 0.90:
            if alive:
                thread = self.random.choice(alive)
                thread.is_slow = not thread.is_slow
        elif roll < 0.93:
            self.change_topics()
        elif roll < 0.94:
            self.standbys = self.random.choice((0, 1, 2))
            world.standbys(self.standbys)
        elif roll < 0.96:
            if alive:
                world.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
                await self.beat_one()
                world.log.error = ErrorCode.NONE
        elif roll < 0.97:
            await world.restart()
        elif roll < 0.98:
            await self.expire()
        else:
            await self.be_slow()

    async def beat_one(self) -> None:
        if self.alive:
            error = await self.random.choice(self.alive).heartbeat()
            self.seen[error.name] += 1
            if self.random.random() < 0.7:
                self.world.create_wanted()

    async def join(self) -> None:
        process = f"p{self.random.randrange(4)}"
        thread = SimulatedThread(self.world, f"m{next(self._ids)}", process, TOPOLOGY)
        if self.random.random() < 0.5:
            thread.endpoint = process, 7000
        self.threads.append(thread)
        await thread.heartbeat()

    def change_topics(self) -> None:
        """Delete a topic or create it again, or give a source topic more partitions."""
        topics, name = self.world.image.topics, self.random.choice("abc")
        if name not in topics:
            self.world.topic(name, self.sizes[name])
        elif self.random.random() < 0.5:
            self.sizes[name] = min(self.sizes[name] + 1, LARGEST)
            self.world.topic(name, self.sizes[name])
        else:
            self.world.delete_topic(name)

    async def pass_time(self, seconds: float) -> None:
        """Let time pass; threads that are alive are not silent for a session."""
        await self.world.advance(seconds)
        for thread in self.alive:
            if self.world.clock.monotonic() - thread.last_heard > SESSION / 2:
                await thread.heartbeat()
                self.check()

    async def expire(self) -> None:
        """Let the sessions of those end who crashed."""
        for _ in range(10):
            await self.pass_time(5.0)

    async def be_slow(self) -> None:
        """Let the rebalance timeout of those pass who do not close tasks."""
        running = [thread for thread in self.alive if thread.active]
        if running:
            self.random.choice(running).is_slow = True
            await self.join()  # so there is something to give up
        for _ in range(REBALANCE_MS // 5000 + 1):
            await self.world.advance(5.0)
            for thread in self.alive:
                error = await thread.heartbeat()
                self.seen["slow" if thread.is_slow and error else error.name] += 1
                self.check()

    async def converge(self) -> None:
        """Without further changes every task runs, with its standby tasks."""
        world = self.world
        for thread in self.alive:
            thread.is_slow = False
        for name, count in self.sizes.items():
            world.topic(name, count)
        await self.expire()
        for name in tuple(world.image.topics):
            if name.startswith("g-"):
                world.delete_topic(name)  # they may have too few partitions
        for _ in range(40):
            for thread in self.alive:
                await thread.heartbeat()
                world.create_wanted()
                self.check()
            await world.advance(1.0)
        world.check_app_stored()
        group = world.groups.groups.get("g")
        if not isinstance(group, StreamsGroup) or not self.alive:
            return
        assert group.state is StreamsGroupState.STABLE
        counts = {"0": max(self.sizes["a"], self.sizes["b"]), "2": self.sizes["c"]}
        counts["1"] = counts["0"]
        tasks = {Task(key, number) for key, count in counts.items() for number in range(count)}
        assert Counter(task for thread in self.alive for task in thread.active) == Counter(tasks)
        processes = {thread.process_id for thread in self.alive}
        copies = min(self.standbys, len(processes) - 1)
        assert Counter(task for thread in self.alive for task in thread.standby) == Counter(
            {task: copies for task in tasks if task.subtopology in STATEFUL and copies}
        )
        for thread in self.alive:
            assert thread.statuses == {}
            assert thread.endpoints.keys() == {each.endpoint for each in self.alive if each.endpoint}
        self.seen["converged"] += 1

    def check(self) -> None:
        group = self.world.groups.groups.get("g")
        if not isinstance(group, StreamsGroup):
            return
        group.check()
        epochs = group.epoch, group.assignment_epoch
        assert epochs >= self.epochs, "epochs never go back"
        self.epochs = epochs
        members = [thread for thread in self.alive if thread.member_id in group.members]
        owned = Counter(task for thread in members for task in thread.active)
        assert all(count == 1 for count in owned.values()), "no task is active in two threads"
        copies = Counter(
            (thread.process_id, task) for thread in members for task in (*thread.active, *thread.standby)
        )
        assert all(count == 1 for count in copies.values()), "a process has one copy of a state"
        for thread in self.alive:
            if thread in members:
                self.check_commits(group, thread)
            elif group.members and thread.epoch:
                with pytest.raises(KafkaError):  # it was fenced, and does not know it yet
                    group.validate_offset_commit(thread.member_id, None, thread.epoch, 9)

    def check_commits(self, group: StreamsGroup, thread: SimulatedThread) -> None:
        """A thread may commit for the tasks that it runs, at the epoch that it knows."""
        if thread.epoch == 0:
            return
        check = group.validate_offset_commit(thread.member_id, None, thread.epoch, 9)
        if check is None:
            return
        for subtopology_id, partition in thread.active:
            topic = {"0": "a", "1": "g-words-repartition", "2": "c"}[subtopology_id]
            check(topic, b"", partition)
        others = {task for other in self.alive if other is not thread for task in other.active}
        for subtopology_id, partition in others:
            topic = {"0": "a", "1": "g-words-repartition", "2": "c"}[subtopology_id]
            with pytest.raises(KafkaError):
                check(topic, b"", partition)


@pytest.mark.parametrize("seed", range(4))
async def test_no_task_runs_twice_and_all_tasks_run_in_the_end(seed: int) -> None:
    simulation = Simulation(seed)
    await simulation.run(STEPS)
    await simulation.world.groups.stop()
    assert simulation.seen["converged"] >= 3
    assert simulation.seen["slow"], "threads were fenced that did not close their tasks in time"
