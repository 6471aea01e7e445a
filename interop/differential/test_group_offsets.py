"""Committed offsets and the administration of groups."""

from __future__ import annotations

from typing import Any

import pytest

from interop.differential.brokers import Broker, Pair
from interop.differential.groups import JOIN, Member, find_coordinator, leave
from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafkapy.protocol.types import random_uuid

pytestmark = pytest.mark.jvm


def commit(
    broker: Broker,
    label: str,
    group: str,
    topic: str,
    version: int,
    *,
    topic_id: bytes | None = None,
    partitions: tuple[int, ...] = (0,),
    offset: int = 5,
    metadata: str | None = "m",
    **fields: Any,
) -> None:
    wanted = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=metadata
        )
        for index in partitions
    ]
    named = {"topic_id": topic_id or broker.topic_id(topic)} if version >= 10 else {"name": topic}
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(**named, partitions=wanted)], **fields
    )
    broker.ask(label, request, version)


def fetch_request(
    broker: Broker, group: str, topic: str | None, version: int, topic_id: bytes | None = None, **fields: Any
) -> OffsetFetchRequest:
    """Partitions 0 and 1 of a topic; all topics for None."""
    if version < 8:
        topics = None if topic is None else [OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])]
        return OffsetFetchRequest(group_id=group, topics=topics)
    named: dict[str, Any] = {"name": topic}
    if version >= 10 and topic is not None:
        named = {"topic_id": topic_id or broker.topic_id(topic)}
    places = None if topic is None else [OffsetFetchRequestTopics(**named, partition_indexes=[0, 1])]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=places, **fields)])


def test_commits_without_members(pair: Pair) -> None:
    def commits(broker: Broker) -> None:
        find_coordinator(broker)
        topic = broker.topic(partitions=2)
        for version in broker.versions(OffsetCommitRequest):
            group, label = broker.name_of(f"v{version}"), f"v{version}"
            commit(broker, f"{label} simple", group, topic, version)
            commit(broker, f"{label} two partitions", group, topic, version, partitions=(0, 1), offset=7)
            commit(broker, f"{label} unknown partition", group, topic, version, partitions=(0, 9))
            commit(
                broker, f"{label} unknown topic", group, "nobody-made-this", version, topic_id=random_uuid()
            )
            commit(broker, f"{label} empty group", "", topic, version)
            commit(broker, f"{label} null metadata", group, topic, version, metadata=None)
            commit(broker, f"{label} too much metadata", group, topic, version, metadata="m" * 4097)
            commit(broker, f"{label} negative offset", group, topic, version, offset=-1)
            if version >= 1:
                commit(
                    broker,
                    f"{label} as a member",
                    group,
                    topic,
                    version,
                    member_id="nobody",
                    generation_id_or_member_epoch=3,
                )
                commit(
                    broker,
                    f"{label} member of no group",
                    broker.name_of("none"),
                    topic,
                    version,
                    member_id="nobody",
                    generation_id_or_member_epoch=3,
                )
            broker.ask(f"{label} nothing", OffsetCommitRequest(group_id=group, topics=[]), version)
            for fetch in broker.versions(OffsetFetchRequest):
                asked = fetch_request(broker, group, topic, fetch)
                broker.ask(f"{label} fetched by v{fetch}", asked, fetch)

    pair.compare(commits)


def test_commits_of_members(pair: Pair) -> None:
    def members(broker: Broker) -> None:
        find_coordinator(broker)
        topic = broker.topic()
        for version in broker.versions(OffsetCommitRequest, 1):
            member = Member(broker, broker.name_of(f"v{version}"), 3, name=f"member {version}")
            member.join("join")
            own: dict[str, Any] = {
                "member_id": member.member_id,
                "generation_id_or_member_epoch": member.generation,
            }
            label = f"v{version}"
            commit(broker, f"{label} before sync", member.group, topic, version, **own)
            member.sync("sync", {member.member_id: b""}, version=3)
            commit(broker, f"{label} good", member.group, topic, version, **own)
            old: dict[str, Any] = {**own, "generation_id_or_member_epoch": 99}
            commit(broker, f"{label} other generation", member.group, topic, version, **old)
            commit(broker, f"{label} other member", member.group, topic, version, **{**own, "member_id": "x"})
            commit(broker, f"{label} from outside", member.group, topic, version)
            leave(broker, f"{label} leave", member, 3)
            commit(broker, f"{label} after leaving", member.group, topic, version, **own)
            commit(broker, f"{label} from outside, empty", member.group, topic, version)

    pair.compare(members)


