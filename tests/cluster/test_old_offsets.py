"""Any broker of a cluster takes offsets of clients of Kafka 0.8, and any other knows them."""

from __future__ import annotations

import kafkapy
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.cluster.test_cluster import create
from tests.network.raw_client import RawClient


def commit(servers: str, group: str, topic: str, *, metadata: str = "", **offsets: int) -> list[int]:
    """Commit offsets of partitions p0, p1 …; return the errors."""
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=int(name[1:]), committed_offset=offset, committed_metadata=metadata
        )
        for name, offset in offsets.items()
    ]
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    )
    with RawClient(servers) as client:
        (answer,) = client.ask(request, 0).topics
    return [each.error_code for each in answer.partitions]


def fetch(servers: str, group: str, topic: str, *partitions: int) -> list[tuple[int, int]]:
    """The offset and the error of each partition."""
    asked = OffsetFetchRequestTopic(name=topic, partition_indexes=list(partitions))
    with RawClient(servers) as client:
        (answer,) = client.ask(OffsetFetchRequest(group_id=group, topics=[asked]), 0).topics
    return [(each.committed_offset, each.error_code) for each in answer.partitions]


def test_offsets_of_version_0_are_those_of_the_whole_cluster() -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with kafkapy.Cluster(brokers=2, config={"controlled.shutdown.enable": False}) as cluster:
        create(cluster, "t", 3, 2)
        first, second = (cluster[broker].bootstrap_servers for broker in (1, 2))
        assert commit(first, "g", "t", p0=5, p1=6, p7=8) == [ErrorCode.NONE, ErrorCode.NONE, unknown]
        assert commit(first, "g", "t", metadata="x" * 5000, p2=1) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
        assert commit(second, "g", "nowhere", p0=5) == [unknown]
        for servers in (first, second):
            assert fetch(servers, "g", "t", 0, 1, 2, 1, 7) == [(5, 0), (6, 0), (-1, unknown), (-1, unknown)]
            assert fetch(servers, "g", "nowhere", 0) == [(-1, unknown)]
            invalid = ErrorCode.INVALID_GROUP_ID
            assert commit(servers, "../brokers/topics", "t", p0=1) == [invalid]
            assert fetch(servers, "../brokers/topics", "t", 0) == [(-1, invalid)]
        assert commit(second, "g", "t", p0=9) == [ErrorCode.NONE]
        assert fetch(first, "g", "t", 0) == [(9, 0)]
        # They are not those of the coordinator, and no offsets topic was made for them.
        assert set(cluster[1].core.metadata.image.topics) == {"t"}
