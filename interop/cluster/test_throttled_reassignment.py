"""kafka-reassign-partitions of Kafka 3.9.1 moves replicas with a throttle.

It takes the throttle away again.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.cluster.conftest import StartCluster
from interop.support.cluster_processes import ClusterProcesses
from interop.support.kafka_jars import java_command
from interop.support.throttles import RATES, throttled_rates, throttled_replicas
from interop.support.waiting import wait_until
from interop.support.zookeeper_process import RELEASE

TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
RATE = 1_000_000
RECORDS, SIZE = 120, 50_000
LEAST_SECONDS = 3.0
"""Six megabytes at RATE take 6 s, less what the first answers bring before there is a rate."""


def reassign(cluster: ClusterProcesses, plan: Path, *arguments: str) -> str:
    """Run the tool with a plan."""
    command = [*java_command(RELEASE), TOOL, "--bootstrap-server", cluster.bootstrap_servers]
    command += ["--reassignment-json-file", str(plan), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_replicas_are_moved_with_a_throttle(start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster(
        3,
        min_insync_replicas="1",
        replica_fetch_max_bytes="200000",
        replica_fetch_response_max_bytes="200000",
    )
    client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    client.create_topics([NewTopic("moved", 2, replica_assignment=[[1], [1]])])["moved"].result()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(RECORDS):
        producer.produce("moved", os.urandom(SIZE), partition=number % 2)
    assert producer.flush(30) == 0
    plan = tmp_path / "plan.json"
    partitions = [{"topic": "moved", "partition": index, "replicas": [2, 3]} for index in range(2)]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))

    begun = time.monotonic()
    told = reassign(cluster, plan, "--execute", "--throttle", str(RATE))
    assert f"The inter-broker throttle limit was set to {RATE} B/s" in told
    assert "Successfully started partition reassignments for moved-0,moved-1" in told
    assert throttled_replicas(client, "moved") == {
        "leader.replication.throttled.replicas": "0:1,1:1",
        "follower.replication.throttled.replicas": "0:2,0:3,1:2,1:3",
    }
    for broker in (1, 2, 3):
        assert throttled_rates(client, broker) == dict.fromkeys(RATES, str(RATE))
    assert "is still in progress" in reassign(cluster, plan, "--verify")

    def is_moved() -> bool:
        return all(sorted(each.isrs) == [2, 3] for each in cluster.topic("moved").partitions.values())

    wait_until(is_moved, timeout=60)
    assert time.monotonic() - begun >= LEAST_SECONDS
    told = reassign(cluster, plan, "--verify")
    assert "Reassignment of partition moved-0 is completed." in told
    assert "Clearing broker-level throttles on brokers 1,2,3" in told
    assert "Clearing topic-level throttles on topic moved" in told
    assert throttled_replicas(client, "moved") == {}
    for broker in (1, 2, 3):
        assert throttled_rates(client, broker) == {}
