"""kafkapy follows leaders of Apache Kafka, under a controller of Apache Kafka."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from interop.beside_kafka.conftest import StartMixed
from interop.beside_kafka.mixed_cluster import KAFKA, KAFKAPY, MixedCluster
from interop.beside_kafka.moves import move_from_and_to
from interop.beside_kafka.records import numbered, read, wait_until_equal, write
from interop.support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared_cluster(start_mixed: StartMixed) -> MixedCluster:
    cluster = start_mixed(
        {1: KAFKA, 2: KAFKA, 3: KAFKAPY},
        log_retention_check_interval_ms="1000",
        log_segment_delete_delay_ms="100",
    )
    cluster.wait_for_controller(1)
    return cluster


def test_replicas_are_equal_byte_for_byte(cluster: MixedCluster) -> None:
    cluster.create("orders", [[1, 2, 3], [2, 3, 1]], segment_bytes="1500000")
    for partition in range(2):
        write(cluster, "orders", [b"x" * 400] * 10_000, partition=partition)
        wait_until_equal(cluster, "orders", partition=partition)
        assert len(cluster.log_bytes(3, "orders", partition)) > 1
    assert [cluster.in_sync("orders", index, number=3) for index in range(2)] == [
        (1, [1, 2, 3]),
        (2, [1, 2, 3]),
    ]


def test_a_batch_larger_than_a_fetch_is_replicated(cluster: MixedCluster) -> None:
    cluster.create("large", max_message_bytes="9000000")
    write(cluster, "large", [bytes([number]) * 4_000_000 for number in range(3)])
    wait_until_equal(cluster, "large")


def test_a_topic_grows_and_changes_and_goes_and_comes_again(cluster: MixedCluster) -> None:
    cluster.create("changing", [[1, 2, 3]])
    write(cluster, "changing", numbered("before"))
    admin = cluster.admin()
    admin.create_partitions([NewPartitions("changing", 3)])["changing"].result()
    wait_until(lambda: len(cluster.topic("changing", 3)) == 3)
    cluster.wait_until_in_sync("changing")
    for partition in range(3):
        write(cluster, "changing", numbered("grown"), partition=partition)
        wait_until_equal(cluster, "changing", partition=partition)

    resource = ConfigResource(
        ResourceType.TOPIC,
        "changing",
        incremental_configs=[
            ConfigEntry("retention.ms", "12345678", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    admin.incremental_alter_configs([resource])[resource].result()
    asked, client = ConfigResource(ResourceType.TOPIC, "changing"), cluster.admin(3)
    wait_until(lambda: client.describe_configs([asked])[asked].result()["retention.ms"].value == "12345678")

    admin.delete_topics(["changing"])["changing"].result()
    wait_until(lambda: all("changing" not in cluster.metadata(number).topics for number in (1, 2, 3)))
    wait_until(lambda: not (cluster[3].data / "changing-0").exists())
    cluster.create("changing", [[2, 3, 1]])
    write(cluster, "changing", numbered("again"))
    wait_until_equal(cluster, "changing")
    assert read(cluster, "changing", 500) == numbered("again")


def test_a_topic_is_deleted_while_kafkapy_is_away(cluster: MixedCluster) -> None:
    cluster.create("gone", [[1, 2, 3], [3, 1, 2]])
    write(cluster, "gone", numbered("before"))
    cluster[3].stop()
    admin = cluster.admin(1)
    admin.delete_topics(["gone"])["gone"].result()
    cluster[3].start()
    wait_until(lambda: not list(cluster[3].data.glob("gone-[01]")))
    cluster.create("gone", [[1, 2, 3], [3, 1, 2]])
    write(cluster, "gone", numbered("again"))
    assert wait_until_equal(cluster, "gone").count(b"before") == 0


@pytest.mark.parametrize("leader", [1, 3])
def test_deleted_records_go_on_every_broker(cluster: MixedCluster, leader: int) -> None:
    topic, others = f"shortened-{leader}", [number for number in (1, 2, 3) if number != leader]
    cluster.create(topic, [[leader, *others]], segment_bytes="20000")
    for _ in range(10):
        write(cluster, topic, [b"x" * 100] * 100)
    admin = cluster.admin()
    asked = TopicPartition(topic, 0, 750)
    assert admin.delete_records([asked])[asked].result().low_watermark == 750
    wait_until(lambda: all(min(cluster.log_bytes(each, topic)) > f"{500:020}.log" for each in (1, 2, 3)))
    wait_until_equal(cluster, topic)


@pytest.mark.parametrize("number", [2, 3], ids=["kafka", "kafkapy"])
def test_a_replica_whose_directory_was_removed_is_fetched_again(cluster: MixedCluster, number: int) -> None:
    """The operator's way to rebuild a replica.

    Its log begins where the leader's does.
    """
    topic, leader = f"rebuilt-{number}", 5 - number
    cluster.create(topic, [[leader, 1, number]], segment_bytes="20000")
    for _ in range(10):
        write(cluster, topic, [b"x" * 100] * 100)
    asked, admin = TopicPartition(topic, 0, 750), cluster.admin()
    assert admin.delete_records([asked])[asked].result().low_watermark == 750
    wait_until_equal(cluster, topic)
    cluster[number].stop()
    shutil.rmtree(cluster[number].data / f"{topic}-0")
    cluster.start_all()
    cluster.wait_until_in_sync(topic)
    write(cluster, topic, [b"after"])

    def is_rebuilt() -> bool:
        rebuilt, whole = (b"".join(cluster.log_bytes(each, topic).values()) for each in (number, leader))
        return b"after" in rebuilt and whole.endswith(rebuilt)

    wait_until(is_rebuilt)


def test_replicas_move_from_and_to_kafkapy(cluster: MixedCluster, tmp_path: Path) -> None:
    """Apache Kafka's controller moves them."""
    assert cluster.metadata().controller_id in (1, 2)
    move_from_and_to(3, cluster, tmp_path / "plan.json")


@pytest.mark.parametrize(("ahead", "behind"), [(3, 1), (1, 3)], ids=["kafkapy", "kafka"])
def test_a_tail_that_another_leader_has_not_is_truncated(
    cluster: MixedCluster, ahead: int, behind: int
) -> None:
    """`ahead` writes alone, `behind` is elected uncleanly, and `ahead` follows it."""
    topic = f"diverged-{ahead}"
    cluster.create(topic, [[ahead, behind]], min_insync_replicas="1", unclean_leader_election_enable="true")
    write(cluster, topic, numbered("both"))
    cluster[behind].kill()
    wait_until(lambda: cluster.in_sync(topic, number=2) == (ahead, [ahead]))
    for _ in range(3):
        write(cluster, topic, numbered("lost", 100), acks="1")
    cluster[ahead].kill()
    cluster.start_all(without=ahead)
    wait_until(lambda: cluster.in_sync(topic, number=2) == (behind, [behind]))
    for _ in range(2):
        write(cluster, topic, numbered("kept", 50), acks="1")
    cluster.start_all()
    cluster.wait_until_in_sync(topic, 2)
    write(cluster, topic, numbered("after", 10))
    whole = wait_until_equal(cluster, topic, brokers=(ahead, behind))
    assert (whole.count(b"lost"), whole.count(b"kept"), whole.count(b"after")) == (0, 100, 10)
