"""ACLs are kept where Kafka's ZooKeeper mode keeps them, and are heard of by all brokers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkapy.controller import acls as acl_admin
from kafkapy.controller.acls import AclAdmin
from kafkapy.metadata.store import NoNodeError
from kafkapy.protocol.errors import ErrorCode, KafkaError
from kafkapy.security.acls import StandardAuthorizer
from kafkapy.security.acls.model import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

SETTINGS = {"authorizer_class_name": "kafka.security.authorizer.AclAuthorizer"}

ORDERS = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "orders")
APPS = ResourcePattern(ResourceType.GROUP, PatternType.PREFIXED, "app.")
ALICE_READS = Acl(ORDERS, "User:alice", "*", Operation.READ, Permission.ALLOW)
BOB_IS_DENIED = Acl(ORDERS, "User:bob", "10.0.0.1", Operation.DESCRIBE_CONFIGS, Permission.DENY)
ALICE_IN_APPS = Acl(APPS, "User:alice", "*", Operation.ALL, Permission.ALLOW)

ENTRY = {"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"}


@pytest.fixture
async def admin(start_cluster: Any) -> AclAdmin:
    admin: AclAdmin = (await start_cluster(**SETTINGS)).admin.acls
    return admin


def acls(broker: Any) -> set[Acl]:
    return {acl for each in broker.admin.acls.patterns.values() for acl in each.acls}


def may(broker: Any, principal: str, operation: Operation, name: str = "orders") -> bool:
    authorizer: StandardAuthorizer = broker.admin.acls._authorizer
    return authorizer.authorize(principal, "10.0.0.1", operation, ResourceType.TOPIC, name)


async def content(broker: Any, path: str) -> Any:
    return json.loads((await broker.store.get(path)).data)


async def test_acls_are_in_kafkas_nodes_and_survive_a_restart(start_cluster: Any) -> None:
    broker = await start_cluster(**SETTINGS)
    assert await broker.admin.acls.create([ALICE_READS, BOB_IS_DENIED, ALICE_IN_APPS]) == [None] * 3
    denied = {
        "principal": "User:bob",
        "permissionType": "Deny",
        "operation": "DescribeConfigs",
        "host": "10.0.0.1",
    }
    assert await content(broker, "/kafka-acl/Topic/orders") == {"version": 1, "acls": [ENTRY, denied]}
    in_apps = {**ENTRY, "operation": "All"}
    found = await content(broker, "/kafka-acl-extended/prefixed/Group/app.")
    assert found == {"version": 1, "acls": [in_apps]}
    broker = await start_cluster(**SETTINGS)
    assert acls(broker) == {ALICE_READS, BOB_IS_DENIED, ALICE_IN_APPS}
    assert may(broker, "User:alice", Operation.DESCRIBE)
    assert not may(broker, "User:bob", Operation.DESCRIBE)


async def test_brokers_of_apache_kafka_find_notices(start_cluster: Any) -> None:
    broker = await start_cluster(**SETTINGS)
    await broker.admin.acls.create([ALICE_READS, ALICE_IN_APPS])
    literal = await broker.store.subtree("/kafka-acl-changes")
    extended = await broker.store.subtree("/kafka-acl-extended-changes")
    assert [(path, node.data) for path, node in literal.items()] == [
        ("/kafka-acl-changes/acl_changes_0000000000", b"TOPIC:orders")
    ]
    (change,) = [json.loads(node.data) for node in extended.values()]
    assert change == {"version": 1, "resourceType": "GROUP", "name": "app.", "patternType": "PREFIXED"}
    broker.clock.turn(seconds=15 * 60)
    await broker.admin.acls.delete([AclFilter()])
    assert len(await broker.store.subtree("/kafka-acl-changes")) == 1


async def test_the_last_acl_takes_its_node_with_it(start_cluster: Any) -> None:
    broker = await start_cluster(**SETTINGS)
    await broker.admin.acls.create([ALICE_READS, BOB_IS_DENIED])
    deleted = await broker.admin.acls.delete([AclFilter(principal="User:alice")])
    assert deleted == [[ALICE_READS]]
    assert acls(broker) == {BOB_IS_DENIED}
    await broker.admin.acls.delete([AclFilter(*ORDERS, permission=Permission.DENY), AclFilter()])
    with pytest.raises(NoNodeError):
        await broker.store.get("/kafka-acl/Topic/orders")
    assert not acls(broker)


async def test_an_acl_that_two_filters_find_is_in_both_answers(admin: AclAdmin) -> None:
    await admin.create([ALICE_READS])
    assert await admin.delete([AclFilter(), AclFilter(name="orders")]) == [[ALICE_READS]] * 2


async def test_an_acl_that_exists_stays_as_it_is(start_cluster: Any) -> None:
    broker = await start_cluster(**SETTINGS)
    await broker.admin.acls.create([ALICE_READS, ALICE_READS])
    await broker.admin.acls.create([ALICE_READS])
    assert (await broker.store.get("/kafka-acl/Topic/orders")).stat.version == 0


async def test_all_brokers_hear_of_changes(start_broker: Any) -> None:
    first, second = await start_broker(1, **SETTINGS), await start_broker(2, **SETTINGS)
    await first.admin.acls.create([ALICE_READS])
    await second.until(lambda image: len(image.acls) == 1)
    assert may(second, "User:alice", Operation.READ)
    await second.admin.acls.create([BOB_IS_DENIED, ALICE_IN_APPS])
    await first.until(lambda image: len(image.acls) == 2)
    assert acls(first) == acls(second) == {ALICE_READS, BOB_IS_DENIED, ALICE_IN_APPS}
    await second.admin.acls.delete([AclFilter()])
    await first.until(lambda image: not image.acls)
    assert not may(first, "User:alice", Operation.READ)


async def test_a_change_by_another_session_is_not_overwritten(start_cluster: Any, hand: Any) -> None:
    broker = await start_cluster(**SETTINGS)
    await broker.admin.acls.create([ALICE_READS])
    entries = [ENTRY, {**ENTRY, "principal": "User:carol"}]
    await hand.set("/kafka-acl/Topic/orders", json.dumps({"version": 1, "acls": entries}).encode())
    await broker.admin.acls.create([BOB_IS_DENIED])
    assert {acl.principal for acl in acls(broker)} == {"User:alice", "User:carol", "User:bob"}


DAMAGED = [b"{", b"[]", b'{"version":2,"acls":[]}', b'{"version":1}', b'{"version":1,"acls":[{"host":"*"}]}']


@pytest.mark.parametrize("data", DAMAGED)
async def test_a_node_that_cannot_be_understood_denies_everything(
    start_cluster: Any, hand: Any, data: bytes
) -> None:
    broker = await start_cluster(**SETTINGS, allow_everyone_if_no_acl_found="true", super_users="User:root")
    await broker.admin.acls.create([ALICE_READS])
    await hand.set("/kafka-acl/Topic/orders", data)
    await broker.until(lambda image: image.acls["/kafka-acl/Topic/orders"].data == data)
    broker = await start_cluster(**SETTINGS, allow_everyone_if_no_acl_found="true", super_users="User:root")
    assert not may(broker, "User:alice", Operation.READ)
    assert may(broker, "User:alice", Operation.READ, "another")
    assert may(broker, "User:root", Operation.READ)
    (refusal,) = await broker.admin.acls.create([ALICE_READS])
    assert refusal.code is ErrorCode.INVALID_REQUEST
    (deleted,) = await broker.admin.acls.delete([AclFilter(name="orders")])
    assert deleted == [Acl(ORDERS, "User:*", "*", Operation.ALL, Permission.DENY)]
    assert await broker.admin.acls.create([ALICE_READS]) == [None]
    assert may(broker, "User:alice", Operation.READ)


async def test_nodes_of_unknown_types_are_left_alone(start_cluster: Any, hand: Any) -> None:
    broker = await start_cluster(**SETTINGS)
    await broker.admin.acls.create([ALICE_READS])
    await hand.create("/kafka-acl/Moon")
    await hand.create("/kafka-acl/Moon/dark", b"x")
    await hand.create("/kafka-acl/Topic/orders/below", b"x")
    await hand.create("/kafka-acl-extended/suffixed")
    broker = await start_cluster(**SETTINGS)
    assert acls(broker) == {ALICE_READS}


async def test_an_entry_that_this_release_does_not_know_is_kept(start_cluster: Any, hand: Any) -> None:
    broker = await start_cluster(**SETTINGS)
    await broker.admin.acls.create([ALICE_READS])
    future = {**ENTRY, "operation": "Teleport", "permissionType": "Deny"}
    await hand.set("/kafka-acl/Topic/orders", json.dumps({"version": 1, "acls": [ENTRY, future]}).encode())
    await broker.until(lambda image: b"Teleport" in image.acls["/kafka-acl/Topic/orders"].data)
    assert may(broker, "User:alice", Operation.READ)
    await broker.admin.acls.create([BOB_IS_DENIED])
    await broker.admin.acls.delete([AclFilter()])
    assert await content(broker, "/kafka-acl/Topic/orders") == {"version": 1, "acls": [future]}


async def test_names_that_no_node_can_have_are_refused() -> None:
    for name in ("a/b", ".", "..", "a\0b", "a\x1fb", "\ud800"):
        pattern = ResourcePattern(ResourceType.GROUP, PatternType.LITERAL, name)
        assert acl_admin.why_refused(ALICE_READS._replace(pattern=pattern)) is not None
    for name in ("a b", "größe", "*", "a%2Fb", "..."):
        pattern = ResourcePattern(ResourceType.GROUP, PatternType.LITERAL, name)
        assert acl_admin.why_refused(ALICE_READS._replace(pattern=pattern)) is None


async def test_the_number_of_acls_is_bounded(admin: AclAdmin) -> None:
    admin.max_acls = 3
    wanted = [ALICE_READS._replace(pattern=ORDERS._replace(name=name)) for name in "abcd"]
    errors = await admin.create(wanted)
    assert [error and error.code for error in errors] == [None, None, None, ErrorCode.POLICY_VIOLATION]
    await admin.delete([AclFilter(name="a")])
    assert await admin.create(wanted[3:]) == [None]


async def test_the_acls_of_one_name_are_bounded(admin: AclAdmin) -> None:
    admin.max_node_bytes = 200
    (refusal,) = await admin.create([ALICE_READS])
    assert refusal is None
    (refusal,) = await admin.create([ALICE_READS._replace(principal="User:" + "x" * 100)])
    assert refusal is not None
    assert refusal.code is ErrorCode.POLICY_VIOLATION


async def test_a_request_changes_a_bounded_number(admin: AclAdmin) -> None:
    await admin.create([ALICE_READS, BOB_IS_DENIED])
    admin.max_changes = 1
    with pytest.raises(KafkaError) as refused:
        await admin.create([ALICE_READS, BOB_IS_DENIED])
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    with pytest.raises(KafkaError) as refused:
        await admin.delete([AclFilter()])
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert len(admin.patterns[ORDERS].acls) == 2


async def test_many_acls_fit_in_transactions(admin: AclAdmin) -> None:
    admin.most_at_once, admin.patterns_at_once = 500, 7
    wanted = [ALICE_READS._replace(pattern=ORDERS._replace(name=f"t{n}")) for n in range(50)]
    assert await admin.create(wanted) == [None] * 50
    assert len(admin.patterns) == 50
    assert sum(map(len, await admin.delete([AclFilter()]))) == 50
    assert not admin.patterns
