"""Whatever happens to brokers and links, aiokafka loses nothing that was acknowledged."""

from __future__ import annotations

import asyncio
import os
import random
from typing import Final

import pytest

from kafkapy import Cluster
from kafkapy.virtual.cluster import End, VirtualCluster
from tests.virtual.orders import TOPIC, consuming, producing, values_of

SEEDS: Final = int(os.environ.get("KAFKAPY_VIRTUAL_SEEDS", "6"))
PARTITIONS: Final = 3
RECORDS: Final = 40
FAULTS: Final = 8
WHAT: Final = ("kill", "power", "pause", "stop", "cut", "one way", "lose", "slow", "reset", "alone")


async def _some_fault(cluster: VirtualCluster, chance: random.Random) -> None:
    """Let something bad happen for a while."""
    broker = chance.choice((1, 2, 3))
    others: list[End] = [1 + broker % 3, 1 + (broker + 1) % 3, "clients", "metadata"]
    end = chance.choice(others)
    seconds = chance.uniform(1, 25)
    what = chance.choice(WHAT)
    if what == "kill":
        cluster.kill(broker)
    elif what == "power":
        cluster.cut_power(broker)
    elif what == "pause":
        cluster.pause(broker)
    elif what == "stop":
        await cluster.stop(broker)
    elif what == "cut":
        cluster.link(broker, end).cut()
    elif what == "one way":
        cluster.link(broker, end, both_ways=False).cut()
    elif what == "lose":
        cluster.links(broker).lose(0.2)
    elif what == "slow":
        cluster.links(broker).slow(latency=0.3, bandwidth=50_000)
    elif what == "reset":
        cluster.link(broker, "clients").reset()
    else:
        cluster.links(broker).cut()
    await asyncio.sleep(seconds)
    cluster.heal()
    cluster.resume(broker)
    await cluster.start()


async def _outages(cluster: VirtualCluster) -> tuple[dict[bytes, int], list[bytes]]:
    """The values that were acknowledged, and how often; all values that are read afterwards."""
    chance = random.Random()
    acknowledged: dict[bytes, int] = {}
    await cluster.create_topics({TOPIC: PARTITIONS})

    async def produce(name: str) -> None:
        async with producing(cluster, enable_idempotence=True, request_timeout_ms=600_000) as producer:
            for number in range(RECORDS):
                value = f"{name}{number}".encode()
                await producer.send_and_wait(TOPIC, value, partition=number % PARTITIONS)
                acknowledged[value] = acknowledged.get(value, 0) + 1
                await asyncio.sleep(chance.uniform(0, 5))

    producing_all = [asyncio.ensure_future(produce(name)) for name in ("a", "b")]
    for _ in range(FAULTS):
        await _some_fault(cluster, chance)
        await asyncio.sleep(chance.uniform(0, 5))
    await asyncio.gather(*producing_all)
    async with consuming(cluster) as consumer:
        return acknowledged, await values_of(consumer, len(acknowledged))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_each_acknowledged_record_is_there_once_and_in_order(seed: int) -> None:
    cluster = Cluster(3, seed=seed, clock="virtual", config={"min.insync.replicas": 2})
    acknowledged, values = cluster.run(_outages)
    assert len(acknowledged) == 2 * RECORDS
    assert sorted(values) == sorted(acknowledged)
    for name in (b"a", b"b"):
        for partition in range(PARTITIONS):
            numbers = [int(value[1:]) for value in values if value.startswith(name)]
            mine = [number for number in numbers if number % PARTITIONS == partition]
            assert mine == sorted(mine)
