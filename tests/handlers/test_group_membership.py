"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup over the wire, in every version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kafkapy
from kafkapy.groups.member_memory import MAX_MEMBER_BYTES, MAX_PROTOCOLS, MemberLimits
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequestProtocol
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.handlers.group_client import find_coordinator, join, join_request, receive, send, sync
from tests.network.raw_client import RawClient, eventually


@pytest.fixture
def client(kafka_broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(kafka_broker.bootstrap_servers) as connected:
        find_coordinator(connected, "any")
        yield connected


def heartbeat(client: RawClient, group: str, member_id: str, generation: int = 1, version: int = 4) -> int:
    request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
    return int(client.ask(request, version).error_code)


def wait_for_heartbeat(client: RawClient, group: str, member_id: str, error: ErrorCode) -> None:
    eventually(lambda: heartbeat(client, group, member_id) == error, f"{member_id}: {error.name}")


@pytest.mark.parametrize("version", range(10))
def test_a_lone_member_joins_and_leads(client: RawClient, version: int) -> None:
    joined = join(client, f"g{version}", version)
    assert joined.generation_id == 1
    assert joined.leader == joined.member_id
    assert joined.member_id.startswith("raw-")
    assert joined.protocol_name == "range"
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    assert [each.member_id for each in joined.members] == [joined.member_id]


@pytest.mark.parametrize("version", range(6))
def test_a_leader_gets_what_it_assigns_to_itself(client: RawClient, version: int) -> None:
    joined = join(client, f"g{version}")
    synced = sync(client, f"g{version}", joined, version)
    assert synced.error_code == ErrorCode.NONE
    assert synced.assignment == joined.member_id.encode()
    assert synced.protocol_name == ("range" if version >= 5 else None)


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_is_for_members_of_the_current_generation(client: RawClient, version: int) -> None:
    joined = join(client, f"g{version}")
    sync(client, f"g{version}", joined)
    assert heartbeat(client, f"g{version}", joined.member_id, 1, version) == ErrorCode.NONE
    assert heartbeat(client, f"g{version}", joined.member_id, 2, version) == ErrorCode.ILLEGAL_GENERATION
    assert heartbeat(client, f"g{version}", "other", 1, version) == ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat(client, "other", joined.member_id, 1, version) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(6))
