"""No request to the controller of a cluster holds its event loop, however large."""

from __future__ import annotations

from typing import Final

import pytest

import kafkapy
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafkapy.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kafkapy.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from kafkapy.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.cluster.test_cluster import create
from tests.network.loop_watch import LoopWatch
from tests.network.raw_client import RawClient

MANY: Final = 10_000


def move(topic: str, partitions: range, replicas: list[int]) -> AlterPartitionReassignmentsRequest:
    wanted = [ReassignablePartition(partition_index=n, replicas=replicas) for n in partitions]
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=wanted)])


REQUESTS: Final[dict[str, tuple[TopMessage, int]]] = {
    "a partition is to have many replicas": (move("t", range(1), list(range(100_000))), 1),
    "many partitions that do not exist are to move": (move("no", range(MANY), [1]), 1),
    "many partitions are asked for that do not move": (
        ListPartitionReassignmentsRequest(
            topics=[ListPartitionReassignmentsTopics(name="t", partition_indexes=list(range(10 * MANY)))]
        ),
        0,
    ),
    "leaders of partitions that do not exist": (
        ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="no", partitions=list(range(2 * MANY)))]),
        2,
    ),
    "topics without partitions": (
        CreateTopicsRequest(
            topics=[CreatableTopic(name=f"n{n}", num_partitions=0, replication_factor=1) for n in range(MANY)]
        ),
        7,
    ),
    "partitions that are to stop": (
        StopReplicaRequest(
            controller_epoch=1,
            topic_states=[
                StopReplicaTopicState(
                    topic_name="no",
                    partition_states=[
                        StopReplicaPartitionState(partition_index=n, delete_partition=True)
                        for n in range(3 * MANY)
                    ],
                )
            ],
        ),
        4,
    ),
    "replicas that are offline": (
        UpdateMetadataRequest(
            controller_epoch=1,
            topic_states=[
                UpdateMetadataTopicState(
                    topic_name="no",
                    partition_states=[
                        UpdateMetadataPartitionState(partition_index=n, offline_replicas=[1])
                        for n in range(MANY)
                    ],
                )
            ],
        ),
        8,
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
