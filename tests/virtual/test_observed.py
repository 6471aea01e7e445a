"""In virtual time a test waits, and breaks brokers, as it does elsewhere."""

from __future__ import annotations

import asyncio
import datetime

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from kafkapy import Cluster
from kafkapy.observe.waiting import NotSeenError
from kafkapy.virtual.cluster import VirtualCluster
from tests.virtual.orders import TOPIC, consuming, now, producing, run, values_of


def test_records_are_written_read_and_waited_for_without_a_client() -> None:
    async def main(cluster: VirtualCluster) -> None:
        broker = cluster[1]
        waiting = asyncio.ensure_future(broker.topic(TOPIC).records(2))
        await asyncio.sleep(5)
        await broker.produce(TOPIC, key="17", value="two apples")
        await broker.produce(TOPIC, value="a pear")
        assert [record.value for record in await waiting] == [b"two apples", b"a pear"]
        began = now()
        with pytest.raises(NotSeenError, match="waited for 10 s for 3 records in orders; it has 2"):
            await broker.topic(TOPIC).records(3)
        assert 10 <= now() - began < 10.1

    run(main, brokers=1)


def test_a_group_is_waited_for() -> None:
    async def main(cluster: VirtualCluster) -> None:
        broker = cluster[1]
        await broker.produce(TOPIC, value="two apples")
        async with consuming(cluster, group_id="billing") as consumer:
            (member,) = await broker.group("billing").stable(members=1)
            assert member.client_id.startswith("aiokafka")
            with pytest.raises(NotSeenError):
                await broker.group("billing").caught_up(within=1)
            assert await values_of(consumer, 1) == [b"two apples"]
            await broker.group("billing").committed(TOPIC, 0, 1, within=6)
        await broker.group("billing").caught_up()

    run(main, brokers=1)


def test_a_transaction_is_waited_for_and_ends_by_its_timeout() -> None:
    async def main(cluster: VirtualCluster) -> None:
        broker = cluster[1]
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            transactional_id="billing-1",
            transaction_timeout_ms=60_000,
        )
        await producer.start()
        async with producer.transaction():
            await producer.send_and_wait(TOPIC, b"committed")
        await broker.transaction("billing-1").committed()
        await producer.begin_transaction()
        await producer.send_and_wait(TOPIC, b"left open")
        began = now()
        await broker.transaction("billing-1").aborted(within=100)
        assert 60 <= now() - began < 71
        assert [record.value for record in await broker.records(TOPIC)] == [b"committed"]
        await producer.stop()

    run(main, brokers=1)


def test_the_brokers_clock_is_advanced_for_all_of_them() -> None:
    async def main(cluster: VirtualCluster) -> None:
        async with producing(cluster) as producer:
            await producer.send_and_wait(TOPIC, b"old")
        cluster.kill(3)
        before, began = cluster.clock.now(), now()
        await cluster.clock.advance(days=8)
        assert (cluster.clock.now() - before).days == 8
        assert now() - began < 60
        leader = cluster.leader(TOPIC)
        if leader == 3:
            await asyncio.sleep(20)
            leader = cluster.leader(TOPIC)
        await cluster[leader].topic(TOPIC).empty(within=600)

    Cluster(3, seed=7, clock="virtual", config={"log.segment.delete.delay.ms": 0}).run(main)


def test_an_admin_client_works() -> None:
    async def main(cluster: VirtualCluster) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        await admin.start()
        await admin.create_topics([NewTopic(TOPIC, num_partitions=6, replication_factor=3)])
        (topic,) = await admin.describe_topics([TOPIC])
        assert len(topic["partitions"]) == 6
        await admin.close()

    run(main)


def test_faults_of_requests_are_met_by_clients() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await cluster.create_topics({TOPIC: 1})
        async with producing(cluster, enable_idempotence=True) as producer:
            refused = cluster[1].faults.produce(topic=TOPIC).error("NOT_LEADER_OR_FOLLOWER", times=2)
            delayed = cluster[1].faults.produce(topic=TOPIC).delay(7, times=1)
            began = now()
            await producer.send_and_wait(TOPIC, b"at last")
            assert 7 < now() - began < 10
            await refused.hit(2)
            await delayed.hit()
            with pytest.raises(NotSeenError, match="to meet 3 requests; it has met 2"):
                await refused.hit(3)
            fault = cluster[1].faults.metadata().no_answer()
            await cluster.stop(1)
            await cluster.start(1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.client.fetch_all_metadata(), 5)
            await fault.hit()
            fault.stop()
            await producer.send_and_wait(TOPIC, b"again")
        with pytest.raises(ValueError, match="a broker has one log directory: leave log_dir out"):
            cluster[1].faults.disk(log_dir="/tmp").fail("write")
        assert len(await cluster[1].records(TOPIC)) == 2

    run(main, brokers=1)


