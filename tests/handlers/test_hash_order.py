"""Lists are in the order of Apache Kafka 4.3.1, as its own classes gave it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kafkapy
from kafkapy.coordination.partitioning import java_hash
from kafkapy.handlers.hash_order import in_hash_order, names_in_hash_order, partitions_in_hash_order
from kafkapy.loop.turns import at_once
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkapy.protocol.topic_names import GROUP_METADATA_TOPIC
from kafkapy.protocol.types import random_uuid
from tests.groups.consumer.consumer_world import join
from tests.handlers.group_client import commit, fetch_offsets, find_coordinator
from tests.handlers.produce_client import create_topic
from tests.network.raw_client import RawClient

NAMES_IN_ORDER = {
    2: [1, 0],
    3: [2, 1, 0],
    7: [6, 5, 4, 3, 2, 1, 0],
    20: [9, 8, 7, 6, 19, 18, 5, 17, 4, 16, 3, 15, 2, 1, 14, 0, 13, 12, 11, 10],
}
"""The order of member-0-ü, member-1-ü and so on in a TimelineHashMap of so many."""

NUMBERS_IN_ORDER = {
    3: [2, 0, 1],
    20: [13, 0, 18, 5, 10, 2, 15, 7, 12, 4, 17, 9, 1, 14, 19, 6, 11, 3, 16, 8],
}

PARTITIONS_IN_ORDER = {
    4: [0, 3, 1, 2],
    11: [0, 9, 10, 7, 8, 5, 6, 3, 4, 1, 2],
    12: [11, 9, 10, 0, 7, 8, 5, 6, 3, 4, 1, 2],
}


@pytest.fixture
def client(kafka_broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(kafka_broker.bootstrap_servers) as connected:
        find_coordinator(connected, "g")
        yield connected


@pytest.mark.parametrize("count", NAMES_IN_ORDER)
def test_names_are_in_the_order_of_a_timeline_hash_map(count: int) -> None:
    names = [f"member-{number}-ü" for number in range(count)]
    assert at_once(names_in_hash_order(names)) == [names[place] for place in NAMES_IN_ORDER[count]]


@pytest.mark.parametrize("count", NUMBERS_IN_ORDER)
def test_numbers_are_in_the_order_of_a_timeline_hash_map(count: int) -> None:
    assert at_once(in_hash_order(range(count), int)) == NUMBERS_IN_ORDER[count]


@pytest.mark.parametrize("count", PARTITIONS_IN_ORDER)
def test_partitions_are_in_the_order_of_a_concurrent_hash_map(count: int) -> None:
    assert partitions_in_hash_order(GROUP_METADATA_TOPIC, range(count)) == PARTITIONS_IN_ORDER[count]


def test_nothing_has_an_order() -> None:
    assert at_once(names_in_hash_order(())) == []


def test_the_hash_of_a_text_is_that_of_java() -> None:
    assert java_hash("") == 0
    assert java_hash("hello") == 99162322
    assert java_hash("ü€\U0001f600") == 17318035
    for length in (255, 256, 257, 1_000):
        text = "".join(chr(40 + place * 7 % 1_000) for place in range(length))
        code = 0
        for character in text:
            code = (31 * code + ord(character)) % 2**32
        assert java_hash(text) == (code - 2**32 if code >= 2**31 else code)


def test_consumer_groups_list_their_members_in_order(client: RawClient) -> None:
    create_topic(client, "t", 3)
    for member_id in ("member-1", "member-2"):
        assert client.ask(join(member_id), 1).error_code == ErrorCode.NONE
    (group,) = client.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert [member.member_id for member in group.members] == ["member-2", "member-1"]


def test_all_groups_are_listed_in_order(client: RawClient) -> None:
    create_topic(client, "t")
    ids = [f"member-{number}-ü" for number in range(20)]
    for group_id in ids:
        commit(client, group_id, {("t", 0): 1})
    listed = [group.group_id for group in client.ask(ListGroupsRequest(), 5).groups]
    (topic,) = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=GROUP_METADATA_TOPIC)]), 4).topics
    count = len(topic.partitions)
    partitions = partitions_in_hash_order(GROUP_METADATA_TOPIC, range(count))

    def partition(group_id: str) -> int:
        return partitions.index(abs(java_hash(group_id)) % count)

    assert sorted(listed) == sorted(ids)
    assert [partition(group_id) for group_id in listed] == sorted(map(partition, ids))


def test_all_offsets_of_a_group_are_in_order(client: RawClient) -> None:
    topics = [f"member-{number}-" for number in range(3)]
    for topic in topics:
        create_topic(client, topic, 3)
    commit(client, "g", {(topic, index): 1 for topic in topics for index in range(3)})
    group = fetch_offsets(client, "g", None)
    assert [topic.name for topic in group.topics] == at_once(names_in_hash_order(topics))
    for topic in group.topics:
        assert [each.partition_index for each in topic.partitions] == NUMBERS_IN_ORDER[3]


def test_topics_with_an_unknown_id_come_last(client: RawClient) -> None:
    topic_id, unknown = create_topic(client, "t"), random_uuid()
    assert topic_id is not None
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id="g",
                topics=[
                    OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0])
                    for each in (unknown, topic_id)
                ],
            )
        ]
    )
    (group,) = client.ask(request, 10).groups
    assert [topic.topic_id for topic in group.topics] == [topic_id, unknown]
    assert [topic.partitions[0].error_code for topic in group.topics] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
