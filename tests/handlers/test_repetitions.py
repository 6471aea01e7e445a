"""A request that names one thing thousands of times is answered about one thing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import kafkapy
from kafkapy.broker.core import BrokerCore
from kafkapy.handlers.list_partition_reassignments import handle as list_moves
from kafkapy.loop.turns import at_once
from kafkapy.protocol.codec import holds_more
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages import (
    consumer_group_describe,
    describe_client_quotas,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_share_group_offsets,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    fetch,
    find_coordinator,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_fetch,
    offset_for_leader_epoch,
    read_share_group_state,
    read_share_group_state_summary,
    share_fetch,
    share_group_describe,
    streams_group_describe,
)
from kafkapy.protocol.types import TopicPartition, Uuid
from kafkapy.share.share_partition import StoredBatch
from kafkapy.share.state import ShareState
from kafkapy.share.state_records import ShareKey
from kafkapy.storage.log.producers import ProducerEntry
from tests.handlers.group_client import commit
from tests.handlers.group_client import find_coordinator as find
from tests.handlers.produce_client import create_topic
from tests.handlers.share_client import ShareMember
from tests.network.raw_client import RawClient

TIMES = 10_000
PRODUCERS = BATCHES = 20
VALUES = 1_000
"""More than any of these answers holds when each thing is answered once."""


@pytest.fixture
def client(kafka_broker: kafkapy.Broker) -> Iterator[RawClient]:
    """Has a partition with producers, an offset, and a share partition with batches."""
    with RawClient(kafka_broker.bootstrap_servers) as connected:
        find(connected, "any")
        find(connected, "any", key_type=1)
        find(connected, "g:AAAAAAAAAAAAAAAAAAAAAA:0", version=6, key_type=2)
        create_topic(connected, "t")
        commit(connected, "g", {("t", 0): 5})
        topic_id = topic_id_of(connected)

        async def know(core: BrokerCore) -> None:
            producers = {}
            for producer_id in range(PRODUCERS):
                entry = producers[producer_id] = ProducerEntry()
                entry.epoch, entry.last_timestamp = 0, int(time.time() * 1000)
                entry.add_batch(0, 0, 0, entry.last_timestamp)
            log = core.replicas.partition("t", 0).log
            log.producers.restore(producers, log.log_end_offset)
            batches = tuple(StoredBatch(2 * number, 2 * number, 0, 1) for number in range(BATCHES))
            core.shares.coordinator.states[ShareKey("g", topic_id, 0)] = ShareState(batches=batches)

        kafka_broker.call(know)
        yield connected


def topic_id_of(client: RawClient) -> Uuid:
    request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="t")])
    topic_id: Uuid = client.ask(request, 12).topics[0].topic_id
    return topic_id


REQUESTS: list[tuple[TopMessage, int]] = [
    (
        describe_producers.DescribeProducersRequest(
            topics=[
                describe_producers.TopicRequest(name="t", partition_indexes=[0] * (TIMES // 10))
                for _ in range(10)
            ]
        ),
        0,
    ),
    (describe_transactions.DescribeTransactionsRequest(transactional_ids=["x"] * TIMES), 0),
    (
        describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
            groups=[
                describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
            ]
            * TIMES
        ),
        1,
    ),
    (
        describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
            groups=[
                describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(
                    group_id="g",
                    topics=[
                        describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic(
                            topic_name="t", partitions=[0] * TIMES
                        )
                    ],
                )
            ]
        ),
        1,
    ),
    (describe_groups.DescribeGroupsRequest(groups=["g"] * TIMES), 5),
    (consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=["g"] * TIMES), 1),
    (share_group_describe.ShareGroupDescribeRequest(group_ids=["g"] * TIMES), 1),
    (streams_group_describe.StreamsGroupDescribeRequest(group_ids=["g"] * TIMES), 0),
    (
        describe_configs.DescribeConfigsRequest(
            resources=[describe_configs.DescribeConfigsResource(resource_type=2, resource_name="t")] * TIMES
        ),
        4,
    ),
    (
        describe_log_dirs.DescribeLogDirsRequest(
            topics=[describe_log_dirs.DescribableLogDirTopic(topic="t", partitions=[0] * TIMES)]
        ),
        4,
    ),
    (
        describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[describe_topic_partitions.TopicRequest(name="t")] * TIMES
        ),
        0,
    ),
    (find_coordinator.FindCoordinatorRequest(coordinator_keys=["g"] * TIMES), 6),
    (metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="t")] * TIMES), 12),
    (
        offset_fetch.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)] * TIMES
        ),
        9,
    ),
    (
        fetch.FetchRequest(
            max_wait_ms=0,
            topics=[
                fetch.FetchTopic(
                    topic="t", partitions=[fetch.FetchPartition(partition_max_bytes=1 << 20)] * (TIMES // 10)
                )
            ]
            * 10,
        ),
        12,
    ),
    (
        offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    topic="t",
                    partitions=[offset_for_leader_epoch.OffsetForLeaderPartition(leader_epoch=0)]
                    * (TIMES // 10),
                )
            ]
            * 10
        ),
        4,
    ),
    (
        list_partition_reassignments.ListPartitionReassignmentsRequest(
            topics=[
                list_partition_reassignments.ListPartitionReassignmentsTopics(
                    name="t", partition_indexes=[0] * TIMES
                )
            ]
        ),
        0,
    ),
    (
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
            users=[describe_user_scram_credentials.UserName(name="u")] * TIMES
        ),
        0,
    ),
    (
        describe_client_quotas.DescribeClientQuotasRequest(
            components=[describe_client_quotas.ComponentData(entity_type="user", match_type=0, match="u")]
            * TIMES
        ),
        1,
    ),
]


@pytest.mark.parametrize(("request_", "version"), REQUESTS, ids=lambda each: type(each).__name__)
def test_a_thing_that_is_named_ten_thousand_times_is_answered_once(
    client: RawClient, request_: TopMessage, version: int
) -> None:
    assert not holds_more(client.ask(request_, version), VALUES)


def test_the_producers_of_a_partition_are_described_once(client: RawClient) -> None:
    response = client.ask(REQUESTS[0][0], 0)
    ((partition,),) = [topic.partitions for topic in response.topics]
    assert len(partition.active_producers) == PRODUCERS


def test_the_state_of_a_share_partition_is_read_once(kafka_broker: kafkapy.Broker, client: RawClient) -> None:
    topic_id = topic_id_of(client)
    states, summaries = read_share_group_state, read_share_group_state_summary
    read_request = states.ReadShareGroupStateRequest(
        group_id="g",
        topics=[
            states.ReadStateData(
                topic_id=topic_id, partitions=[states.PartitionData(leader_epoch=-1)] * (TIMES // 10)
            )
            for _ in range(10)
        ],
    )
    read = kafka_broker.call(lambda core: core.inter_broker.ask(core.node_id, read_request, seconds=60))
    ((result,),) = [topic.partitions for topic in read.results]
    assert (result.error_code, len(result.state_batches)) == (0, BATCHES)
    summary_request = summaries.ReadShareGroupStateSummaryRequest(
        group_id="g",
        topics=[
            summaries.ReadStateSummaryData(topic_id=topic_id, partitions=[summaries.PartitionData()] * TIMES)
        ],
    )
    summary = kafka_broker.call(lambda core: core.inter_broker.ask(core.node_id, summary_request, seconds=60))
    assert [len(topic.partitions) for topic in summary.results] == [1]


def test_a_partition_that_is_fetched_by_a_share_member_ten_thousand_times_is_answered_once(
    client: RawClient,
) -> None:
    topic_id = topic_id_of(client)
    member = ShareMember(client, "t", topic_id, group="shared")
    member.join()
    partition = share_fetch.FetchPartition(partition_index=0)
    request = share_fetch.ShareFetchRequest(
        group_id="shared",
        member_id=member.member,
        share_session_epoch=0,
        max_wait_ms=0,
        max_bytes=1 << 20,
        topics=[share_fetch.FetchTopic(topic_id=topic_id, partitions=[partition] * (TIMES // 10))] * 10,
    )
    response = client.ask(request, 1)
    assert [len(topic.partitions) for topic in response.responses] == [1]


def test_a_partition_whose_offset_is_asked_for_twice_is_refused_without_a_search(client: RawClient) -> None:
    wanted = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=1)
    request = list_offsets.ListOffsetsRequest(
        topics=[list_offsets.ListOffsetsTopic(name="t", partitions=[wanted] * TIMES)]
    )
    ((topic),) = client.ask(request, 7).topics
    assert {each.error_code for each in topic.partitions} == {ErrorCode.INVALID_REQUEST}


def test_a_move_that_is_asked_for_ten_thousand_times_is_listed_once() -> None:
    state = SimpleNamespace(replicas=(1, 2), adding=(2,), removing=())
    controller = SimpleNamespace(moving=lambda: {TopicPartition("t", 0): state})
    admin = SimpleNamespace(controller=controller, active_controller=lambda: controller)
    context: Any = SimpleNamespace(broker=SimpleNamespace(admin=admin))
    topic = list_partition_reassignments.ListPartitionReassignmentsTopics(
        name="t", partition_indexes=[0] * (TIMES // 10)
    )
    request = list_partition_reassignments.ListPartitionReassignmentsRequest(topics=[topic] * 10)
    (listed,) = at_once(list_moves(context, request)).topics
    assert [each.replicas for each in listed.partitions] == [[1, 2]]