def test_faults_of_a_cluster_are_met_whichever_broker_is_asked() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await cluster.create_topics({TOPIC: 3})
        refused = cluster.faults.produce(topic=TOPIC).error("NOT_LEADER_OR_FOLLOWER", times=3)
        full = cluster.faults.disk(topic=TOPIC).fill(times=2)
        async with producing(cluster) as producer:
            for partition in range(3):
                await producer.send_and_wait(TOPIC, b"at last", partition=partition)
        await refused.hit(3)
        await full.hit(2)
        with pytest.raises(ValueError, match="a broker has one log directory: leave log_dir out"):
            cluster.faults.disk(log_dir="/tmp").fail("write")
        assert len(cluster.faults) == 2

    run(main)


def test_a_cluster_is_asked_whichever_broker_leads() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await cluster.create_topics({TOPIC: 3})
        for partition in range(3):
            await cluster.produce(TOPIC, value=f"{partition}", partition=partition)
        dead = cluster.leader(TOPIC, 0)
        cluster.kill(dead)
        with pytest.raises(NotSeenError, match="orders to take a record; no broker that runs leads orders-0"):
            await cluster.produce(TOPIC, value="too soon", partition=0)
        await asyncio.sleep(20)
        await cluster.produce(TOPIC, value="when another one leads", partition=0)
        assert len(await cluster.topic(TOPIC).records(4, within=60)) == 4
        await cluster.start(dead)
        async with consuming(cluster, group_id="billing") as consumer:
            await values_of(consumer, 4)
            (member,) = await cluster.group("billing").stable(members=1)
            assert member.client_id.startswith("aiokafka")
            await consumer.commit()
        await cluster.group("billing").caught_up()
        async with producing(cluster, transactional_id="bills") as producer, producer.transaction():
            await producer.send_and_wait(TOPIC, b"a bill")
        await cluster.transaction("bills").committed()
        for number in cluster:
            cluster.pause(number)
        with pytest.raises(RuntimeError, match="no broker of the cluster is running"):
            await cluster.records(TOPIC)

    run(main)


def test_the_clock_stays_while_a_broker_is_paused_or_when_that_is_too_far() -> None:
    async def main(cluster: VirtualCluster) -> None:
        async def refused(error: type[Exception], why: str, days: float) -> None:
            before = cluster.clock.now()
            with pytest.raises(error, match=why):
                await cluster.clock.advance(days=days)
            assert cluster.clock.now() - before < datetime.timedelta(minutes=1)

        await refused(ValueError, "cannot be advanced beyond the year 9999", 1e7)
        cluster.pause(2)
        await refused(RuntimeError, "broker 2 is paused; resume it first", 1)
        cluster.resume(2)
        await cluster.clock.advance(days=1)

    run(main)


async def _late_requests(cluster: VirtualCluster) -> tuple[int, int]:
    """How many requests arrived twice, and how many records there are."""
    await cluster.create_topics({TOPIC: 1})
    leader = cluster.leader(TOPIC)
    fault = cluster[leader].faults.produce(topic=TOPIC).twice(2)
    async with producing(cluster, enable_idempotence=True) as producer:
        for number in range(5):
            await producer.send_and_wait(TOPIC, str(number).encode())
    await asyncio.sleep(5)
    return fault.hits, len(await cluster[leader].records(TOPIC))


def test_requests_that_arrive_twice_add_nothing_to_what_idempotent_producers_wrote() -> None:
    assert run(_late_requests) == (5, 5)


def test_requests_that_arrive_twice_double_what_others_wrote() -> None:
    async def main(cluster: VirtualCluster) -> list[bytes]:
        await cluster.create_topics({TOPIC: 1})
        cluster[1].faults.produce(topic=TOPIC).twice(3, times=1)
        async with producing(cluster) as producer:
            await producer.send_and_wait(TOPIC, b"an apple")
            await producer.send_and_wait(TOPIC, b"a pear")
        await asyncio.sleep(5)
        return [record.value or b"" for record in await cluster[1].records(TOPIC)]

    assert run(main, brokers=1) == [b"an apple", b"a pear", b"an apple"]
