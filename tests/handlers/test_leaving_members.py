"""LeaveGroup, and JoinGroup, of groups whose members have the consumer protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kafkapy
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequestProtocol
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.groups.consumer.consumer_world import beat, join
from tests.handlers.group_client import find_coordinator, join_request
from tests.handlers.produce_client import create_topic
from tests.network.raw_client import RawClient

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


@pytest.fixture
def client(kafka_broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(kafka_broker.bootstrap_servers) as connected:
        find_coordinator(connected, "g")
        create_topic(connected, "t", 2)
        for member_id, instance_id in (("dynamic", None), ("static", "i"), ("other", "j"), ("stays", None)):
            joined = connected.ask(join(member_id, instance_id=instance_id), 1)
            assert joined.error_code == ErrorCode.NONE
        yield connected


def members(client: RawClient) -> set[str]:
    (group,) = client.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    return {member.member_id for member in group.members}


def leave(client: RawClient, *identities: MemberIdentity, version: int = 5) -> list[tuple[Any, ...]]:
    answer = client.ask(LeaveGroupRequest(group_id="g", members=list(identities)), version)
    assert answer.error_code == ErrorCode.NONE
    return [(each.member_id, each.group_instance_id, ErrorCode(each.error_code)) for each in answer.members]


@pytest.mark.parametrize("version", [3, 4, 5])
def test_an_administrator_takes_members_out_by_id_and_by_instance_id(client: RawClient, version: int) -> None:
    identities = (
        MemberIdentity(member_id="dynamic", reason="an administrator" if version >= 5 else None),
        MemberIdentity(group_instance_id="i"),
        MemberIdentity(member_id="other", group_instance_id="j"),
    )
    assert leave(client, *identities, version=version) == [
        ("dynamic", None, ErrorCode.NONE),
        ("", "i", ErrorCode.NONE),
        ("other", "j", ErrorCode.NONE),
    ]
    assert members(client) == {"stays"}
    fenced = client.ask(beat("dynamic", 2), 1)
    assert fenced.error_code == UNKNOWN
    assert client.ask(join("dynamic"), 1).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [0, 1, 2])
def test_one_member_leaves_by_its_id_in_old_versions(client: RawClient, version: int) -> None:
    answer = client.ask(LeaveGroupRequest(group_id="g", member_id="dynamic"), version)
    assert answer.error_code == ErrorCode.NONE
    assert "dynamic" not in members(client)


def test_members_that_are_not_there_are_unknown_or_fenced(client: RawClient) -> None:
    assert leave(
        client,
        MemberIdentity(member_id="nobody"),
        MemberIdentity(group_instance_id="nobody"),
        MemberIdentity(member_id="dynamic", group_instance_id="i"),
        MemberIdentity(member_id="static", group_instance_id="nobody"),
    ) == [
        ("nobody", None, UNKNOWN),
        ("", "nobody", UNKNOWN),
        ("dynamic", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("static", "nobody", UNKNOWN),
    ]
    assert members(client) == {"dynamic", "static", "other", "stays"}


def test_a_group_whose_members_are_all_taken_out_is_empty(client: RawClient) -> None:
    leave(client, *(MemberIdentity(member_id=member_id) for member_id in members(client)))
    (group,) = client.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert (group.group_state, group.members) == ("Empty", [])


def test_a_classic_member_with_other_protocols_is_refused_without_an_id(client: RawClient) -> None:
    given = client.ask(join_request("g"), 9)
    assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert given.member_id
    for member_id, protocol_type in ((given.member_id, "connect"), ("", "connect")):
        refused = client.ask(join_request("g", member_id, protocol_type=protocol_type), 9)
        assert (refused.error_code, refused.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    joined = client.ask(join_request("g", given.member_id), 9)
    assert (joined.error_code, joined.member_id) == (ErrorCode.NONE, given.member_id)
    others = [JoinGroupRequestProtocol(name="mine", metadata=joined.protocol_name.encode())]
    refused = client.ask(join_request("g", given.member_id, protocols=others), 9)
    assert (refused.error_code, refused.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")


def test_a_classic_group_repeats_the_id_of_a_refused_member(client: RawClient) -> None:
    first = client.ask(join_request("classic", group_instance_id="s"), 9)
    assert first.error_code == ErrorCode.NONE
    refused = client.ask(
        join_request("classic", first.member_id, group_instance_id="s", protocol_type="x"), 9
    )
    assert (refused.error_code, refused.member_id) == (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        first.member_id,
    )
    refused = client.ask(join_request("new", "unknown"), 9)
    assert (refused.error_code, refused.member_id) == (UNKNOWN, "unknown")