def test_a_member_leaves(client: RawClient, version: int) -> None:
    group = f"g{version}"
    member_id = join(client, group).member_id
    if version < 3:
        for expected in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
            answer = client.ask(LeaveGroupRequest(group_id=group, member_id=member_id), version)
            assert answer.error_code == expected
    else:
        members = [MemberIdentity(member_id=member_id), MemberIdentity(member_id="other")]
        answer = client.ask(LeaveGroupRequest(group_id=group, members=members), version)
        assert answer.error_code == ErrorCode.NONE
        assert [(each.member_id, each.error_code) for each in answer.members] == [
            (member_id, ErrorCode.NONE),
            ("other", ErrorCode.UNKNOWN_MEMBER_ID),
        ]
    assert heartbeat(client, group, member_id) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_second_member_makes_the_first_one_rejoin(kafka_broker: kafkapy.Broker, client: RawClient) -> None:
    first = join(client, "g")
    sync(client, "g", first)
    with RawClient(kafka_broker.bootstrap_servers) as other:
        wanted = other.ask(join_request("g"), 9).member_id
        request = join_request("g", wanted)
        send(other, request, 9)
        wait_for_heartbeat(client, "g", first.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        again = client.ask(join_request("g", first.member_id), 9)
        second = receive(other, request, 9)
        assert again.generation_id == second.generation_id == 2
        assert again.leader == second.leader == first.member_id
        assert {each.member_id for each in again.members} == {first.member_id, wanted}
        assert sync(client, "g", again).assignment == first.member_id.encode()
        assert sync(other, "g", second).assignment == wanted.encode()


def test_a_client_that_goes_away_while_it_joins_leaves_the_others_alone(
    kafka_broker: kafkapy.Broker, client: RawClient
) -> None:
    first = join(client, "g", rebalance_timeout_ms=200)
    sync(client, "g", first)
    with RawClient(kafka_broker.bootstrap_servers) as other:
        send(other, join_request("g", rebalance_timeout_ms=200), 3)
        wait_for_heartbeat(client, "g", first.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
    again = client.ask(join_request("g", first.member_id), 9)
    assert again.error_code == ErrorCode.NONE
    assert again.generation_id == 2


@pytest.mark.parametrize("version", [6, 7])
def test_a_refused_join_has_a_protocol_name_that_the_version_can_carry(
    client: RawClient, version: int
) -> None:
    refused = client.ask(join_request("g", "nobody"), version)
    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert refused.protocol_name == ("" if version < 7 else None)
    assert refused.generation_id == -1


def test_a_protocol_that_is_named_twice_counts_once(client: RawClient) -> None:
    protocols = [
        JoinGroupRequestProtocol(name="range", metadata=b"first"),
        JoinGroupRequestProtocol(name="range", metadata=b"second"),
    ]
    joined = join(client, "g", protocols=protocols)
    assert joined.members[0].metadata == b"first"


def test_from_version_5_a_sync_names_the_protocol(client: RawClient) -> None:
    joined = join(client, "g")
    for missing in ("protocol_type", "protocol_name"):
        fields: dict[str, Any] = {missing: None}
        assert sync(client, "g", joined, **fields).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert sync(client, "g", joined).error_code == ErrorCode.NONE


def test_a_static_member_comes_back_under_its_instance_id(client: RawClient) -> None:
    joined = join(client, "g", group_instance_id="i")
    sync(client, "g", joined)
    back = join(client, "g", group_instance_id="i")
    assert back.member_id != joined.member_id
    assert back.skip_assignment
    request = HeartbeatRequest(
        group_id="g", generation_id=1, member_id=joined.member_id, group_instance_id="i"
    )
    assert client.ask(request, 4).error_code == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("group", [""])
def test_an_empty_group_id_is_refused(client: RawClient, group: str) -> None:
    assert client.ask(join_request(group), 9).error_code == ErrorCode.INVALID_GROUP_ID
    assert heartbeat(client, group, "m") == ErrorCode.INVALID_GROUP_ID
    assert client.ask(LeaveGroupRequest(group_id=group), 5).error_code == ErrorCode.INVALID_GROUP_ID


def test_without_the_offsets_topic_clients_are_sent_to_look_for_the_coordinator(
    kafka_broker: kafkapy.Broker,
) -> None:
    with RawClient(kafka_broker.bootstrap_servers) as fresh:
        assert fresh.ask(join_request("g"), 9).error_code == ErrorCode.NOT_COORDINATOR


def test_a_broker_that_stops_does_not_wait_for_members() -> None:
    with (
        kafkapy.Broker(config={"group.initial.rebalance.delay.ms": 60_000}) as broker,
        RawClient(broker.bootstrap_servers) as client,
        RawClient(broker.bootstrap_servers) as other,
    ):
        find_coordinator(client, "g")
        request = join_request("g")
        send(client, request, 3)
        described = DescribeGroupsRequest(groups=["g"])
        eventually(lambda: bool(other.ask(described, 5).groups[0].members), "the member is waiting")
        broker.stop()
        assert receive(client, request, 3).error_code == ErrorCode.NOT_COORDINATOR


def test_a_member_that_is_named_twice_leaves_once(client: RawClient) -> None:
    member_id = join(client, "g").member_id
    members = [MemberIdentity(member_id=name) for name in ("other", member_id, "other", member_id)]
    answer = client.ask(LeaveGroupRequest(group_id="g", members=members), 5)
    assert [(each.member_id, each.error_code) for each in answer.members] == [
        ("other", ErrorCode.UNKNOWN_MEMBER_ID),
        (member_id, ErrorCode.NONE),
    ]


def metadata_of(nbytes: int) -> list[JoinGroupRequestProtocol]:
    return [JoinGroupRequestProtocol(name="range", metadata=bytes(nbytes))]


def test_one_member_says_no_more_of_itself_than_it_may(client: RawClient) -> None:
    for protocols in (
        metadata_of(MAX_MEMBER_BYTES),
        [JoinGroupRequestProtocol(name=f"p{number}") for number in range(MAX_PROTOCOLS)],
        [JoinGroupRequestProtocol(name=f"p{number}") for number in range(MAX_PROTOCOLS + 1)],
    ):
        refused = client.ask(join_request("g", protocols=protocols), 3)
        assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert client.ask(join_request("g", protocols=metadata_of(1 << 20)), 3).error_code == ErrorCode.NONE


def test_members_of_all_groups_say_no_more_of_themselves_than_they_may(
    kafka_broker: kafkapy.Broker, client: RawClient
) -> None:
    client.ask(join_request("first"), 3)  # a broker has no coordinator before
    kafka_broker.core.groups.groups.members.limits = MemberLimits(4 << 20, for_small=1 << 20)
    large = metadata_of(1 << 20)
    joined = [client.ask(join_request(f"g{number}", protocols=large), 3) for number in range(3)]
    assert [each.error_code for each in joined] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ]
    again = client.ask(join_request("g1", joined[1].member_id, protocols=large), 3)
    assert again.error_code == ErrorCode.NONE, "its own metadata is replaced"
    assert client.ask(join_request("small"), 3).error_code == ErrorCode.NONE


def test_what_clients_say_is_logged_in_short(client: RawClient, caplog: pytest.LogCaptureFixture) -> None:
    long = "x" * 30_000
    with caplog.at_level("INFO", "kafkapy.groups"):
        member_id = join(client, long, reason=long).member_id
        members = [MemberIdentity(member_id=member_id, reason=long)]
        client.ask(LeaveGroupRequest(group_id=long, members=members), 5)
    assert caplog.records
    assert max(len(record.getMessage()) for record in caplog.records) < 1_000
