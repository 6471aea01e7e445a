"""Brokers are replaced by the other kind and back, and nothing is lost.

They continue with the same data, under load.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pytest

from interop.beside_kafka.conftest import StartMixed
from interop.beside_kafka.mixed_cluster import KAFKA, KAFKAPY, MixedCluster
from interop.beside_kafka.records import wait_until_equal
from interop.support.waiting import wait_until
from kafkapy.inter_broker.peers import PeerError
from tests.crash.load import RecordingProducer, random_value, read_pass
from tests.promises.checker import check
from tests.promises.history import Acked, History, Partition

SEEDS = int(os.environ.get("KAFKAPY_MIXED_SEEDS", "1"))
"""How many random schedules are tried; each takes one to two minutes."""
CHANGES = 6
MOMENTS = ("stopping", "gone", "back", "never")
"""When the controller is deposed, by what the replaced broker does."""

PARTITIONS: list[Partition] = [("orders", index) for index in range(3)]


@pytest.fixture
def start(start_mixed: StartMixed) -> Iterator[StartMixed]:
    """Starts a cluster that ends with the test."""
    with ExitStack() as started:

        def start_one(kinds: Mapping[int, str]) -> MixedCluster:
            cluster = start_mixed(kinds)
            started.callback(cluster.close)
            return cluster

        yield start_one


@contextmanager
def load(cluster: MixedCluster) -> Iterator[History]:
    """Write meanwhile, and compare the replicas in the end.

    Nothing that was acknowledged may be missing, and all replicas must be equal.
    """
    cluster.create("orders", [[1, 2, 3], [2, 3, 1], [3, 1, 2]], segment_bytes="1500000")
    chance, history, stop = random.Random(11), History(), threading.Event()
    producer = RecordingProducer("p", cluster.bootstrap_servers, history, idempotent=True)

    def produce() -> None:
        while not stop.is_set() and producer.fatal is None:
            producer.send(chance.choice(PARTITIONS), random_value(chance, 2000))
            producer.poll()
            time.sleep(0.005)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield history
    finally:
        stop.set()
        thread.join()
    producer.flush()
    assert producer.fatal is None
    cluster.wait_until_in_sync("orders")
    read_pass(cluster.bootstrap_servers, "last", dict.fromkeys(PARTITIONS, 0), history)
    assert check(history) == []
    for topic, index in PARTITIONS:
        wait_until_equal(cluster, topic, partition=index)


def wait_for_more(history: History, before: int) -> None:
    """Wait until more is acknowledged than `before`."""
    wait_until(lambda: acknowledged(history) > before, timeout=60)


def acknowledged(history: History) -> int:
    return sum(isinstance(event, Acked) for event in history)


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_each_broker_becomes_one_of_the_other_kind(start: StartMixed, killed: bool) -> None:
    cluster = start({1: KAFKA, 2: KAFKA, 3: KAFKA})
    with load(cluster) as history:
        for kind in (KAFKAPY, KAFKA):
            for number in (1, 2, 3):
                before = acknowledged(history)
                if killed:
                    cluster[number].kill()
                cluster.replace(number, kind)
                cluster.wait_until_in_sync("orders")
                wait_for_more(history, before)


@contextmanager
def deposing(cluster: MixedCluster, number: int, moment: str) -> Iterator[None]:
    """Depose the controller at a moment of a broker's replacement; end when that is done."""

    def depose() -> None:
        if moment in ("gone", "back"):
            cluster.wait_until_gone(number)
        if moment == "back":
            cluster.wait_until_back(number)
        if moment != "never":
            cluster.depose()

    thread = threading.Thread(target=depose)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def wait_until_whole(cluster: MixedCluster) -> None:
    """Wait until all replicas are in sync.

    Brokers of Apache Kafka that were deposed within a change are restarted.
    """
    while True:
        wait_until(
            lambda: cluster.half_changed() or cluster.is_in_sync("orders"), timeout=60, ignoring=PeerError
        )
        found = cluster.half_changed()
        if not found:
            return
        for number in found:
            cluster.replace(number, KAFKA)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_brokers_and_controllers_change_at_random(start: StartMixed, seed: int) -> None:
    cluster = start({1: KAFKA, 2: KAFKA, 3: KAFKAPY})
    chance = random.Random(seed)
    with load(cluster) as history:
        for _ in range(CHANGES):
            before = acknowledged(history)
            number = chance.choice((2, 3))
            with deposing(cluster, number, chance.choice(MOMENTS)):
                if chance.random() < 0.5:
                    cluster[number].kill()
                cluster.replace(number, KAFKAPY if cluster.kinds[number] == KAFKA else KAFKA)
            wait_until_whole(cluster)
            wait_for_more(history, before)
