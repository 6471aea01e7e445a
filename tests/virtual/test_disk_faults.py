"""Disks fill, fail and are slow for some files, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from kafkapy import VirtualCluster
from tests.virtual.orders import TOPIC, consuming, now, producing, run, values_of


async def _a_disk_fails(cluster: VirtualCluster) -> tuple[int, int, list[bytes]]:
    """How many calls failed, the leader afterwards, and all values."""
    await cluster.create_topics({TOPIC: 1})
    leader = cluster.leader(TOPIC)
    async with producing(cluster, enable_idempotence=True) as producer:
        await producer.send_and_wait(TOPIC, b"before")
        with cluster[leader].faults.disk(topic=TOPIC).fail("write") as fault:
            await producer.send_and_wait(TOPIC, b"meanwhile")
        assert leader not in list(cluster)  # as a broker that has no log directory left
        next_leader = cluster.leader(TOPIC)
        assert next_leader != leader
        await cluster.start(leader)
        await producer.send_and_wait(TOPIC, b"after")
    async with asyncio.timeout(60):
        while leader not in cluster.in_sync(TOPIC):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.1)
    async with consuming(cluster) as consumer:
        return fault.hits, next_leader, await values_of(consumer, 3)


def test_another_broker_leads_when_a_disk_fails() -> None:
    hits, _, values = run(_a_disk_fails)
    assert hits > 0
    assert values == [b"before", b"meanwhile", b"after"]


def test_a_run_with_failing_disks_is_repeatable() -> None:
    seen: list[str] = []

    async def main(cluster: VirtualCluster) -> None:
        await _a_disk_fails(cluster)
        seen.append(cluster.fingerprint)

    run(main)
    run(main)
    assert seen[0] == seen[1]


def test_a_sync_that_fails_acknowledges_nothing() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await cluster.create_topics({TOPIC: 1})
        async with producing(cluster) as producer:
            await producer.send_and_wait(TOPIC, b"before")
            fault = cluster[1].faults.disk(topic=TOPIC, partition=0).fail("sync")
            sending = asyncio.ensure_future(producer.send_and_wait(TOPIC, b"lost"))
            await fault.hit()
            await asyncio.sleep(5)
            assert not sending.done()
            fault.stop()
            await cluster.start(1)
            await sending

    run(main, brokers=1)


def test_a_topic_whose_disk_is_full_waits_alone() -> None:
    async def main(cluster: VirtualCluster) -> list[bytes]:
        await cluster.create_topics({TOPIC: 1, "bills": 1})
        async with producing(cluster) as producer:
            await producer.send_and_wait(TOPIC, b"before")
            with cluster[1].faults.disk(topic="bills").fill(times=3) as fault:
                await producer.send_and_wait("bills", b"a bill")
                assert fault.hits == 3
            with cluster[1].faults.disk().fill() as full:
                sending = asyncio.ensure_future(producer.send_and_wait(TOPIC, b"after"))
                await asyncio.sleep(5)
                assert not sending.done()
            await sending
            assert repr(full).startswith("<fault disk().fill(), hits=")
        return [record.value or b"" for record in await cluster[1].records(TOPIC)]

    assert run(main, brokers=1) == [b"before", b"after"]


@pytest.mark.parametrize("operation", ["sync", "write"])
def test_acknowledgements_wait_for_slow_calls(operation: str) -> None:
    async def main(cluster: VirtualCluster) -> None:
        await cluster.create_topics({TOPIC: 1})
        async with producing(cluster) as producer:
            await producer.send_and_wait(TOPIC, b"fast")
            with cluster[1].faults.disk(topic=TOPIC).slow(5, operation, times=2) as fault:  # type: ignore[arg-type]
                for _ in range(2):
                    began = now()
                    await producer.send_and_wait(TOPIC, b"slow")
                    assert 5 <= now() - began < 6
                assert fault.hits == 2
            began = now()
            await producer.send_and_wait(TOPIC, b"fast")
            assert now() - began < 1

    run(main, brokers=1)


def test_a_slow_write_holds_its_broker_and_no_other() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await cluster.create_topics({TOPIC: 3})
        slow, other = (cluster.leader(TOPIC, partition) for partition in (0, 1))
        assert slow != other
        async with producing(cluster, acks=1) as producer:
            await producer.send_and_wait(TOPIC, b"fast", partition=0)
            fault = cluster[slow].faults.disk(topic=TOPIC, partition=0).slow(10, "write", times=1)
            began = now()
            sending = asyncio.ensure_future(producer.send_and_wait(TOPIC, b"slow", partition=0))
            await fault.hit()
            await producer.send_and_wait(TOPIC, b"fast", partition=1)
            assert now() - began < 1
            async with consuming(cluster) as consumer:
                assert sorted(await values_of(consumer, 3)) == [b"fast", b"fast", b"slow"]
            assert now() - began >= 10
            await sending

    run(main)


def test_a_slow_sync_lets_its_broker_go_on() -> None:
    async def main(cluster: VirtualCluster) -> None:
        await cluster.create_topics({TOPIC: 1, "bills": 1})
        async with producing(cluster) as producer:
            with cluster[1].faults.disk(topic=TOPIC).slow(10, "sync", times=1) as fault:
                began = now()
                sending = asyncio.ensure_future(producer.send_and_wait(TOPIC, b"slow"))
                await fault.hit()
                await cluster[1].records("bills")
                assert now() - began < 1
                await sending
                assert now() - began >= 10

    run(main, brokers=1)
