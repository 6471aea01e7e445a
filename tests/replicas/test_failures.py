"""What is acknowledged to acks=all survives, whatever fails.

It does not matter which in-sync replica leads next.
"""

from __future__ import annotations

import asyncio
import random
from itertools import combinations
from pathlib import Path

import pytest

from kafkapy.storage.disk.log_directory import Durability
from tests.replicas.cluster_rig import TP, Rig
from tests.replicas.held_files import until
from tests.storage.log_harness import records_in

NODES = (1, 2, 3)
STEPS = 60


class Chaos:
    """A cluster in which brokers stop, lose each other and lead in turn.

    Records are produced meanwhile.
    """

    def __init__(self, rig: Rig, chance: random.Random) -> None:
        self.rig, self.chance = rig, chance
        self.acknowledged: list[bytes] = []
        self._number = 0
        self._producing: set[asyncio.Task[None]] = set()

    @property
    def _alive(self) -> list[int]:
        return [node for node in NODES if node in self.rig.wire.nodes]

    async def step(self) -> None:
        """Let something happen."""
        action = self.chance.choice(
            [self.produce] * 6 + [self.cut, self.heal, self.elect, self.restart, self.lag]
        )
        outcome = action()
        if outcome is not None:
            await outcome
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0.002)

    def produce(self) -> None:
        leader = self.rig.controller.states[TP].leader
        if leader in self._alive:
            task = asyncio.get_running_loop().create_task(self._produce(leader))
            self._producing.add(task)
            task.add_done_callback(self._producing.discard)

    async def _produce(self, leader: int) -> None:
        self._number += 1
        value = b"value %d" % self._number
        answer = await self.rig[leader].produce(value, timeout_ms=200)
        if not answer.error_code:
            self.acknowledged.append(value)

    def cut(self) -> None:
        self.rig.wire.cut.add(frozenset(self.chance.choice(list(combinations(NODES, 2)))))

    def heal(self) -> None:
        self.rig.wire.cut.clear()

    def lag(self) -> None:
        self.rig.ahead += 2 * self.rig.lag_seconds
        for node in self._alive:
            for leader in self.rig[node].requests.leaders():
                leader.shrink()

    async def elect(self) -> None:
        """Elect one of the replicas in sync; only some brokers hear of it now."""
        state = self.rig.controller.states[TP]
        living = [node for node in state.isr if node in self._alive]
        if living:
            told = [node for node in self._alive if self.chance.random() < 0.8]
            leader = self.chance.choice(living)
            await self.rig.controller.elect(leader, living, tell={leader, *told})

    async def restart(self) -> None:
        """Stop a broker, elect another leader if need be, and start it again."""
        node = self.chance.choice(self._alive)
        self.rig.register([each for each in self._alive if each != node])
        await self.rig[node].stop(clean=self.chance.random() < 0.5)
        state = self.rig.controller.states[TP]
        others = [each for each in state.isr if each in self._alive]
        if others and (state.leader == node or self.chance.random() < 0.5):
            await self.rig.controller.elect(self.chance.choice(others), others)
        self.rig[node].storage.manager = self.rig[node].storage.new_manager()
        self.rig[node].start()
        self.rig.register(self._alive)
        await self.rig.controller.tell((node,))

    async def settle(self) -> None:
        """Let the cluster become whole."""
        self.heal()
        await asyncio.gather(*self._producing)
        living = self.rig.controller.states[TP].isr
        await self.rig.controller.elect(self.chance.choice(living))
        await until(lambda: len(self.rig.controller.states[TP].isr) == len(NODES))
        await self.rig.caught_up(*NODES)


@pytest.mark.parametrize("durability", ["os", "fsync"])
@pytest.mark.parametrize("run", range(6))
async def test_acknowledged_records_survive(
    tmp_path: Path, rigs: list[Rig], run: int, durability: Durability
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    rigs.append(rig := Rig(tmp_path, 3, durability=durability))
    await rig.lead(configs={"min.insync.replicas": "2"} if run % 2 else None)
    chaos = Chaos(rig, random.Random(seed))
    for _ in range(STEPS):
        await chaos.step()
    await chaos.settle()
    found = [record.value for record in records_in(rig[1].content)]
    assert [value for value in chaos.acknowledged if value not in found] == [], f"seed {seed}"
    assert rig[1].content == rig[2].content == rig[3].content, f"seed {seed}"
    assert len(chaos.acknowledged) > 0, f"seed {seed}"
