"""Requests of a group member over one raw connection, in any version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkapy.protocol.codec import encode
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.frames import decode_response, encode_request
from kafkapy.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafkapy.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.network.raw_client import RawClient

SUBSCRIPTION = b"\x00\x00" + encode(ConsumerProtocolSubscription(topics=["t"]), 0)
FIRST_WITH_REQUIRED_ID = 4

Offsets = Mapping[tuple[str, int], int]


def find_coordinator(client: RawClient, *keys: str, version: int = 4, key_type: int = 0) -> Any:
    """Send a FindCoordinator; before v4 there is one key, and one coordinator in the answer."""
    if version < 4:
        return client.ask(FindCoordinatorRequest(key=keys[0], key_type=key_type), version)
    return client.ask(FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type), version)


def join_request(group: str, member_id: str = "", **fields: Any) -> JoinGroupRequest:
    """A JoinGroup of a consumer that reads topic t."""
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def join(client: RawClient, group: str, version: int = 9, **fields: Any) -> JoinGroupResponse:
    """Join a group as a new member, with as many requests as that takes."""
    response: JoinGroupResponse = client.ask(join_request(group, **fields), version)
    if version >= FIRST_WITH_REQUIRED_ID and "group_instance_id" not in fields:
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        response = client.ask(join_request(group, response.member_id, **fields), version)
    assert response.error_code == ErrorCode.NONE
    return response


def sync(
    client: RawClient, group: str, joined: JoinGroupResponse, version: int = 5, **fields: Any
) -> SyncGroupResponse:
    """SyncGroup; a leader gives everybody its member id as its assignment."""
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer" if version >= 5 else None,
        protocol_name="range" if version >= 5 else None,
        assignments=[
            SyncGroupRequestAssignment(member_id=each.member_id, assignment=each.member_id.encode())
            for each in joined.members
        ],
    )
    for name, value in fields.items():
        setattr(request, name, value)
    response: SyncGroupResponse = client.ask(request, version)
    return response


def commit(
    client: RawClient,
    group: str,
    offsets: Offsets,
    version: int = 9,
    *,
    topic_ids: Mapping[str, bytes] | None = None,
    metadata: str | None = "m",
    **fields: Any,
) -> dict[tuple[str, int], ErrorCode]:
    """OffsetCommit; the error code of each partition."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, index), offset in offsets.items():
        entry = topics.setdefault(topic, OffsetCommitRequestTopic(name=topic))
        if version >= 10:
            entry.name, entry.topic_id = "", (topic_ids or {})[topic]
        entry.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
        )
        if version >= 6:
            entry.partitions[-1].committed_leader_epoch = 2
    request = OffsetCommitRequest(group_id=group, topics=list(topics.values()), **fields)
    response = client.ask(request, version)
    return {
        (topic, each.partition_index): ErrorCode(each.error_code)
        for topic, entry in zip(topics, response.topics, strict=True)
        for each in entry.partitions
    }


def fetch_offsets(
    client: RawClient,
    group: str,
    topics: Mapping[str, list[int]] | None,
    version: int = 9,
    *,
    topic_ids: Mapping[str, bytes] | None = None,
) -> Any:
    """OffsetFetch; the one group's answer, which before v8 is the response itself."""
    if version < 8:
        asked = None
        if topics is not None:
            asked = [
                OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
                for name, indexes in topics.items()
            ]
        return client.ask(OffsetFetchRequest(group_id=group, topics=asked), version)
    entry = OffsetFetchRequestGroup(group_id=group, topics=None)
    if topics is not None:
        entry.topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
            if version < 10
            else OffsetFetchRequestTopics(topic_id=(topic_ids or {})[name], partition_indexes=indexes)
            for name, indexes in topics.items()
        ]
    (answer,) = client.ask(OffsetFetchRequest(groups=[entry]), version).groups
    return answer


def committed(answer: Any) -> dict[tuple[str, int], int]:
    """The offsets in an OffsetFetch answer."""
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
    }


def send(client: RawClient, request: Any, version: int) -> None:
    """Send a request that is answered later."""
    client.send(encode_request(request, version, 7, "raw"))


def receive(client: RawClient, request: Any, version: int) -> Any:
    """The answer to a request that was sent."""
    _, response = decode_response(request.KEY, version, client.receive_frame())
    return response
