"""Streams groups (KIP-1071) on both brokers.

Heartbeats and their errors, internal topics, descriptions, commits and records are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from interop.differential.brokers import Broker, Differs, Pair
from interop.differential.groups import find_coordinator
from interop.differential.test_consumer_groups import OFFSETS_TOPIC, commits, fetches, listed
from interop.support.waiting import wait_until
from kafkapy.groups.records import decode_key
from kafkapy.groups.streams.records import STREAMS_RECORDS, StreamsGroupKey
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkapy.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kafkapy.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from kafkapy.protocol.records import decode_records, iter_headers
from tests.groups.streams.streams_world import beat as beat_of_g
from tests.groups.streams.streams_world import join as join_g
from tests.groups.streams.streams_world import subtopology, topology

pytestmark = pytest.mark.jvm

GROUP_RESOURCE, TOPIC_RESOURCE = 32, 2
MISSING_SOURCE_TOPICS = 1


def beat(group: str, member_id: str, epoch: int, **fields: Any) -> StreamsGroupHeartbeatRequest:
    request = beat_of_g(member_id, epoch, **fields)
    request.group_id = group
    return request


def join(group: str, member_id: str, running: Topology | None, **fields: Any) -> StreamsGroupHeartbeatRequest:
    request = join_g(member_id, running, **fields)
    request.group_id = group
    return request


def owned(*subtopologies: tuple[str, list[int]]) -> dict[str, Any]:
    """The fields of a heartbeat that say which active tasks a member has."""
    return {
        "active_tasks": [TaskIds(subtopology_id=key, partitions=numbers) for key, numbers in subtopologies],
        "standby_tasks": [],
        "warmup_tasks": [],
    }


def ask(broker: Broker, label: str, request: StreamsGroupHeartbeatRequest) -> Any:
    """Ask, and note the message of an error too."""
    answer = broker.ask(label, request, 0)
    message = answer.error_message
    broker.note(f"{label}: message", {"": message and message.replace(broker.prefix, "<prefix>")})
    return answer


def describe(broker: Broker, label: str, *groups: str) -> None:
    request = StreamsGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=True)
    broker.ask(label, request, 0)


def set_group(broker: Broker, group: str, **settings: str) -> None:
    """Change settings of a group: Apache Kafka's coordinator knows them a little later."""
    configs = [AlterableConfig(name=name.replace("_", "."), value=value) for name, value in settings.items()]
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=configs)
    (answer,) = broker.main.quietly(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == ErrorCode.NONE, answer


def at_once(broker: Broker, what: str = "group", **settings: str) -> str:
    """The name of a group that delays no assignment, and has these settings."""
    group = broker.name_of(what)
    no_delays = {"streams_initial_rebalance_delay_ms": "0", "streams_assignment_interval_ms": "0"}
    set_group(broker, group, **no_delays, **settings)
    probe, topic = f"{group}-probe", broker.topic(f"{what}-probe")
    set_group(broker, probe, streams_initial_rebalance_delay_ms="0")

    def is_known() -> bool:
        answer = broker.main.quietly(join(probe, "m", topology(subtopology("0", [topic]))), 0)
        broker.main.quietly(beat(probe, "m", -1), 0)
        return bool(answer.active_tasks)

    wait_until(is_known, pause=0.3)
    broker.main.quietly(DeleteGroupsRequest(groups_names=[probe]), 2)
    return group


def until(broker: Broker, group: str, member: str, epoch: int, tasks: int, **fields: Any) -> Any:
    """Send heartbeats until the member has so many active tasks."""
    answer: Any = None

    def reached() -> bool:
        nonlocal answer, epoch
        answer = broker.main.quietly(beat(group, member, epoch, **fields), 0)
        assert answer.error_code == ErrorCode.NONE, answer
        epoch = answer.member_epoch
        return sum(len(each.partitions) for each in answer.active_tasks or ()) == tasks

    wait_until(reached)
    return answer


def in_order(answer: Any) -> Any:
    """The answer with the topics of each endpoint sorted: in Apache Kafka they are in no order."""
    for each in answer.partitions_by_user_endpoint or ():
        each.active_partitions.sort(key=lambda found: found.topic)
        each.standby_partitions.sort(key=lambda found: found.topic)
    return answer


def until_known(broker: Broker, *topics: str) -> None:
    """Wait until the coordinator knows topics: in Apache Kafka that is a little later."""
    group = broker.name_of("knows")

    def are_known() -> bool:
        answer = broker.main.quietly(join(group, "m", topology(subtopology("0", topics))), 0)
        broker.main.quietly(beat(group, "m", -1), 0)
        return MISSING_SOURCE_TOPICS not in {each.status_code for each in answer.status}

    wait_until(are_known)


def test_what_makes_no_sense(pair: Pair) -> None:
    def senseless(broker: Broker) -> None:
        find_coordinator(broker)
        topic, group = broker.topic(), broker.name_of("group")
        plain = topology(subtopology("0", [topic]))
        tasks = [TaskIds(subtopology_id="0", partitions=[0])]
        pattern = topology(subtopology("0", [topic]))
        pattern.subtopologies[0].source_topic_regex = ["a.*"]
        counted = topology(subtopology("0", [topic]))
        counted.subtopologies[0].state_changelog_topics = [TopicInfo(name="c", partitions=2)]
        for label, request in {
            "no group": join("", "m", plain),
            "no member id": join(group, "", plain),
            "a blank member id": join(group, "  ", plain),
            "an empty rack": join(group, "m", plain, rack_id=""),
            "an instance id": join(group, "m", plain, instance_id="i"),
            "offsets": join(group, "m", plain, task_offsets=[TaskOffset()]),
            "end offsets": join(group, "m", plain, task_end_offsets=[]),
            "warm-up tasks": join(group, "m", plain, warmup_tasks=tasks),
            "active tasks": join(group, "m", plain, active_tasks=tasks),
            "standby tasks": join(group, "m", plain, standby_tasks=tasks),
            "a part of the tasks": join(group, "m", plain, standby_tasks=None),
            "no rebalance timeout": join(group, "m", plain, rebalance_timeout_ms=-1),
            "no topology": join(group, "m", None),
            "a topology too late": beat(group, "m", 1, topology=plain),
            "a pattern": join(group, "m", pattern),
            "a changelog with partitions": join(group, "m", counted),
            "a Kafka topic": join(group, "m", topology(subtopology("0", [OFFSETS_TOPIC]))),
            "a bad name": join(group, "m", topology(subtopology("0", [topic], sinks=["a b"]))),
            "-2": beat(group, "m", -2),
            "epoch -3": beat(group, "m", -3),
            "no group yet": beat(group, "m", 5),
            "leaving no group": beat(group, "m", -1),
        }.items():
            ask(broker, label, request)
        describe(broker, "no group is described", group)
        describe(broker, "no group id is described", "")

    pair.compare(senseless)


def test_topologies_that_lead_nowhere(pair: Pair) -> None:
    def nowhere(broker: Broker) -> None:
        find_coordinator(broker)
        three, six = broker.topic("three", 3), broker.topic("six", 6)
        until_known(broker, three, six)
        for label, running in {
            "a loop": topology(subtopology("0", repartition=["x"], sinks=["x"])),
            "no sink": topology(subtopology("0", [three]), subtopology("1", repartition=["x"])),
            "no source": topology(subtopology("0", [], changelogs=["x"])),
            "missing": topology(subtopology("0", [three, f"{broker.prefix}-no", f"{broker.prefix}-none"])),
            "different": topology(subtopology("0", [three, six], copartitioned=[((0, 1), ())])),
            "another number": topology(
                subtopology("0", [three], sinks=["x"]),
                subtopology("1", [six], repartition={"x": 4}, copartitioned=[((0,), (0,))]),
            ),
        }.items():
            group = broker.name_of(label.replace(" ", "-"))
            answer = broker.main.quietly(join(group, "m", running), 0)
            statuses = [
                (each.status_code, each.status_detail.replace(broker.prefix, "<prefix>"))
                for each in answer.status or ()
            ]
            broker.note(label, {"error": answer.error_code, "epoch": answer.member_epoch, "": statuses})
            describe(broker, f"{label} is described", group)

    pair.compare(nowhere)


def test_a_group_of_two(pair: Pair) -> None:
    def two(broker: Broker) -> None:
        find_coordinator(broker)
        topic, group = broker.topic(partitions=4), at_once(broker)
        plain = topology(subtopology("0", [topic]), epoch=3)
        tags = [KeyValue(key="zone", value="z"), KeyValue(key="area", value="a")]
        ask(broker, "join", join(group, "m1", plain, rack_id="r", client_tags=tags, process_id="p1"))
        ask(broker, "join again", join(group, "m1", plain, rack_id="r", process_id="p1"))
        ask(broker, "heartbeat", beat(group, "m1", 2))
        describe(broker, "one member", group)
        ask(broker, "an epoch too many", beat(group, "m1", 3))
        ask(broker, "an unknown member", beat(group, "m9", 2))
        ask(broker, "a task too many", beat(group, "m1", 2, **owned(("0", [4]))))
        ask(broker, "an unknown subtopology", beat(group, "m1", 2, **owned(("7", [0]))))
        ask(broker, "an old topology", join(group, "m3", topology(subtopology("0", [topic]), epoch=2)))
        ask(broker, "old topology leaves", beat(group, "m3", -1))
        ask(broker, "another topology", join(group, "m4", topology(subtopology("1", [topic]), epoch=3)))
        ask(broker, "a new topology", join(group, "m4", topology(subtopology("0", [topic]), epoch=4)))
        joined = ask(broker, "second", join(group, "m2", plain, process_id="p2"))
        listed(broker, "joining", group)
        epoch = broker.main.quietly(beat(group, "m1", 2), 0).member_epoch
        describe(broker, "revoking", group)
        commits(broker, "revoking", group, topic, ("m1", epoch), ("m1", 9), ("m1", 1), ("", -1), ("m9", 2))
        kept = owned(("0", [0, 1]))
        given_up = ask(broker, "given up", beat(group, "m1", epoch, **kept))
        answer = until(broker, group, "m2", joined.member_epoch, 2, **owned())
        broker.note("second is assigned", {"epoch": answer.member_epoch})
        ask(broker, "old epoch, same tasks", beat(group, "m1", epoch, **kept))
        ask(broker, "old epoch", beat(group, "m1", epoch))
        describe(broker, "assigned", group)
        commits(broker, "assigned", group, topic, ("m1", given_up.member_epoch), ("m1", 2), ("m1", 1))
        fetches(
            broker, "assigned", group, topic, ("m1", given_up.member_epoch), ("m1", 2), ("m9", 2), (None, -1)
        )
        listed(broker, "assigned", group)
        broker.ask("delete", DeleteGroupsRequest(groups_names=[group]), 2)
        broker.ask("describe as classic", DescribeGroupsRequest(groups=[group]), 6)
        ask(
            broker,
            "first asks for a shutdown",
            beat(group, "m1", given_up.member_epoch, shutdown_application=True),
        )
        ask(broker, "second is told", beat(group, "m2", answer.member_epoch))
        ask(broker, "first leaves", beat(group, "m1", -1))
        ask(broker, "first leaves again", beat(group, "m1", -1))
        ask(broker, "second leaves", beat(group, "m2", -1))
        describe(broker, "left", group)
        listed(broker, "left", group)
        broker.ask("delete empty", DeleteGroupsRequest(groups_names=[group]), 2)

    pair.compare(two)


def test_internal_topics_and_standby_tasks(pair: Pair) -> None:
    def internal(broker: Broker) -> None:
        find_coordinator(broker)
        topic, group = broker.topic(partitions=2), at_once(broker, streams_num_standby_replicas="1")
        words, log = f"{group}-words-repartition", f"{group}-words-changelog"
        running = topology(
            subtopology("0", [topic], sinks=[words]), subtopology("1", repartition=[words], changelogs=[log])
        )
        running.subtopologies[1].repartition_source_topics[0].topic_configs = [
            KeyValue(key="cleanup.policy", value="delete"),
            KeyValue(key="retention.ms", value="-1"),
        ]
        endpoint = Endpoint(host="h", port=7)
        first = broker.main.quietly(join(group, "m1", running, user_endpoint=endpoint), 0)
        (status,) = first.status
        what, _, names = status.status_detail.partition(": ")
        status.status_detail = f"{what}: {sorted(names.split(', '))}"  # in Apache Kafka in no order
        broker.note_answer("first", first)
        describe(broker, "not ready", group)
        for state in ("NotReady", "not_ready"):
            answer = broker.main.quietly(ListGroupsRequest(states_filter=[state]), 5)
            broker.note(f"list {state}", {"": group in {each.group_id for each in answer.groups}})
        until_known(broker, words, log)
        answer = until(broker, group, "m1", first.member_epoch, 4, **owned())
        broker.note_answer("assigned", in_order(answer))
        describe(broker, "ready", group)
        for name in (words, log):
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=TOPIC_RESOURCE,
                        resource_name=name,
                        configuration_keys=["cleanup.policy", "retention.ms"],
                    )
                ]
            )
            (found,) = broker.main.quietly(request, 4).results
            broker.note(f"configs of {name}", {each.name: each.value for each in found.configs})
        mine = owned(("0", [0, 1]), ("1", [0, 1]))
        second = broker.main.quietly(join(group, "m2", running, process_id="other"), 0)
        broker.note_answer("second", in_order(second))
        epoch = broker.main.quietly(beat(group, "m1", answer.member_epoch, **mine), 0).member_epoch
        describe(broker, "two", group)
        broker.note("epochs", {"first": epoch, "second": second.member_epoch})

    pair.compare(
        internal,
        Differs("list NotReady", "", "the filter of Apache Kafka knows the state as not_ready only"),
        Differs("*", "endpoint_information_epoch", "Apache Kafka does not count a group's first heartbeat"),
    )