def test_fetching_offsets(pair: Pair) -> None:
    def fetching(broker: Broker) -> None:
        find_coordinator(broker)
        topic, group = broker.topic(partitions=2), broker.name_of("group")
        commit(broker, "commit", group, topic, 9)
        for version in broker.versions(OffsetFetchRequest):
            for label, asked in (("group", group), ("unknown group", "nobody"), ("empty group", "")):
                request = fetch_request(broker, asked, topic, version)
                broker.ask(f"v{version} {label}", request, version)
                if version >= 2:
                    request = fetch_request(broker, asked, None, version)
                    broker.ask(f"v{version} {label}, all topics", request, version)
            request = fetch_request(broker, group, "nobody-made-this", version, random_uuid())
            broker.ask(f"v{version} unknown topic", request, version)
            if version >= 9:
                for member_id, epoch in (("nobody", 3), (None, -1), ("", -1), ("nobody", -1)):
                    request = fetch_request(
                        broker, group, topic, version, member_id=member_id, member_epoch=epoch
                    )
                    broker.ask(f"v{version} as {member_id!r} {epoch}", request, version)

    pair.compare(fetching)


def test_deleting_offsets(pair: Pair) -> None:
    def delete(broker: Broker) -> None:
        find_coordinator(broker)
        topic, group = broker.topic(partitions=2), broker.name_of("group")
        commit(broker, "commit", group, topic, 9, partitions=(0, 1))

        def ask(label: str, group: str, topic: str, *indexes: int) -> None:
            partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
            topics = [OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
            broker.ask(label, OffsetDeleteRequest(group_id=group, topics=topics), 0)

        ask("one", group, topic, 0)
        broker.ask("what is left", fetch_request(broker, group, topic, 9), 9)
        ask("again, and an unknown partition", group, topic, 0, 9)
        ask("unknown topic", group, "nobody-made-this", 0)
        ask("unknown group", "nobody", topic, 0)
        ask("empty group", "", topic, 0)
        member = Member(broker, broker.name_of("live"), 3)
        member.join("join")
        member.sync("sync", {member.member_id: b""}, version=3)
        ask("of a live group", member.group, topic, 0)
        ask("subscribed topic of a live group", member.group, "t", 0)
        ask("the last", group, topic, 1)
        broker.ask("the group then", DescribeGroupsRequest(groups=[group]), 5)

    pair.compare(delete)


def test_describing_and_deleting_groups(pair: Pair) -> None:
    def groups(broker: Broker) -> None:
        find_coordinator(broker)
        topic = broker.topic()
        offsets, empty, live = (broker.name_of(name) for name in ("offsets", "empty", "live"))
        commit(broker, "commit", offsets, topic, 9)
        member = Member(broker, live, JOIN, instance="i")
        left = Member(broker, empty, 3)
        left.join("join")
        left.sync("sync", {left.member_id: b"x"}, version=3)
        leave(broker, "leave", left, 3)
        names = [offsets, empty, live, "nobody", ""]

        def describe(when: str) -> None:
            for version in broker.versions(DescribeGroupsRequest):
                for name in names:
                    request = DescribeGroupsRequest(groups=[name], include_authorized_operations=version >= 3)
                    broker.ask(f"{when}: describe v{version} {name!r}", request, version)
            for version in broker.versions(ListGroupsRequest):
                filters: list[dict[str, list[str]]] = [{}]
                if version >= 4:
                    filters += [{"states_filter": ["Stable"]}, {"states_filter": ["empty", "Nonsense"]}]
                if version >= 5:
                    filters += [{"types_filter": ["classic"]}, {"types_filter": ["Consumer"]}]
                for fields in filters:
                    answer = broker.main.quietly(ListGroupsRequest(**fields), version)
                    listed = {
                        group.group_id: (group.protocol_type, group.group_state, group.group_type)
                        for group in answer.groups
                        if group.group_id in names
                    }
                    broker.note(f"{when}: list v{version} {fields}", {"groups": listed})

        describe("before")
        member.join("join")
        describe("joined")
        member.sync("sync", {member.member_id: b"assigned"})
        describe("stable")
        for version in broker.versions(DeleteGroupsRequest):
            for name in (live, "nobody", ""):
                request = DeleteGroupsRequest(groups_names=[name])
                broker.ask(f"delete v{version} {name!r}", request, version)
        for name in (offsets, empty):
            broker.ask(f"delete {name}", DeleteGroupsRequest(groups_names=[name]), 2)
        describe("deleted")
        broker.ask("offsets of the deleted", fetch_request(broker, offsets, topic, 9), 9)

    pair.compare(groups)
