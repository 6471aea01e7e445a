"""Quotas are kept where Kafka's ZooKeeper mode keeps them, or refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kafkapy.configs.quotas import quotas
from kafkapy.controller.client_quotas import Alteration, QuotaChange
from kafkapy.metadata.quotas import CLIENT_ID, IP, USER, quota_entity, quota_path
from kafkapy.protocol.errors import ErrorCode

RATE = "consumer_byte_rate"
TWICE = "An entity must appear at most once."
ALICE = [(USER, "alice")]
ALICE_FROM_C = [(USER, "alice"), (CLIENT_ID, "c")]


async def alter(
    cluster: Any,
    *alterations: tuple[Sequence[tuple[str, str | None]], Mapping[str, float | None]],
    **options: bool,
) -> list[str | None]:
    """The error of each change, or None."""
    wanted = [
        Alteration(entity, [QuotaChange(name, value) for name, value in changes.items()])
        for entity, changes in alterations
    ]
    refusals = await cluster.admin.quotas.alter(wanted, **options)
    assert {each.code for each in refusals if each is not None} <= {ErrorCode.INVALID_REQUEST}
    return [None if each is None else each.message for each in refusals]


async def nodes(cluster: Any) -> dict[str, Any]:
    """The nodes of users, clients and addresses, with the settings they hold."""
    tree = await cluster.store.subtree("/config")
    return {
        path: json.loads(node.data)["config"] if node.data else None
        for path, node in tree.items()
        if path.startswith(("/config/users/", "/config/clients/", "/config/ips/"))
    }


def kept(cluster: Any) -> dict[Any, dict[str, float]]:
    found = {entity: quotas(configs) for entity, configs in cluster.image.client_quotas.configs.items()}
    return {entity: values for entity, values in found.items() if values}


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        (ALICE, "/config/users/alice"),
        ([(USER, "ü/ *~")], "/config/users/%C3%BC%2F%20%2A%7E"),
        ([(USER, None)], "/config/users/<default>"),
        ([(USER, "<default>")], "/config/users/%3Cdefault%3E"),
        (ALICE_FROM_C, "/config/users/alice/clients/c"),
        ([(CLIENT_ID, None), (USER, None)], "/config/users/<default>/clients/<default>"),
        ([(CLIENT_ID, "c")], "/config/clients/c"),
        ([(IP, "192.0.2.1")], "/config/ips/192.0.2.1"),
        ([(IP, None)], "/config/ips/<default>"),
    ],
)
async def test_quotas_are_in_the_tree_and_there_after_a_restart(
    start_cluster: Any, entity: Sequence[tuple[str, str | None]], path: str
) -> None:
    cluster = await start_cluster()
    name, value = ("connection_creation_rate", 5.0) if entity[0][0] == IP else ("request_percentage", 12.5)
    assert await alter(cluster, (entity, {name: value})) == [None]
    assert quota_path(quota_entity(dict(entity))) == path
    assert (await nodes(cluster))[path] == {name: "5" if entity[0][0] == IP else "12.5"}
    cluster = await start_cluster()
    assert kept(cluster) == {quota_entity(dict(entity)): {name: value}}
    assert await alter(cluster, (entity, {name: None})) == [None]
    assert kept(cluster) == {}
    assert await nodes(cluster) == {}


async def test_a_user_has_a_node_while_it_or_one_of_its_clients_has_quotas(cluster: Any) -> None:
    user, client = "/config/users/alice", "/config/users/alice/clients/c"
    assert await alter(cluster, (ALICE_FROM_C, {RATE: 5})) == [None]
    assert await nodes(cluster) == {user: {}, f"{user}/clients": None, client: {RATE: "5"}}
    assert await alter(cluster, (ALICE, {RATE: 6, "producer_byte_rate": 7})) == [None]
    assert (await nodes(cluster))[user] == {RATE: "6", "producer_byte_rate": "7"}
    assert await alter(cluster, (ALICE_FROM_C, {RATE: None})) == [None]
    assert await nodes(cluster) == {user: {RATE: "6", "producer_byte_rate": "7"}}
    assert await alter(cluster, (ALICE_FROM_C, {RATE: 8}), (ALICE, {RATE: None})) == [None, None]
    assert await nodes(cluster) == {
        user: {"producer_byte_rate": "7"},
        f"{user}/clients": None,
        client: {RATE: "8"},
    }
    assert (
        await alter(cluster, (ALICE, {"producer_byte_rate": None}), (ALICE_FROM_C, {RATE: None}))
        == [None] * 2
    )
    assert await nodes(cluster) == {}


async def test_what_a_users_node_holds_beside_quotas_stays(start_cluster: Any) -> None:
    cluster = await start_cluster()
    credential = {"SCRAM-SHA-256": "salt=x,iterations=4096"}
    data = json.dumps({"version": 1, "config": {**credential, RATE: "5"}}).encode()
    await cluster.store.create("/config/users/alice", data)
    cluster = await start_cluster()
    assert kept(cluster) == {quota_entity(dict(ALICE)): {RATE: 5.0}}
    assert await alter(cluster, (ALICE, {RATE: None, "SCRAM-SHA-256": None})) == [None]
    assert await nodes(cluster) == {"/config/users/alice": credential}


async def test_each_entity_changes_as_a_whole_or_not_at_all(cluster: Any) -> None:
    other = [(USER, "bob")]
    assert await alter(cluster, (ALICE, {RATE: 5}), (other, {RATE: 5, "no_such_rate": 1})) == [
        None,
        "Invalid configuration key no_such_rate",
    ]
    assert kept(cluster) == {quota_entity(dict(ALICE)): {RATE: 5.0}}
    twice = await alter(cluster, (other, {RATE: 5}), (other, {RATE: 6}))
    assert twice == [TWICE] * 2
    assert len(kept(cluster)) == 1


async def test_validation_alone_and_what_is_so_already_change_nothing(cluster: Any) -> None:
    assert await alter(cluster, (ALICE, {RATE: 5}), validate_only=True) == [None]
    assert kept(cluster) == {}
    assert await alter(cluster, (ALICE, {RATE: 5})) == [None]
    image = cluster.image
    assert await alter(cluster, (ALICE, {RATE: 5}), ([(USER, "bob")], {RATE: None})) == [None, None]
    assert cluster.image is image


async def test_a_changed_quota_leaves_a_notice_for_other_brokers(cluster: Any) -> None:
    await alter(cluster, (ALICE_FROM_C, {RATE: 5}))
    notice = await cluster.store.get("/config/changes/config_change_0000000000")
    assert json.loads(notice.data) == {"version": 2, "entity_path": "users/alice/clients/c"}


@pytest.mark.parametrize(
    ("entity", "name", "value", "message"),
    [
        (ALICE, RATE, 0.0, f"Quota {RATE} must be greater than 0"),
        (ALICE, RATE, float("nan"), f"Quota {RATE} must be greater than 0"),
        (ALICE, RATE, 1.5, f"{RATE} cannot be a fractional value."),
        (ALICE, RATE, 1e300, f"Proposed value for {RATE} is too large for a LONG."),
        (
            ALICE,
            "request_percentage",
            float("inf"),
            "Proposed value for request_percentage is too large for a DOUBLE.",
        ),
        (ALICE, "connection_creation_rate", 5.0, "Invalid configuration key connection_creation_rate"),
        ([(IP, "::1")], RATE, 5.0, f"Invalid configuration key {RATE}"),
        (
            [(IP, "::1")],
            "connection_creation_rate",
            3e9,
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
        ([(IP, "localhost")], "connection_creation_rate", 5.0, "localhost is not a valid IP address."),
        ([], RATE, 1.0, "Invalid empty client quota entity"),
        ([("host", "a")], RATE, 1.0, "Unhandled client quota entity type: host"),
        ([(USER, "")], RATE, 1.0, "Empty user not supported"),
        ([*ALICE, (USER, "bob")], RATE, 1.0, "Invalid client quota entity, duplicate entity entry"),
        (
            [*ALICE, (IP, "::1")],
            RATE,
            1.0,
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId",
        ),
    ],
)
async def test_quotas_that_cannot_be_are_refused(
    cluster: Any, entity: Sequence[tuple[str, str | None]], name: str, value: float, message: str
) -> None:
    assert await alter(cluster, (entity, {name: value})) == [message]
    assert kept(cluster) == {}


async def test_a_quota_named_twice_is_refused(cluster: Any) -> None:
    twice = Alteration(ALICE, [QuotaChange(RATE, 1.0), QuotaChange(RATE, 2.0)])
    (refused,) = await cluster.admin.quotas.alter([twice])
    assert refused.message == f"Duplicate quota key {RATE}"


async def test_many_entities_are_changed_in_several_transactions(cluster: Any) -> None:
    served: list[int] = []
    asyncio.get_running_loop().call_soon(served.append, 1)
    wanted = [([(USER, f"u{number}")], {RATE: 5.0}) for number in range(450)]
    assert await alter(cluster, *wanted, ([(USER, "u7")], {RATE: 6.0})) == [
        *(TWICE if number == 7 else None for number in range(450)),
        TWICE,
    ]
    assert len(kept(cluster)) == 449
    assert served == [1]
