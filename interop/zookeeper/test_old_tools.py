"""Kafka 2.8.2's tools with --zookeeper write the tree themselves: the brokers obey."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from interop.support.cluster_processes import ClusterProcesses
from interop.support.jars_or_skip import skipped_without_jars
from interop.support.kafka_jars import java_command, kafka_jars
from interop.support.throttles import LISTS, RATES, throttled_rates, throttled_replicas
from interop.support.waiting import wait_until
from interop.support.zookeeper_process import ZooKeeperProcess
from interop.zookeeper.conftest import StartBroker

pytestmark = pytest.mark.slow

RELEASE = "2.8.2"
"""The last release whose tools take --zookeeper for topics."""


@pytest.fixture(scope="module", autouse=True)
def jars() -> None:
    with skipped_without_jars():
        kafka_jars(RELEASE)


async def run(tool: str, connect: str, *arguments: str) -> str:
    command = [*java_command(RELEASE), f"kafka.admin.{tool}", "--zookeeper", connect, *arguments]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def test_topics_are_created_grown_changed_and_deleted(start_broker: StartBroker, connect: str) -> None:
    broker = await start_broker(1)
    create = ("--create", "--topic", "t", "--partitions", "2", "--replication-factor", "1")
    await run("TopicCommand", connect, *create, "--config", "retention.ms=5000")
    await broker.until(lambda image: "t" in image.topics and not image.unfinished)
    topic = broker.image.topics["t"]
    assert any(topic.id)
    assert topic.configs == {"retention.ms": "5000"}
    assert [state[:4] for state in topic.partitions] == [(1, 0, (1,), (1,))] * 2
    await run("TopicCommand", connect, "--alter", "--topic", "t", "--partitions", "3")
    await broker.until(lambda image: len(image.topics["t"].partitions) == 3 and not image.unfinished)
    entity = ("--entity-type", "topics", "--entity-name", "t")
    await run("ConfigCommand", connect, "--alter", *entity, "--add-config", "segment.ms=60000")
    await broker.until(lambda image: image.topics["t"].configs.get("segment.ms") == "60000")
    assert "Leader: 1" in await run("TopicCommand", connect, "--describe", "--topic", "t")
    await run("TopicCommand", connect, "--delete", "--topic", "t")
    await broker.until(lambda image: not image.topics)
    assert await broker.store.children("/brokers/topics") == []


@pytest.fixture
def cluster(zookeeper: ZooKeeperProcess, hand: KazooClient, tmp_path: Path) -> Iterator[ClusterProcesses]:
    """Three brokers on the tree of the test."""
    settings = {"auto.leader.rebalance.enable": "false"}
    with ClusterProcesses(tmp_path, zookeeper, chroot=hand.chroot, properties=settings) as processes:
        yield processes


def described(connect: str, *options: str) -> list[str]:
    """The partitions, or topics, that kafka-topics names with some options."""
    told = asyncio.run(run("TopicCommand", connect, "--describe", *options)).splitlines()
    found = [dict(pair.split(": ", 1) for pair in line.strip().split("\t") if ": " in pair) for line in told]
    return [
        f"{each['Topic']}-{each['Partition']}" if "Partition" in each else each["Topic"] for each in found
    ]


def test_partitions_in_trouble_are_found(cluster: ClusterProcesses, connect: str) -> None:
    client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    topics = [
        NewTopic("whole", 1, replica_assignment=[[1, 3]]),
        NewTopic("lame", 1, replica_assignment=[[1, 2]], config={"retention.ms": "5000"}),
        NewTopic("lost", 1, replica_assignment=[[2]]),
    ]
    for created in client.create_topics(topics).values():
        created.result()
    assert described(connect, "--under-replicated-partitions") == []
    assert described(connect, "--unavailable-partitions") == []
    assert described(connect, "--topics-with-overrides") == ["lame"]
    cluster[2].kill()
    wait_until(lambda: cluster.leader("lost") < 0 and cluster.leader("lame") == 1, timeout=30)
    wait_until(lambda: len(cluster.topic("lame").partitions[0].isrs) == 1, timeout=30)
    assert described(connect, "--under-replicated-partitions") == ["lame-0"]
    assert described(connect, "--unavailable-partitions") == ["lost-0"]


def test_replicas_are_moved_and_preferred_ones_lead_again(
    cluster: ClusterProcesses, connect: str, tmp_path: Path
) -> None:
    client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    client.create_topics([NewTopic("t", 1, replica_assignment=[[1, 2]])])["t"].result()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(100):
        producer.produce("t", b"%d" % number, partition=0)
    assert producer.flush(30) == 0
    plan = tmp_path / "plan.json"
    partitions = [{"topic": "t", "partition": 0, "replicas": [3, 1]}]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    reassign = ("ReassignPartitionsCommand", connect, "--reassignment-json-file", str(plan))
    assert "Successfully started partition reassignment" in asyncio.run(run(*reassign, "--execute"))
    wait_until(lambda: sorted(cluster.topic("t").partitions[0].isrs) == [1, 3], timeout=30)
    assert "is complete" in asyncio.run(run(*reassign, "--verify"))
    assert cluster.topic("t").partitions[0].replicas == [3, 1]

    election = tmp_path / "election.json"
    election.write_text(json.dumps({"partitions": [{"topic": "t", "partition": 0}]}))
    asyncio.run(run("PreferredReplicaLeaderElectionCommand", connect, "--path-to-json-file", str(election)))
    wait_until(lambda: cluster.leader("t") == 3, timeout=30)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "log_level": 0})
    assert consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=10) == (0, 100)
    consumer.close()


def test_a_generated_plan_is_carried_out_with_a_throttle(
    cluster: ClusterProcesses, connect: str, tmp_path: Path
) -> None:
    client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    client.create_topics([NewTopic("t", 2, replica_assignment=[[1, 2], [2, 1]])])["t"].result()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(200):
        producer.produce("t", b"%d" % number, partition=number % 2)
    assert producer.flush(30) == 0
    topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "t"}]}))
    move = ("ReassignPartitionsCommand", connect)
    choice = ("--topics-to-move-json-file", str(topics), "--broker-list", "2,3")
    told = asyncio.run(run(*move, *choice, "--generate")).splitlines()
    current, proposed = (json.loads(line)["partitions"] for line in told if line.startswith("{"))
    assert [each["replicas"] for each in current] == [[1, 2], [2, 1]]
    assert [sorted(each["replicas"]) for each in proposed] == [[2, 3], [2, 3]]

    plan.write_text(json.dumps({"version": 1, "partitions": proposed}))
    reassign = (*move, "--reassignment-json-file", str(plan))
    told_of_start = asyncio.run(run(*reassign, "--execute", "--throttle", "100000"))
    assert "The inter-broker throttle limit was set to 100000 B/s" in told_of_start
    wait_until(lambda: throttled_replicas(client, "t").keys() == LISTS)
    for broker in (1, 2, 3):
        wait_until(lambda broker=broker: throttled_rates(client, broker) == dict.fromkeys(RATES, "100000"))  # type: ignore[misc]

    def are_moved() -> bool:
        return all(sorted(each.isrs) == [2, 3] for each in cluster.topic("t").partitions.values())

    wait_until(are_moved, timeout=60)
    assert "Clearing topic-level throttles on topic t" in asyncio.run(run(*reassign, "--verify"))
    wait_until(lambda: throttled_replicas(client, "t") == {})
    for broker in (1, 2, 3):
        wait_until(lambda broker=broker: throttled_rates(client, broker) == {})  # type: ignore[misc]


async def test_quotas_are_changed(start_broker: StartBroker, connect: str) -> None:
    broker = await start_broker(1)
    users = ("--entity-type", "users", "--entity-name", "some one")
    await run("ConfigCommand", connect, "--alter", *users, "--add-config", "producer_byte_rate=1024")
    await broker.until(lambda image: (("user", "some one"),) in image.client_quotas.configs)
    assert broker.image.client_quotas.configs[(("user", "some one"),)] == {"producer_byte_rate": "1024"}
