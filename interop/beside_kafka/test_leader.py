"""kafkapy leads, and brokers of Apache Kafka follow it."""

from __future__ import annotations

import signal

import pytest

from interop.beside_kafka.conftest import StartMixed
from interop.beside_kafka.mixed_cluster import KAFKA, KAFKAPY, MixedCluster
from interop.beside_kafka.records import numbered, read, wait_until_equal, write

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared_cluster(start_mixed: StartMixed) -> MixedCluster:
    cluster = start_mixed({1: KAFKA, 2: KAFKA, 3: KAFKAPY})
    cluster.wait_for_controller(1)
    return cluster


def test_its_followers_have_what_it_acknowledges(cluster: MixedCluster) -> None:
    cluster.create("led", [[3, 1, 2]], segment_bytes="1500000")
    write(cluster, "led", [b"x" * 400] * 10_000)
    wait_until_equal(cluster, "led")
    assert read(cluster, "led", 10_000) == [b"x" * 400] * 10_000


def test_a_batch_larger_than_a_fetch_is_replicated(cluster: MixedCluster) -> None:
    cluster.create("large", [[3, 1, 2]], max_message_bytes="9000000")
    write(cluster, "large", [bytes([number]) * 4_000_000 for number in range(3)])
    wait_until_equal(cluster, "large")


@pytest.mark.parametrize("number", [2, 1, 3])
def test_the_in_sync_replicas_shrink_and_grow(cluster: MixedCluster, number: int) -> None:
    """A killed broker leaves them and returns; the rest continues without it."""
    topic, others = f"killed-{number}", [each for each in (1, 2, 3) if each != number]
    cluster.create(topic, [[3, 1, 2]])
    write(cluster, topic, numbered("all"))
    cluster[number].kill()
    cluster.wait_for_in_sync(topic, others)
    write(cluster, topic, numbered("two"))
    cluster.start_all()
    cluster.wait_until_in_sync(topic)
    cluster.elect_preferred(topic)
    write(cluster, topic, numbered("again"))
    wait_until_equal(cluster, topic)
    assert read(cluster, topic, 1500) == numbered("all") + numbered("two") + numbered("again")


@pytest.mark.parametrize("number", [1, 3])
def test_a_broker_that_is_frozen_is_left_behind_and_catches_up(cluster: MixedCluster, number: int) -> None:
    topic, others = f"frozen-{number}", [each for each in (1, 2, 3) if each != number]
    cluster.create(topic, [[3, 1, 2]])
    write(cluster, topic, numbered("all"))
    cluster[number].process.send_signal(signal.SIGSTOP)
    try:
        cluster.wait_for_in_sync(topic, others)
    finally:
        cluster[number].process.send_signal(signal.SIGCONT)
    cluster.wait_until_in_sync(topic)
    write(cluster, topic, numbered("again"))
    wait_until_equal(cluster, topic)
    assert read(cluster, topic, 1000) == numbered("all") + numbered("again")


@pytest.mark.parametrize("number", [3, 1])
def test_a_broker_that_stops_hands_over_at_once(cluster: MixedCluster, number: int) -> None:
    topic, others = f"stopped-{number}", [each for each in (1, 2, 3) if each != number]
    cluster.create(topic, [[number, *others]])
    write(cluster, topic, numbered("all"))
    cluster[number].stop()
    leader, in_sync = cluster.in_sync(topic, number=others[0])
    assert (leader in others, in_sync) == (True, others)
    write(cluster, topic, numbered("two"))
    cluster.start_all()
    cluster.wait_until_in_sync(topic)
    wait_until_equal(cluster, topic)
