"""Brokers in virtual time die, pause, lose their power and come back."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from kafkapy import Cluster, ConfigError, StartError
from kafkapy.virtual.cluster import VirtualCluster
from tests.virtual.orders import TOPIC, consuming, now, producing, run, values_of


def test_another_broker_leads_when_the_session_of_a_killed_one_has_expired() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await cluster.create_topics({TOPIC: 1})
        leader = cluster.leader(TOPIC)
        async with producing(cluster, enable_idempotence=True) as producer:
            await producer.send_and_wait(TOPIC, b"before")
            began = now()
            cluster.kill(leader)
            assert leader not in cluster
            await producer.send_and_wait(TOPIC, b"after")
            assert 18 < now() - began < 25  # zookeeper.session.timeout.ms
            assert cluster.leader(TOPIC) != leader
            await cluster.start(leader)
            assert sorted(cluster) == [1, 2, 3]
        async with consuming(cluster) as consumer:
            assert await values_of(consumer, 2) == [b"before", b"after"]

    run(main)


def test_a_broker_that_stops_hands_over_at_once() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await cluster.create_topics({TOPIC: 1})
        leader, began = cluster.leader(TOPIC), now()
        await cluster.stop(leader)
        assert cluster.leader(TOPIC) not in (leader, -1)
        assert now() - began < 1

    run(main)


def test_a_paused_broker_that_is_stopped_goes_on_first() -> None:
    async def main(cluster: VirtualCluster) -> None:
        cluster.pause(2)
        await cluster.stop(2)
        await cluster.stop(2)
        assert sorted(cluster) == [1, 3]

    run(main)


def test_all_brokers_stop_and_start_with_their_data() -> None:
    async def main(cluster: VirtualCluster) -> None:
        async with producing(cluster) as producer:
            await producer.send_and_wait(TOPIC, b"kept")
        await cluster.stop()
        assert list(cluster) == []
        await cluster.start()
        async with consuming(cluster) as consumer:
            assert await values_of(consumer, 1) == [b"kept"]

    run(main)


def test_a_paused_broker_loses_its_session_and_what_it_leads() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await cluster.create_topics({TOPIC: 1})
        leader = cluster.leader(TOPIC)
        cluster.pause(leader)
        with pytest.raises(RuntimeError, match=f"broker {leader} is paused; resume it first"):
            await cluster[leader].records(TOPIC)
        await asyncio.sleep(10)
        assert cluster.leader(TOPIC) == leader
        await asyncio.sleep(10)
        assert cluster.leader(TOPIC) != leader
        cluster.resume(leader)
        await asyncio.sleep(10)
        assert leader in cluster.in_sync(TOPIC)

    run(main)


async def _lose_the_power(cluster: VirtualCluster) -> list[bytes]:
    """What is left of ten acknowledged records after a power cut."""
    await cluster.create_topics({TOPIC: 1})
    async with producing(cluster) as producer:
        for number in range(10):
            await producer.send_and_wait(TOPIC, b"%d" % number)
        cluster.cut_power(1)
    await cluster.start(1)
    return [record.value or b"" for record in await cluster[1].records(TOPIC)]


def test_what_was_synced_survives_a_power_cut() -> None:
    for seed in range(5):
        assert run(_lose_the_power, brokers=1, seed=seed) == [b"%d" % number for number in range(10)]


def test_what_was_not_synced_may_be_lost_in_a_power_cut() -> None:
    lost = 0
    for seed in range(5):
        cluster = Cluster(1, seed=seed, clock="virtual", config={"durability": "os"})
        left: list[bytes] = []
        with contextlib.suppress(StartError):  # the directory is lost, too
            left = cluster.run(_lose_the_power)
        assert left == [b"%d" % number for number in range(len(left))]
        lost += 10 - len(left)
    assert lost


def test_a_full_disk_takes_records_when_it_has_room() -> None:
    async def main(cluster: VirtualCluster) -> list[bytes]:
        await cluster.create_topics({TOPIC: 1})
        async with producing(cluster, enable_idempotence=True) as producer:
            await producer.send_and_wait(TOPIC, b"before")
            cluster.fill_disk(1, free=0)
            sending = asyncio.ensure_future(producer.send_and_wait(TOPIC, b"after"))
            await asyncio.sleep(5)
            assert not sending.done()
            cluster.fill_disk(1, free=None)
            await sending
        return [record.value or b"" for record in await cluster[1].records(TOPIC)]

    assert run(main, brokers=1) == [b"before", b"after"]


def test_a_slow_disk_delays_acknowledgements() -> None:
    async def main(cluster: VirtualCluster) -> float:
        await cluster.create_topics({TOPIC: 1})
        async with producing(cluster) as producer:
            await producer.send_and_wait(TOPIC, b"fast")
            cluster.slow_disk(1, 10)
            began = now()
            for _ in range(10):
                await producer.send_and_wait(TOPIC, b"slow")
            cluster.slow_disk(1, 0)
            again = now()
            await producer.send_and_wait(TOPIC, b"fast")
            assert now() - again < 1
            with pytest.raises(ValueError, match="expected 0 or more seconds"):
                cluster.slow_disk(1, -1)
            return again - began

    assert 20 < run(main, brokers=1) < 100


def test_a_call_ends_with_its_broker() -> None:
    async def main(cluster: VirtualCluster) -> None:
        waiting = asyncio.ensure_future(cluster[1].topic(TOPIC).records(1, within=100))
        await asyncio.sleep(1)
        cluster.kill(1)
        with pytest.raises(RuntimeError, match="broker 1 was stopped meanwhile"):
            await waiting
        with pytest.raises(RuntimeError, match="broker 1 is not running; start it first"):
            await cluster[1].records(TOPIC)

    run(main, brokers=1)


def test_a_broker_that_cannot_start_says_why() -> None:
    async def nothing(cluster: VirtualCluster) -> None:
        """Nothing: the brokers do not start."""

    with pytest.raises(ConfigError, match=r"num\.partitions=many: expected a whole number"):
        Cluster(1, clock="virtual", config={"num.partitions": "many"}).run(nothing)
    with pytest.raises(StartError, match=r"does not serve within 60 s of virtual time: .*no_such"):
        Cluster(1, clock="virtual", config={"authorizer.class.name": "no_such:Class"}).run(nothing)


def test_a_start_says_that_its_broker_was_killed() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await cluster.stop(1)
        starting, began = asyncio.create_task(cluster.start(1)), now()
        await asyncio.sleep(0.001)
        cluster.kill(1)
        with pytest.raises(StartError, match="broker 1 was ended while it started"):
            await starting
        assert now() - began < 1
        await cluster.start(1)

    run(main)