def test_the_first_assignment_waits(pair: Pair) -> None:
    def waits(broker: Broker) -> None:
        find_coordinator(broker)
        topic, group = broker.topic(partitions=2), broker.name_of("group")
        until_known(broker, topic)
        plain = topology(subtopology("0", [topic]))
        first = ask(broker, "first", join(group, "m1", plain))
        second = ask(broker, "second", join(group, "m2", plain))
        describe(broker, "waiting", group)
        for member, answer in (("m1", first), ("m2", second)):
            found = until(broker, group, member, answer.member_epoch, 1, **owned())
            broker.note(member, {"epoch": found.member_epoch, "status": found.status})
        listed(broker, "assigned", group)

    pair.compare(waits)


def test_the_records_of_a_group(pair: Pair) -> None:
    def records(broker: Broker) -> None:
        find_coordinator(broker)
        topic, group = broker.topic(partitions=2), at_once(broker)
        running = topology(subtopology("0", [topic]), epoch=2)
        tags = [KeyValue(key="zone", value="z"), KeyValue(key="area", value="a")]
        endpoint = Endpoint(host="h", port=65_535)
        broker.main.quietly(
            join(group, "m1", running, rack_id="r", client_tags=tags, user_endpoint=endpoint), 0
        )
        broker.main.quietly(join(group, "m2", running), 0)
        broker.main.quietly(beat(group, "m1", 2), 0)
        broker.main.quietly(beat(group, "m1", 2, **owned(("0", [0]))), 0)
        broker.main.quietly(beat(group, "m2", -1), 0)
        broker.main.quietly(beat(group, "m1", -1), 0)
        broker.ask("delete", DeleteGroupsRequest(groups_names=[group]), 2)
        seen: dict[str, int] = {}
        for key, value in stored(broker, group):
            label = f"{type(key).__name__} {getattr(key, 'member_id', '')}"
            seen[label] = seen.get(label, 0) + 1
            if value is None:
                broker.note(f"{label} {seen[label]}", {"": "a tombstone"})
                continue
            for name in ("metadata_hash", "assignment_timestamp"):
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
            if header.is_control:  # of a transaction with offsets, in another test
                continue
            for record in decode_records(view, position, header):
                key = decode_key(record.key or b"")
                if isinstance(key, StreamsGroupKey) and key.group_id == group:
                    value = record.value
                    yield key, None if value is None else STREAMS_RECORDS.decode_change(key, value).value
