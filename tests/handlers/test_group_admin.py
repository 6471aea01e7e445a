"""ListGroups, DescribeGroups and DeleteGroups over the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kafkapy
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from tests.handlers.group_client import (
    SUBSCRIPTION,
    commit,
    committed,
    fetch_offsets,
    find_coordinator,
    join,
    sync,
)
from tests.handlers.produce_client import create_topic
from tests.network.raw_client import RawClient

NO_OPERATIONS = -(2**31)


@pytest.fixture
def client(kafka_broker: kafkapy.Broker) -> Iterator[RawClient]:
    with RawClient(kafka_broker.bootstrap_servers) as connected:
        find_coordinator(connected, "any")
        yield connected


@pytest.fixture
def groups(client: RawClient) -> RawClient:
    """A stable group, one that is rebalancing and one that only stores offsets."""
    create_topic(client, "t")
    sync(client, "stable", join(client, "stable"))
    join(client, "joined")
    commit(client, "simple", {("t", 0): 5})
    return client


def list_groups(client: RawClient, version: int = 5, **filters: Any) -> dict[str, tuple[str, str, str]]:
    response = client.ask(ListGroupsRequest(**filters), version)
    assert response.error_code == ErrorCode.NONE
    return {
        each.group_id: (each.protocol_type, each.group_state, each.group_type) for each in response.groups
    }


@pytest.mark.parametrize("version", range(6))
def test_all_groups_are_listed(groups: RawClient, version: int) -> None:
    kind = "classic" if version >= 5 else ""
    states = ("Stable", "CompletingRebalance", "Empty") if version >= 4 else ("", "", "")
    assert list_groups(groups, version) == {
        "stable": ("consumer", states[0], kind),
        "joined": ("consumer", states[1], kind),
        "simple": ("", states[2], kind),
    }


@pytest.mark.parametrize(
    ("filters", "listed"),
    [
        ({"states_filter": ["stable", " EMPTY "]}, {"stable", "simple"}),
        ({"states_filter": ["nonsense"]}, set()),
        ({"types_filter": ["CLASSIC"]}, {"stable", "joined", "simple"}),
        ({"types_filter": ["consumer"]}, set()),
        ({"types_filter": ["consumer", "classic"], "states_filter": ["Stable"]}, {"stable"}),
    ],
)
def test_groups_are_filtered_by_state_and_type(
    groups: RawClient, filters: dict[str, Any], listed: set[str]
) -> None:
    assert set(list_groups(groups, **filters)) == listed


def describe(client: RawClient, group: str, version: int = 6, **options: bool) -> Any:
    (described,) = client.ask(DescribeGroupsRequest(groups=[group], **options), version).groups
    return described


@pytest.mark.parametrize("version", range(7))
def test_a_stable_group_is_described_with_its_members(groups: RawClient, version: int) -> None:
    described = describe(groups, "stable", version)
    assert described.error_code == ErrorCode.NONE
    assert (described.group_state, described.protocol_type, described.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (member,) = described.members
    assert member.client_id == "raw"
    assert member.client_host == "/127.0.0.1"
    assert member.member_metadata == SUBSCRIPTION
    assert member.member_assignment == member.member_id.encode()
    assert described.authorized_operations == NO_OPERATIONS


def test_a_group_that_is_not_stable_shows_no_metadata(groups: RawClient) -> None:
    described = describe(groups, "joined")
    assert (described.group_state, described.protocol_data) == ("CompletingRebalance", "")
    assert described.members[0].member_metadata == b""


def test_what_a_client_may_do_is_told_where_it_asks(groups: RawClient) -> None:
    described = describe(groups, "simple", include_authorized_operations=True)
    assert described.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
    assert describe(groups, "simple").authorized_operations == NO_OPERATIONS


@pytest.mark.parametrize("version", [5, 6])
def test_a_group_that_does_not_exist_is_dead(groups: RawClient, version: int) -> None:
    described = describe(groups, "nowhere", version)
    assert described.group_state == "Dead"
    if version < 6:
        assert described.error_code == ErrorCode.NONE
    else:
        assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert described.error_message == "Group nowhere not found."


@pytest.mark.parametrize("version", range(4))
def test_empty_groups_are_deleted_and_the_others_not(groups: RawClient, version: int) -> None:
    request = DeleteGroupsRequest(groups_names=["simple", "stable", "nowhere", "simple"])
    results = groups.ask(request, version).results
    assert [(each.group_id, each.error_code) for each in results] == [
        ("simple", ErrorCode.NONE),
        ("stable", ErrorCode.NON_EMPTY_GROUP),
        ("nowhere", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert set(list_groups(groups)) == {"stable", "joined"}
    assert committed(fetch_offsets(groups, "simple", None)) == {}
