"""The same seed gives the same history, with clients of asyncio in it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kafkapy import Broker, Cluster
from kafkapy.virtual.cluster import VirtualCluster
from tests.virtual.orders import TOPIC, consuming, now, producing, run, values_of

ROOT = Path(__file__).resolve().parents[2]


async def _troubled(cluster: VirtualCluster) -> tuple[str, list[bytes]]:
    """Two producers and a group of two; links lose, a broker dies, another one is cut off."""
    await cluster.create_topics({TOPIC: 4})

    async def produce(name: str) -> None:
        async with producing(cluster, enable_idempotence=True) as producer:
            for number in range(30):
                await producer.send_and_wait(TOPIC, f"{name}{number}".encode(), key=b"%d" % number)
                await asyncio.sleep(1)

    async def break_it() -> None:
        cluster.links("clients").lose(0.05)
        await asyncio.sleep(5)
        cluster.kill(1)
        await asyncio.sleep(30)
        await cluster.start(1)
        with cluster.link(2, 3).cut():
            await asyncio.sleep(8)

    producers = [asyncio.ensure_future(produce(name)) for name in ("a", "b")]
    breaking = asyncio.ensure_future(break_it())
    values: list[bytes] = []
    async with consuming(cluster, group_id="g") as one, consuming(cluster, group_id="g") as other:
        while len(set(values)) < 60:
            for consumer in (one, other):
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    values += [record.value for record in records]
    await asyncio.gather(*producers, breaking)
    return cluster.fingerprint, values


def test_the_same_seed_gives_the_same_trace(tmp_path: Path) -> None:
    results = {}
    for name, seed in (("first", 7), ("second", 7), ("other", 8)):
        cluster = Cluster(3, seed=seed, clock="virtual")
        results[name] = cluster.run(_troubled, trace=tmp_path / name)
    assert (tmp_path / "first").read_text().count("\n") > 1000
    assert (tmp_path / "first").read_text() == (tmp_path / "second").read_text()
    assert results["first"] == results["second"]
    assert set(results["first"][1]) == set(results["other"][1])
    assert results["first"][0] != results["other"][0]


def test_another_process_with_the_same_hashes_has_the_same_history() -> None:
    code = (
        "from tests.virtual.orders import run\n"
        "from tests.virtual.test_determinism import _troubled\n"
        "print(run(_troubled)[0])"
    )
    fingerprints = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for _ in range(2)
    }
    assert len(fingerprints) == 1


def test_a_session_timeout_of_45_seconds_takes_a_fraction_of_a_second() -> None:
    async def main(cluster: VirtualCluster) -> float:
        await cluster.create_topics({TOPIC: 2})
        group = {"group_id": "g", "session_timeout_ms": 45_000, "heartbeat_interval_ms": 3000}
        async with consuming(cluster, **group) as staying:
            with cluster.on("laptop"):
                leaving = consuming(cluster, **group)
                await leaving.__aenter__()
            coordinator = cluster[cluster.leader("__consumer_offsets")]
            await coordinator.group("g").stable(members=2)
            while len(staying.assignment()) != 1:
                await staying.getmany(timeout_ms=100)
            cluster.links("laptop").cut()
            began = now()
            await coordinator.group("g").stable(members=1, within=100)
            taken = now() - began
            while len(staying.assignment()) < 2:
                await staying.getmany(timeout_ms=100)
            cluster.heal()
            await leaving.__aexit__(None, None, None)
            return taken

    run(main)  # what is imported then takes longer
    began = time.process_time()
    assert 41 < run(main) < 50
    assert time.process_time() - began < 3


def test_a_run_does_not_touch_the_time_of_other_threads() -> None:
    before = time.monotonic()
    with Broker() as broker, ThreadPoolExecutor(1) as pool:
        is_over = threading.Event()

        def watch() -> list[float]:
            seen = []
            while not is_over.is_set():
                seen.append(time.monotonic())
                time.sleep(0.001)
            return seen

        watching = pool.submit(watch)

        async def main(cluster: VirtualCluster) -> float:
            assert time.monotonic() < 10
            await asyncio.sleep(1000)
            return time.monotonic()

        assert run(main, brokers=1) > 1000
        broker.produce(TOPIC, value="real")
        is_over.set()
        seen = watching.result()
        assert before <= min(seen) <= max(seen) <= time.monotonic()
        assert seen == sorted(seen)
    assert time.monotonic() > before


def test_threads_of_asyncio_are_callbacks_in_virtual_time() -> None:
    async def main(cluster: VirtualCluster) -> tuple[int, int]:
        return await asyncio.to_thread(threading.get_ident), threading.get_ident()

    worker, own = run(main, brokers=1)
    assert worker == own


def test_values_are_those_of_all_clients() -> None:
    async def main(cluster: VirtualCluster) -> list[bytes]:
        async with producing(cluster) as producer, consuming(cluster) as consumer:
            await producer.send_and_wait(TOPIC, b"two apples")
            return await values_of(consumer, 1)

    assert run(main, brokers=1) == [b"two apples"]
