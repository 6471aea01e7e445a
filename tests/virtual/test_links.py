"""Links between brokers, clients and the metadata are cut, slowed and lose what is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiokafka.errors import KafkaError

from kafkapy.virtual.cluster import VirtualCluster
from tests.virtual.orders import TOPIC, consuming, now, producing, run, values_of


async def _until(condition: Callable[[], bool], seconds: float = 120) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the metadata change
            await asyncio.sleep(0.1)


def test_a_producer_that_is_cut_off_waits_and_its_record_arrives_once() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await cluster.create_topics({TOPIC: 1})
        async with producing(cluster, enable_idempotence=True) as producer:
            await producer.send_and_wait(TOPIC, b"before")
            with cluster.links("clients").cut():
                sending = asyncio.ensure_future(producer.send_and_wait(TOPIC, b"cut off"))
                await asyncio.sleep(20)
                assert not sending.done()
            await sending
        leader = cluster.leader(TOPIC)
        assert [each.value for each in await cluster[leader].records(TOPIC)] == [b"before", b"cut off"]

    run(main)


def test_a_follower_that_is_cut_off_leaves_the_isr_and_returns() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await cluster.create_topics({TOPIC: 1})
        leader = cluster.leader(TOPIC)
        follower = next(each for each in cluster if each not in (leader, cluster.controller))
        async with producing(cluster, request_timeout_ms=90_000) as producer:
            with cluster.link(follower, leader).cut():
                began = now()
                await producer.send_and_wait(TOPIC, b"without one")
                assert now() - began > 25  # replica.lag.time.max.ms
                assert follower not in cluster.in_sync(TOPIC)
        await _until(lambda: follower in cluster.in_sync(TOPIC))

    run(main)


def test_a_broker_without_its_metadata_loses_what_it_leads() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await cluster.create_topics({TOPIC: 1})
        leader = cluster.leader(TOPIC)
        cluster.link(leader, "metadata").cut()
        await asyncio.sleep(10)
        assert cluster.leader(TOPIC) == leader
        await asyncio.sleep(20)  # zookeeper.session.timeout.ms is 18 s
        assert cluster.leader(TOPIC) != leader
        cluster.heal()
        async with producing(cluster) as producer:
            await producer.send_and_wait(TOPIC, b"after")
        await _until(lambda: leader in cluster.in_sync(TOPIC))

    run(main)


def test_latency_is_paid_on_each_way() -> None:
    async def main(cluster: VirtualCluster) -> tuple[float, float]:
        await cluster.create_topics({TOPIC: 1})
        async with producing(cluster) as producer:
            await producer.send_and_wait(TOPIC, b"fast")
            began = now()
            await producer.send_and_wait(TOPIC, b"fast")
            fast = now() - began
            with cluster.link("clients", 1).slow(latency=0.7):
                began = now()
                await producer.send_and_wait(TOPIC, b"slow")
                return fast, now() - began

    fast, slow = run(main, brokers=1)
    assert fast < 0.1
    assert 1.4 < slow < 1.5


def test_bandwidth_is_shared_by_what_is_sent_at_once() -> None:
    async def main(cluster: VirtualCluster) -> float:
        await cluster.create_topics({TOPIC: 1, "invoices": 1})
        async with producing(cluster) as first, producing(cluster) as second:
            await first.send_and_wait(TOPIC, b"x")
            await second.send_and_wait("invoices", b"x")
            with cluster.link("clients", 1).slow(bandwidth=100_000):
                began = now()
                await asyncio.gather(
                    first.send_and_wait(TOPIC, bytes(200_000)),
                    second.send_and_wait("invoices", bytes(300_000)),
                )
                return now() - began

    assert 5 < run(main, brokers=1) < 5.5


def test_what_is_lost_comes_again_in_order() -> None:
    async def main(cluster: VirtualCluster) -> tuple[float, list[bytes]]:
        await cluster.create_topics({TOPIC: 1})
        async with producing(cluster, enable_idempotence=True) as producer:
            await producer.send_and_wait(TOPIC, b"0")
            began = now()
            with cluster.link("clients", 1).lose(0.3):
                for number in range(1, 40):
                    await producer.send_and_wait(TOPIC, b"%d" % number)
            taken = now() - began
        async with consuming(cluster) as consumer:
            return taken, await values_of(consumer, 40)

    taken, values = run(main, brokers=1)
    assert values == [b"%d" % number for number in range(40)]
    assert taken > 3  # some 33 of 78 are lost once or more, and cost 0.2 s or more each


def test_what_is_late_arrives_when_the_link_heals() -> None:
    async def main(cluster: VirtualCluster) -> tuple[float, float]:
        await cluster.create_topics({TOPIC: 1})
        async with producing(cluster) as producer:
            await producer.send_and_wait(TOPIC, b"x")
            with cluster.link("clients", 1).slow(bandwidth=1000):
                began = now()
                sending = asyncio.ensure_future(producer.send_and_wait(TOPIC, bytes(200_000)))
                await asyncio.sleep(10)
            await sending
            with cluster.link("clients", 1).slow(bandwidth=1000):
                again = now()
                await producer.send_and_wait(TOPIC, b"x")
                return again - began, now() - again

    healed, again = run(main, brokers=1)
    assert 10 < healed < 10.1
    assert again < 1


def test_a_broker_without_its_metadata_holds_up_no_other() -> None:
    async def main(cluster: VirtualCluster) -> None:
        other, cut_off = sorted({1, 2, 3} - {cluster.controller})
        cluster.links("metadata").reset()
        cluster.link(cut_off, "metadata").cut()
        await cluster.stop(other)
        began = now()
        await cluster.start(other)
        await cluster.create_topics({TOPIC: 1})
        assert now() - began < 30
        assert sorted(cluster) == [1, 2, 3]

    run(main)


def test_brokers_reconnect_to_the_metadata_after_a_reset() -> None:
    async def main(cluster: VirtualCluster) -> None:
        controller = cluster.controller
        cluster.links("metadata").reset()
        await asyncio.sleep(30)
        assert cluster.controller == controller
        await cluster.create_topics({TOPIC: 1})

    run(main)


def test_a_client_survives_a_reset_of_its_connections() -> None:
    async def main(cluster: VirtualCluster) -> list[bytes]:
        await cluster.create_topics({TOPIC: 1})
        async with producing(cluster, enable_idempotence=True) as producer, consuming(cluster) as consumer:
            sending = [await producer.send(TOPIC, b"%d" % number) for number in range(5)]
            cluster.link("clients", 1).reset()
            await asyncio.gather(*sending)
            return await values_of(consumer, 5)

    assert run(main, brokers=1) == [b"%d" % number for number in range(5)]


def test_a_client_on_a_host_of_its_own_is_cut_off_alone() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await cluster.create_topics({TOPIC: 1})

        async def produce(value: bytes) -> None:
            async with producing(cluster) as producer:
                await producer.send_and_wait(TOPIC, value)

        with cluster.on("laptop"):
            assert cluster.links("laptop").cut()
            cut_off = asyncio.create_task(produce(b"late"))
        await produce(b"early")
        assert not cut_off.done()
        cluster.heal()
        await cut_off
        assert [each.value for each in await cluster[1].records(TOPIC)] == [b"early", b"late"]
        with pytest.raises(ValueError, match="'metadata' is no host of clients"), cluster.on("metadata"):
            pass

    run(main, brokers=1)


def test_one_way_can_be_cut_alone() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await cluster.create_topics({TOPIC: 1})
        async with producing(cluster, request_timeout_ms=5000) as producer:
            await producer.send_and_wait(TOPIC, b"before")
            with cluster.link(1, "clients", both_ways=False).cut(), pytest.raises(KafkaError):
                await producer.send_and_wait(TOPIC, b"unanswered")
            values = [record.value for record in await cluster[1].records(TOPIC)]
            assert values[:2] == [b"before", b"unanswered"]

    run(main, brokers=1)


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ((1, 4), "there is no broker 4: expected 1 to 3"),
        ((1, 1), "there is no link between 1 and 1"),
        (("clients", "metadata"), "there is no link between 'clients' and 'metadata'"),
        (
            ("client", 1),
            "there is no end 'client': expected the id of a broker, or one of 'clients', 'metadata'",
        ),
    ],
)
def test_a_link_that_does_not_exist_is_refused(ends: tuple[int, int], message: str) -> None:
    async def main(cluster: VirtualCluster) -> None:
        with pytest.raises(ValueError, match=message):
            cluster.link(*ends)

    run(main)


def test_values_without_a_meaning_are_refused() -> None:
    async def main(cluster: VirtualCluster) -> None:
        link = cluster.link("clients", 1)
        with pytest.raises(ValueError, match=r"lose\(1\): expected a share from 0 to below 1; cut\(\)"):
            link.lose(1)
        with pytest.raises(
            ValueError, match="latency=-1, bandwidth=None: expected seconds, and bytes a second"
        ):
            link.slow(latency=-1)
        with pytest.raises(ValueError, match="latency=0, bandwidth=0: expected seconds, and bytes a second"):
            link.slow(bandwidth=0)

    run(main, brokers=1)
