"""kafkapy is the controller of brokers of Apache Kafka."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

from interop.beside_kafka.conftest import StartMixed
from interop.beside_kafka.mixed_cluster import KAFKA, KAFKAPY, MixedCluster
from interop.beside_kafka.moves import move_from_and_to
from interop.beside_kafka.records import numbered, read, wait_until_equal, write
from interop.support.waiting import wait_until
from kafkapy.inter_broker.peers import PeerAddress, TcpPeers
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.servers.server_process import ServerProcess

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared_cluster(start_mixed: StartMixed) -> MixedCluster:
    cluster = start_mixed({3: KAFKAPY, 1: KAFKA, 2: KAFKA})
    cluster.wait_for_controller(3)
    return cluster


def test_topics_are_created_and_grown_and_deleted(cluster: MixedCluster) -> None:
    cluster.create("changing", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    admin = cluster.admin()
    admin.create_partitions([NewPartitions("changing", 5)])["changing"].result()
    wait_until(lambda: all(len(cluster.topic("changing", each)) == 5 for each in (1, 2, 3)))
    cluster.wait_until_in_sync("changing")
    for partition in range(5):
        write(cluster, "changing", numbered("before"), partition=partition)
        wait_until_equal(cluster, "changing", partition=partition)
    admin.delete_topics(["changing"])["changing"].result()
    wait_until(lambda: all("changing" not in cluster.metadata(each).topics for each in (1, 2, 3)))
    wait_until(lambda: not any(list(broker.data.glob("changing-[0-4]")) for broker in cluster))
    cluster.create("changing", [[1, 2, 3]])
    write(cluster, "changing", numbered("again"))
    wait_until_equal(cluster, "changing")
    assert read(cluster, "changing", 500) == numbered("again")


def test_a_topic_is_deleted_while_a_kafka_broker_is_away(cluster: MixedCluster) -> None:
    cluster.create("gone", [[1, 2, 3], [3, 1, 2]])
    write(cluster, "gone", numbered("before"))
    cluster[2].stop()
    admin = cluster.admin(3)
    admin.delete_topics(["gone"])["gone"].result()
    cluster.start_all()
    wait_until(lambda: not list(cluster[2].data.glob("gone-[01]")))
    cluster.create("gone", [[1, 2, 3], [3, 1, 2]])
    write(cluster, "gone", numbered("again"))
    assert wait_until_equal(cluster, "gone").count(b"before") == 0


def test_leaders_are_elected_when_a_kafka_broker_is_killed(cluster: MixedCluster) -> None:
    assignment = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
    cluster.create("killed", assignment)
    cluster[1].kill()
    cluster.wait_for_in_sync("killed", [2, 3])
    assert cluster.leader("killed") == 2
    write(cluster, "killed", numbered("two"))
    cluster.start_all()
    cluster.wait_until_in_sync("killed")
    cluster.elect_preferred("killed", 3)
    assert [cluster.leader("killed", index) for index in range(3)] == [1, 2, 3]
    wait_until_equal(cluster, "killed")


def test_a_kafka_broker_that_stops_hands_over_at_once(cluster: MixedCluster) -> None:
    cluster.create("stopped", [[2, 1, 3]])
    write(cluster, "stopped", numbered("all"))
    cluster[2].stop()
    assert "broker 2 is shutting down" in cluster[3].output()
    assert cluster.in_sync("stopped", number=1) == (1, [1, 3])
    cluster.start_all()
    cluster.wait_until_in_sync("stopped")


def test_replicas_move_from_and_to_kafkapy(cluster: MixedCluster, tmp_path: Path) -> None:
    move_from_and_to(3, cluster, tmp_path / "plan.json")


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_topic_that_a_client_of_any_broker_names_is_created(cluster: MixedCluster, number: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster[number].bootstrap_servers,
            "allow.auto.create.topics": True,
            "log_level": 0,
        }
    )
    producer.produce(f"named-{number}", b"first")
    assert producer.flush(60) == 0
    assert read(cluster, f"named-{number}", 1) == [b"first"]


def producer_id(broker: ServerProcess) -> int:
    async def ask() -> int:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        peer = TcpPeers(0).connect(PeerAddress(0, *broker.address), "test")
        answer = await peer.ask(request, seconds=10)
        peer.close()
        assert answer.error_code in (0, 14), answer  # Apache Kafka says so while it asks the controller
        return int(answer.producer_id)

    return wait_until(lambda: asyncio.run(ask()) + 1) - 1


def test_no_producer_id_is_given_twice(cluster: MixedCluster) -> None:
    """Whichever broker gives it, and whichever is the controller."""
    given = [producer_id(cluster[number]) for number in (1, 2, 3)]
    cluster[3].stop()
    cluster[3].start()
    assert cluster.metadata().controller_id in (1, 2)
    given += [producer_id(cluster[number]) for number in (1, 2, 3)]
    for number in (1, 2):
        cluster[number].stop()
        cluster[number].start()
    cluster.wait_for_controller(3)
    given += [producer_id(cluster[number]) for number in (1, 2, 3)]
    assert len(set(given)) == 9
