"""Moves replicas by kafka-reassign-partitions."""

from __future__ import annotations

import json
from pathlib import Path

from interop.beside_kafka.mixed_cluster import MixedCluster
from interop.beside_kafka.records import numbered, read, wait_until_equal, write
from interop.java_tools.tools import tool
from interop.support.waiting import wait_until


def reassign(cluster: MixedCluster, plan: Path, topic: str, *assignment: list[int]) -> None:
    """Give each partition these replicas, and wait for the end of the move.

    Then they alone are in sync.
    """
    partitions = [
        {"topic": topic, "partition": index, "replicas": replicas}
        for index, replicas in enumerate(assignment)
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    arguments = ("--reassignment-json-file", str(plan), "--execute")
    tool("reassign-partitions", cluster.bootstrap_servers, *arguments)
    for index, replicas in enumerate(assignment):
        cluster.wait_for_in_sync(topic, replicas, index)
    wait_until(lambda: topic not in tool("reassign-partitions", cluster.bootstrap_servers, "--list"))


def move_from_and_to(number: int, cluster: MixedCluster, plan: Path) -> None:
    """Move a topic's replicas to one of three brokers and away from it: no record is lost.

    The replicas that a broker does not have any more are deleted.
    """
    first, second = sorted({1, 2, 3} - {number})
    cluster.create("moved", [[first, second], [number, first]])
    for partition in range(2):
        write(cluster, "moved", numbered("before"), partition=partition)
    reassign(cluster, plan, "moved", [number, first], [second, first])
    wait_until(lambda: not (cluster[second].data / "moved-0").exists())
    wait_until(lambda: not (cluster[number].data / "moved-1").exists())
    for partition, brokers in ((0, (number, first)), (1, (second, first))):
        write(cluster, "moved", numbered("after"), partition=partition)
        wait_until_equal(cluster, "moved", partition=partition, brokers=brokers)
    reassign(cluster, plan, "moved", [number], [number])
    reassign(cluster, plan, "moved", [1, 2, 3], [1, 2, 3])
    for partition in range(2):
        wait_until_equal(cluster, "moved", partition=partition)
        assert read(cluster, "moved", 1000, partition=partition) == numbered("before") + numbered("after")
