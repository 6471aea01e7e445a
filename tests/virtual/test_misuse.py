"""What cannot be done in virtual time is refused in one line, and a failure names its seed."""

from __future__ import annotations

import asyncio
import math
import re
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kafka import KafkaProducer

from kafkapy import Broker, Cluster
from kafkapy.virtual.cluster import VirtualCluster
from kafkapy.virtual.run import TimeIsOverError
from tests.virtual.orders import run


async def _nothing(cluster: VirtualCluster) -> None:
    """Nothing."""


@pytest.mark.parametrize(
    "use",
    [
        lambda cluster: cluster.start(),
        lambda cluster: cluster.__enter__(),
        lambda cluster: cluster.stop(),
        lambda cluster: cluster.kill(1),
        lambda cluster: cluster.partition(1, 2),
        lambda cluster: cluster.cut_off(1),
        lambda cluster: cluster.heal(),
        lambda cluster: cluster.pause(1),
        lambda cluster: cluster.bootstrap_servers,
        lambda cluster: cluster.controller,
        lambda cluster: cluster.clock,
        lambda cluster: cluster[1],
        list,
    ],
)
def test_calls_that_block_are_refused(use: Callable[[Cluster], Any]) -> None:
    with pytest.raises(RuntimeError, match=re.escape("the time of this cluster is virtual: call run(main)")):
        use(Cluster(3, clock="virtual"))


def test_a_real_cluster_does_not_run_code() -> None:
    with pytest.raises(RuntimeError, match='make it with clock="virtual"'):
        Cluster(1).run(_nothing)


def test_arguments_without_a_meaning_are_refused() -> None:
    with pytest.raises(ValueError, match='seed=7: only clock="virtual" has a seed'):
        Cluster(1, seed=7)
    with pytest.raises(ValueError, match="data_dir='data': in virtual time the disks"):
        Cluster(1, clock="virtual", data_dir="data")
    with pytest.raises(ValueError, match="clock='fast': expected one of 'real', 'manual', or 'virtual'"):
        Cluster(1, clock="fast")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="clock='virtual': expected one of"):
        Broker(clock="virtual")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"run\(main\) takes a coroutine function, not "):
        run(_nothing(None))  # type: ignore[arg-type]


async def test_a_run_needs_a_function_that_is_not_async() -> None:
    with pytest.raises(RuntimeError, match="call it from a function that is not async"):
        run(_nothing)


def test_a_process_has_one_world_at_a_time() -> None:
    with ThreadPoolExecutor(1) as pool:
        begun, is_seen = threading.Event(), threading.Event()

        async def main(cluster: VirtualCluster) -> None:
            begun.set()
            is_seen.wait(60)

        running = pool.submit(run, main, 1)
        assert begun.wait(60)
        with pytest.raises(RuntimeError, match="a process has one at a time"):
            run(_nothing, brokers=1)
        is_seen.set()
        running.result()


def _sleep() -> None:
    time.sleep(5)


def _start_a_thread() -> None:
    threading.Thread(target=_sleep, name="sleeper").start()


def _use_a_pool() -> None:
    ThreadPoolExecutor(1).submit(_sleep)


def _start_a_broker() -> None:
    Broker().start()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (_sleep, "time.sleep(5) in virtual time would wait for ever: await asyncio.sleep"),
        (
            _start_a_thread,
            "the thread sleeper cannot start in virtual time, which has one thread",
        ),
        (_use_a_pool, "cannot start in virtual time"),
        (_start_a_broker, "the thread kafkapy-broker cannot start in virtual time"),
    ],
)
def test_code_that_blocks_is_refused(use: Callable[[], None], message: str) -> None:
    async def main(cluster: VirtualCluster) -> None:
        with pytest.raises(RuntimeError, match=re.escape(message)):
            use()
        with pytest.raises(RuntimeError, match=re.escape(message)):
            await asyncio.to_thread(use)

    run(main, brokers=1)


def test_a_client_with_threads_is_refused() -> None:
    async def main(cluster: VirtualCluster) -> None:
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)

    with pytest.raises(RuntimeError, match="a client that waits for sockets itself does not work in virtual"):
        run(main, brokers=1)


