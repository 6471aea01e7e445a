"""Consumer groups (KIP-848) on both brokers.

Heartbeats and their errors, descriptions and commits are compared, with both protocols.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from interop.differential.brokers import Broker, Pair
from interop.differential.groups import Member, find_coordinator, heartbeat
from interop.support.waiting import wait_until
from kafkapy.groups.consumer.records import CONSUMER_RECORDS, ConsumerGroupKey
from kafkapy.groups.modern.topics import TopicsView
from kafkapy.groups.records import decode_key
from kafkapy.metadata.image import MetadataImage, PartitionState, Topic
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import TopMessage
from kafkapy.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkapy.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkapy.protocol.records import decode_records, iter_headers

pytestmark = pytest.mark.jvm

OFFSETS_TOPIC = "__consumer_offsets"
GROUP_EPOCH, REGULAR_EXPRESSION = 3, 16
"""The types of the keys of records."""


def beat(group: str, member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=epoch, **fields)


def join(group: str, member_id: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    given = {
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": list(topics),
        "topic_partitions": [],
        **fields,
    }
    return beat(group, member_id, 0, **given)


def ask(broker: Broker, label: str, request: ConsumerGroupHeartbeatRequest, version: int = 1) -> Any:
    """Ask, and note the message of an error too."""
    answer = broker.ask(label, request, version)
    message = answer.error_message
    broker.note(f"{label}: message", {"": message and message.replace(broker.prefix, "<prefix>")})
    return answer


def describe(broker: Broker, label: str, *groups: str) -> None:
    for version in broker.versions(ConsumerGroupDescribeRequest):
        request = ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=True)
        broker.ask(f"{label} v{version}", request, version)


def new_topic(broker: Broker, what: str | None = None, *, partitions: int = 1) -> str:
    """Make a topic, and wait until the coordinator knows it.

    In Apache Kafka that is a little later.
    """
    name, group = broker.topic(what, partitions), f"{broker.prefix}-waits"

    def is_known() -> bool:
        answer = broker.main.quietly(join(group, "m", name), 1)
        broker.main.quietly(beat(group, "m", -1), 1)
        return bool(answer.assignment.topic_partitions)

    wait_until(is_known, pause=0.3)
    return name


def until_assigned(broker: Broker, group: str, member_id: str, epoch: int, target: int) -> Any:
    """Send heartbeats until the member has reached an epoch."""
    answer: Any = None

    def reached() -> bool:
        nonlocal answer, epoch
        answer = broker.main.quietly(beat(group, member_id, epoch), 1)
        assert answer.error_code == ErrorCode.NONE, answer
        epoch = answer.member_epoch
        return bool(epoch >= target)

    wait_until(reached)
    return answer


def test_what_makes_no_sense(pair: Pair) -> None:
    def senseless(broker: Broker) -> None:
        find_coordinator(broker)
        topic, group = new_topic(broker), broker.name_of("group")
        for version in broker.versions(ConsumerGroupHeartbeatRequest):
            regex = {"subscribed_topic_regex": "("} if version else {}
            for label, request in {
                "no group": join("", "m", topic),
                "a blank group": join("  ", "m", topic),
                "no member id": join(group, "", topic) if version else beat(group, "", 3),
                "an empty instance id": join(group, "m", topic, instance_id=""),
                "an empty rack": join(group, "m", topic, rack_id=""),
                "no rebalance timeout": join(group, "m", topic, rebalance_timeout_ms=-1),
                "no partitions": join(group, "m", topic, topic_partitions=None),
                "partitions": join(
                    group,
                    "m",
                    topic,
                    topic_partitions=[TopicPartitions(topic_id=broker.topic_id(topic), partitions=[0])],
                ),
                "no subscription": join(group, "m", subscribed_topic_names=None),
                "an unknown assignor": join(group, "m", topic, server_assignor="mine"),
                "-2 without an instance id": beat(group, "m", -2),
                "epoch -3": beat(group, "m", -3),
                "no group yet": beat(group, "m", 5),
                "leaving no group": beat(group, "m", -1),
                "a bad expression": join(group, "m", **regex) if version else beat(group, "", 5),
            }.items():
                ask(broker, f"v{version} {label}", request, version)
        describe(broker, "no group", group)
        describe(broker, "no group id", "")

    pair.compare(senseless)


@pytest.mark.parametrize("regex", ["(", "[a", "a{2,1}", "a**", "(?=a)", "\\1", "*a", "(?P<n", "a\\", "\\pX"])
def test_what_is_no_expression_of_re2(pair: Pair, regex: str) -> None:
    def no_expression(broker: Broker) -> None:
        find_coordinator(broker)
        group = broker.name_of("group")
        request = join(group, "m", subscribed_topic_regex=regex, subscribed_topic_names=None)
        ask(broker, "join", request)

    pair.compare(no_expression)


def test_a_group_of_two(pair: Pair) -> None:
    def two(broker: Broker) -> None:
        find_coordinator(broker)
        topic, other = new_topic(broker, partitions=4), new_topic(broker, partitions=2)
        group = broker.name_of("group")
        id_ = broker.topic_id(topic)
        ask(broker, "join", join(group, "m1", topic, "missing", rack_id="r"))
        ask(broker, "join again", join(group, "m1", topic, "missing"))
        ask(broker, "heartbeat", beat(group, "m1", 2))
        describe(broker, "one member", group)
        ask(
            broker,
            "full heartbeat",
            beat(
                group,
                "m1",
                2,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=[topic, "missing"],
                topic_partitions=[TopicPartitions(topic_id=id_, partitions=[0, 1, 2, 3])],
            ),
        )
        ask(broker, "an epoch too many", beat(group, "m1", 3))
        ask(broker, "an epoch too few", beat(group, "m1", 0, rebalance_timeout_ms=60_000))
        ask(broker, "an unknown member", beat(group, "m9", 2))
        ask(broker, "second", join(group, "m2", topic, other, server_assignor="range"))
        describe(broker, "joining", group)
        listed(broker, "joining", group)
        commits(
            broker, "joining", group, topic, ("m1", 2), ("m1", 3), ("m1", 1), ("m2", 2), ("", -1), ("m9", 2)
        )
        wait_until(lambda: broker.main.quietly(beat(group, "m1", 2), 1).assignment is not None)
        ask(broker, "to give up again", beat(group, "m1", 2))
        describe(broker, "revoking", group)
        kept = [TopicPartitions(topic_id=id_, partitions=[0, 1])]
        given_up = ask(broker, "given up", beat(group, "m1", 2, topic_partitions=kept))
        answer = until_assigned(broker, group, "m2", 2, given_up.member_epoch)
        broker.note("second is assigned", {"epoch": answer.member_epoch})
        ask(broker, "old epoch, same partitions", beat(group, "m1", 2, topic_partitions=kept))
        ask(broker, "old epoch", beat(group, "m1", 2))
        describe(broker, "assigned", group)
        commits(broker, "assigned", group, topic, ("m1", given_up.member_epoch), ("m1", 2), ("m1", 1))
        fetches(
            broker, "assigned", group, topic, ("m1", given_up.member_epoch), ("m1", 2), ("m9", 2), (None, -1)
        )
        listed(broker, "assigned", group)
        broker.ask("delete", DeleteGroupsRequest(groups_names=[group]), 2)
        broker.ask("describe as classic", DescribeGroupsRequest(groups=[group]), 6)
        ask(broker, "first leaves", beat(group, "m1", -1))
        ask(broker, "first leaves again", beat(group, "m1", -1))
        describe(broker, "left", group)
        ask(broker, "second leaves", beat(group, "m2", -1))
        describe(broker, "empty", group)
        listed(broker, "empty", group)
        broker.ask("delete the empty group", DeleteGroupsRequest(groups_names=[group]), 2)
        describe(broker, "deleted", group)

    pair.compare(two)


def test_static_members(pair: Pair) -> None:
    def static(broker: Broker) -> None:
        find_coordinator(broker)
        topic, group = new_topic(broker, partitions=2), broker.name_of("group")
        ask(broker, "join", join(group, "m1", topic, instance_id="i"))
        ask(broker, "another one", join(group, "m2", topic, instance_id="i"))
        ask(broker, "heartbeat of another one", beat(group, "m2", 2, instance_id="i"))
        ask(broker, "unknown instance", beat(group, "m1", 2, instance_id="j"))
        ask(broker, "leave for now", beat(group, "m1", -2, instance_id="i"))
        describe(broker, "away", group)
        listed(broker, "away", group)
        ask(broker, "heartbeat while away", beat(group, "m1", 2, instance_id="i"))
        ask(broker, "back", join(group, "m2", topic, instance_id="i"))
        describe(broker, "back", group)
        ask(broker, "leave for ever", beat(group, "m2", -1, instance_id="i"))
        describe(broker, "gone", group)

    pair.compare(static)


def test_a_regular_expression(pair: Pair) -> None:
    def expression(broker: Broker) -> None:
        find_coordinator(broker)
        topic = new_topic(broker, "abc", partitions=2)
        group = broker.name_of("group")
        regex = f"{broker.prefix}-a.c"
        ask(broker, "join", join(group, "m1", subscribed_topic_regex=regex, subscribed_topic_names=None))
        answer = until_assigned(broker, group, "m1", 1, 2)
        broker.note("resolved", {"epoch": answer.member_epoch, "any": answer.assignment is not None})
        describe(broker, "resolved", group)
        ask(
            broker,
            "names instead",
            beat(group, "m1", 2, subscribed_topic_regex="", subscribed_topic_names=[topic]),
        )
        ask(broker, "leave", beat(group, "m1", -1))

    pair.compare(expression)


def test_from_one_protocol_to_the_other_and_back(pair: Pair) -> None:
    def both(broker: Broker) -> None:
        find_coordinator(broker)
        topic, group = "t", broker.name_of("group")
        classic = Member(broker, group, 9)
        classic.join("classic joins")
        joined = classic.join("classic joins with the id")
        classic.sync("classic syncs", {joined.member_id: b""})
        ask(broker, "upgrade", join(group, "m1", topic))
        describe(broker, "both", group)
        listed(broker, "both", group)
        heartbeat(broker, "classic heartbeat", classic, 4)
        classic.join("classic joins again")
        classic.sync("classic syncs again", {})
        describe(broker, "after the classic member joined again", group)
        ask(broker, "downgrade", beat(group, "m1", -1))
        describe(broker, "classic again", group)
        listed(broker, "classic again", group)

    pair.compare(both)


def test_the_hash_of_the_topics_is_that_of_kafka(pair: Pair) -> None:
    """Each broker's hash is compared with what kafkapy computes of its topics' ids.

    The ids are random, so the hashes of the two brokers differ.
    """

    def hashes(broker: Broker) -> None:
        find_coordinator(broker)
        names = [new_topic(broker, "one", partitions=3), new_topic(broker, "two")]
        group = broker.name_of("group")
        ask(broker, "join", join(group, "m1", *names, "missing"))
        state = PartitionState(1, 0, (1,), (1,))
        image = MetadataImage().with_topics(
            Topic(name, broker.topic_id(name), (state,) * count)
            for name, count in zip(names, (3, 1), strict=True)
        )
        expected = TopicsView(image).hash([*names, "missing"])
        hashes = [value.metadata_hash for key, value in stored(broker, group) if key.KEY == GROUP_EPOCH]
        broker.note("hash", {"": hashes == [expected]})

    pair.compare(hashes)


def test_the_records_are_those_of_kafka(pair: Pair) -> None:
    def records(broker: Broker) -> None:
        find_coordinator(broker)
        topic = new_topic(broker, "abc", partitions=2)
        group = broker.name_of("group")
        regex = f"{broker.prefix}-a.c"
        ask(broker, "join", join(group, "m1", topic, instance_id="i", rack_id="r", server_assignor="range"))
        ask(broker, "second", join(group, "m2", subscribed_topic_regex=regex, subscribed_topic_names=None))
        wait_until(lambda: any(key.KEY == REGULAR_EXPRESSION for key, _ in stored(broker, group)))
        ask(broker, "leave for now", beat(group, "m1", -2, instance_id="i"))
        ask(broker, "back", join(group, "m3", topic, instance_id="i"))
        ask(broker, "leave", beat(group, "m3", -1, instance_id="i"))
        ask(broker, "second leaves", beat(group, "m2", -1))
        broker.ask("delete", DeleteGroupsRequest(groups_names=[group]), 2)
        seen: dict[str, int] = {}
        for key, value in stored(broker, group):
            label = f"{type(key).__name__} {getattr(key, 'member_id', '')}"
            seen[label] = seen.get(label, 0) + 1
            if value is None:
                broker.note(f"{label} {seen[label]}", {"": "a tombstone"})
                continue
            for name in ("metadata_hash", "version", "timestamp", "assignment_timestamp"):
                if hasattr(value, name):
                    setattr(value, name, bool(getattr(value, name)))
            broker.note_answer(f"{label} {seen[label]}", value)

    pair.compare(records)


def stored(broker: Broker, group: str) -> Iterator[tuple[Any, Any]]:
    """The keys and values of the group's records, in the order of the log.

    The value of a tombstone is None.
    """
    for index in range(5):
        request = FetchRequest(
            max_wait_ms=0,
            topics=[
                FetchTopic(
                    topic=OFFSETS_TOPIC,
                    partitions=[FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)],
                )
            ],
        )
        (found,) = broker.main.quietly(request, 4).responses[0].partitions
        view = memoryview(bytes(found.records or b""))
        for position, header in iter_headers(view):
            for record in decode_records(view, position, header):
                key = decode_key(record.key or b"")
                if isinstance(key, TopMessage) and getattr(key, "group_id", None) == group:
                    value, known = record.value, cast("ConsumerGroupKey", key)
                    yield key, None if value is None else CONSUMER_RECORDS.decode_change(known, value).value


def listed(broker: Broker, label: str, group: str) -> None:
    """Note how the group is listed, with and without filters."""
    for states, types in (
        ([], []),
        (["stable", "Assigning"], []),
        ([], ["Consumer"]),
        (["empty"], ["classic"]),
    ):
        answer = broker.main.quietly(ListGroupsRequest(states_filter=states, types_filter=types), 5)
        found = [
            (each.protocol_type, each.group_state, each.group_type)
            for each in answer.groups
            if each.group_id == group
        ]
        broker.note(f"list {label} {states} {types}", {"": found})


def commits(broker: Broker, label: str, group: str, topic: str, *members: tuple[str, int]) -> None:
    for member_id, epoch in members:
        for version in (8, 9, 10):
            request = OffsetCommitRequest(
                group_id=group,
                member_id=member_id,
                generation_id_or_member_epoch=epoch,
                topics=[
                    OffsetCommitRequestTopic(
                        name=topic if version < 10 else "",
                        topic_id=broker.topic_id(topic) if version >= 10 else bytes(16),
                        partitions=[
                            OffsetCommitRequestPartition(partition_index=index, committed_offset=1)
                            for index in (0, 3)
                        ],
                    )
                ],
            )
            broker.ask(f"commit {label} v{version} of {member_id!r} at {epoch}", request, version)


def fetches(broker: Broker, label: str, group: str, topic: str, *members: tuple[str | None, int]) -> None:
    for member_id, epoch in members:
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=group,
                    member_id=member_id,
                    member_epoch=epoch,
                    topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])],
                )
            ]
        )
        broker.ask(f"fetch {label} of {member_id!r} at {epoch}", request, 9)
