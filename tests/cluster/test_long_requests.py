"""No request to the controller of a cluster holds its event loop, however large."""

from __future__ import annotations

from typing import Any, Final

import pytest

import kafkapy
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kafkapy.protocol.messages.create_topics import CreateTopicsRequest
from kafkapy.protocol.messages.elect_leaders import ElectLeadersRequest
from kafkapy.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kafkapy.protocol.messages.stop_replica import StopReplicaRequest
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.cluster.test_cluster import create
from tests.network.loop_watch import LoopWatch
from tests.network.raw_client import RawClient
from tests.protocol.long_messages import long_message

MANY: Final = 10_000
Request = tuple[TopMessage, int]
"""A request and its version."""


def many(cls: type[TopMessage], version: int, path: str, count: int, /, **values: Any) -> Request:
    """A request whose array at `path` has so many elements, and its version."""
    return long_message(cls, version, path, count, **values), version


REQUESTS: Final[dict[str, Request]] = {
    "a partition is to have many replicas": many(
        *(AlterPartitionReassignmentsRequest, 1, "topics.partitions.replicas", 100_000), name="t"
    ),
    "many partitions that do not exist are to move": many(
        *(AlterPartitionReassignmentsRequest, 1, "topics.partitions", MANY), name="no", replicas=[1]
    ),
    "many partitions are asked for that do not move": many(
        *(ListPartitionReassignmentsRequest, 0, "topics.partition_indexes", 10 * MANY), name="t"
    ),
    "leaders of partitions that do not exist": many(
        *(ElectLeadersRequest, 2, "topic_partitions.partitions", 2 * MANY), topic="no"
    ),
    "topics without partitions": many(
        *(CreateTopicsRequest, 7, "topics", MANY),
        num_partitions=0,
        replication_factor=1,
        assignments=[],
        configs=[],
    ),
    "partitions that are to stop": many(
        *(StopReplicaRequest, 4, "topic_states.partition_states", 3 * MANY),
        controller_epoch=1,
        topic_name="no",
        delete_partition=True,
    ),
    "replicas that are offline": many(
        *(UpdateMetadataRequest, 8, "topic_states.partition_states", MANY),
        controller_epoch=1,
        topic_name="no",
        isr=[],
        replicas=[],
        offline_replicas=[1],
    ),
}


@pytest.mark.parametrize("what", REQUESTS)
def test_a_long_request_does_not_hold_the_event_loop(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    request, version = REQUESTS[what]
    watch = LoopWatch(monkeypatch)
    with kafkapy.Cluster(brokers=1) as cluster, RawClient(cluster.bootstrap_servers) as client:
        create(cluster, "t", 1, 1)
        watch.follow(cluster[1])
        with watch.watching():
            client.ask(request, version)
        watch.check()