def test_the_outside_is_refused() -> None:
    async def main(cluster: VirtualCluster) -> None:
        loop = asyncio.get_running_loop()
        host, port = cluster.bootstrap_servers.split(":")
        with pytest.raises(RuntimeError, match="virtual time does not have TLS"):
            await asyncio.open_connection(host, int(port), ssl=ssl.create_default_context())
        with pytest.raises(RuntimeError, match="virtual time does not have a server"):
            await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        with pytest.raises(RuntimeError, match="virtual time does not have a process"):
            await asyncio.create_subprocess_exec("true")
        with pytest.raises(RuntimeError, match="virtual time does not have a datagram endpoint"):
            await loop.create_datagram_endpoint(asyncio.DatagramProtocol, ("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("example.com", 80)

    run(main, brokers=1)


def test_a_run_that_waits_for_ever_tells_where() -> None:
    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    async def main(cluster: VirtualCluster) -> None:
        await wait_for_ever()

    places = r"\S+test_misuse\.py:\d+, in \S+test_misuse\.py:\d+\n"
    with pytest.raises(
        TimeIsOverError, match=rf"not ended after 100 s of virtual time; it waits in {places}"
    ):
        Cluster(1, clock="virtual").run(main, within=100)


def test_a_failure_names_its_seed_and_the_last_events() -> None:
    async def main(cluster: VirtualCluster) -> None:
        cluster.kill(1)
        assert list(cluster) == [1]

    with pytest.raises(AssertionError) as failure:
        run(main, brokers=1, seed=17)
    (note,) = failure.value.__notes__
    assert re.match(r"seed 17 \(.*PYTHONHASHSEED.*\), after 0\.\d+ s of virtual time; the last events:", note)
    assert note.endswith(" dies ")


def test_tasks_that_are_left_are_cancelled() -> None:
    ended = []

    async def left() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(1)
            ended.append(asyncio.get_running_loop().time())

    async def main(cluster: VirtualCluster) -> asyncio.Task[None]:
        task = asyncio.create_task(left())
        await asyncio.sleep(0)
        return task

    assert run(main, brokers=1).cancelled()
    assert ended[0] < 10


class _TestIsOver(BaseException):
    """As a test runner's own exceptions."""


def test_what_ends_a_test_from_outside_ends_the_run() -> None:
    async def main(cluster: VirtualCluster) -> None:
        def end() -> None:
            raise _TestIsOver

        asyncio.get_running_loop().call_later(1, end)
        await asyncio.sleep(1000)

    with pytest.raises(_TestIsOver):
        run(main, brokers=1)


def test_a_failure_of_a_test_runner_names_its_seed_and_lets_tasks_end() -> None:
    ended = []

    async def left() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(1)
            ended.append(True)

    async def main(cluster: VirtualCluster) -> None:
        task = asyncio.create_task(left())
        await asyncio.sleep(1)
        assert not task.done()
        pytest.fail("no order has come")

    with pytest.raises(pytest.fail.Exception, match="no order has come") as failure:
        run(main, brokers=1, seed=17)
    assert failure.value.__notes__[0].startswith("seed 17 (")
    assert ended == [True]


def test_generators_that_are_left_are_closed() -> None:
    closed = []

    async def orders(name: str) -> AsyncIterator[int]:
        try:
            for number in range(10):
                yield number
        finally:
            await asyncio.sleep(1)
            closed.append(name)

    async def main(cluster: VirtualCluster) -> list[AsyncIterator[int]]:
        async for _ in orders("by break"):
            break
        await asyncio.sleep(2)
        assert closed == ["by break"]
        held = [orders(f"by the end {number}") for number in range(5)]
        for generator in held:
            await anext(generator)
        return held

    run(main, brokers=1)
    assert closed == ["by break", *(f"by the end {number}" for number in range(5))]


def test_signals_are_refused_as_on_windows() -> None:
    async def main(cluster: VirtualCluster) -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(NotImplementedError, match="virtual time does not have signals"):
            loop.add_signal_handler(signal.SIGTERM, lambda: None)
        assert not loop.remove_signal_handler(signal.SIGTERM)
        with pytest.raises(RuntimeError, match="does not have a pipe"):
            await loop.connect_read_pipe(asyncio.Protocol, sys.stdin)
        with socket.socket() as own, pytest.raises(RuntimeError, match="by a socket of one's own"):
            await loop.sock_connect(own, ("127.0.0.1", 1))

    run(main, brokers=1)


def test_what_is_no_time_or_size_is_refused() -> None:
    async def main(cluster: VirtualCluster) -> None:
        for refused in (
            lambda: cluster.links(1).slow(latency=math.nan),
            lambda: cluster.links(1).slow(latency=math.inf),
            lambda: cluster.links(1).slow(latency=-1),
            lambda: cluster.links(1).slow(bandwidth=math.nan),
            lambda: cluster.links(1).slow(bandwidth=0),
            lambda: cluster.slow_disk(1, math.nan),
            lambda: cluster.slow_disk(1, math.inf),
            lambda: cluster.fill_disk(1, -1),
        ):
            with pytest.raises(ValueError, match="expected"):
                refused()

    run(main, brokers=1)
    for within in (0, -1, math.nan):
        with pytest.raises(ValueError, match="expected more than 0 seconds"):
            Cluster(1, clock="virtual").run(_nothing, within=within)


def test_what_time_has_shows_the_virtual_time() -> None:
    async def main(cluster: VirtualCluster) -> None:
        cpu = time.process_time()
        await asyncio.sleep(1800)
        now = time.time()
        assert time.localtime() == time.localtime(now)
        assert time.gmtime() == time.gmtime(now)
        assert time.ctime() == time.ctime(now) == time.asctime() == time.asctime(time.localtime(now))
        assert time.strftime("%F %T") == time.strftime("%F %T", time.localtime(now))
        assert time.gmtime().tm_year == 2023
        assert time.clock_gettime(time.CLOCK_REALTIME) == now
        assert time.clock_gettime_ns(time.CLOCK_REALTIME) == time.time_ns()
        assert time.clock_gettime(time.CLOCK_MONOTONIC) == time.monotonic()
        assert time.process_time() - cpu == pytest.approx(1800, rel=0.01)

    run(main, brokers=1)
