"""A stock client manages ACLs, and is held to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

import kafkapy

SECONDS = 60


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[kafkapy.Broker]:
    """Lets everyone use what no ACL covers, so that a client without login can manage ACLs."""
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "group.initial.rebalance.delay.ms": 0,
    }
    with kafkapy.Broker(data_dir=tmp_path, config=settings) as broker:
        yield broker


def binding(
    principal: str,
    operation: AclOperation,
    *,
    name: str = "orders",
    kind: ResourceType = ResourceType.TOPIC,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(kind, name, pattern, principal, "*", operation, permission)


ANY = AclBindingFilter(
    ResourceType.ANY,
    None,
    ResourcePatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


def done(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(SECONDS) for future in futures.values()]


def produce(broker: kafkapy.Broker) -> int:
    """The error of one record; 0 if it was written."""
    failed: list[int] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": SECONDS * 1000})
    producer.produce("orders", b"v", on_delivery=lambda error, _: failed.append(error.code() if error else 0))
    assert producer.flush(SECONDS) == 0
    return failed[0]


def consume(broker: kafkapy.Broker) -> bytes | int:
    """The value of the first record, or the error that the consumer meets."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe(["orders"])
        message = consumer.poll(SECONDS)
        assert message is not None
        error = message.error()
        return error.code() if error is not None else bytes(message.value() or b"")
    finally:
        consumer.close()


def test_a_stock_client_manages_acls_and_is_held_to_them(broker: kafkapy.Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    done(admin.create_topics([NewTopic("orders", 1, 1)]))
    assert produce(broker) == 0
    of_alice = binding("User:alice", AclOperation.READ)
    in_apps = binding(
        "User:alice",
        AclOperation.ALL,
        name="app.",
        kind=ResourceType.GROUP,
        pattern=ResourcePatternType.PREFIXED,
        permission=AclPermissionType.DENY,
    )
    done(admin.create_acls([of_alice, in_apps]))
    assert set(admin.describe_acls(ANY).result(SECONDS)) == {of_alice, in_apps}
    # An ACL covers the topic now, and it is not for this client.
    assert produce(broker) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert consume(broker) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    writes = binding("User:ANONYMOUS", AclOperation.WRITE)
    done(admin.create_acls([writes]))
    assert produce(broker) == 0
    assert consume(broker) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    done(admin.create_acls([binding("User:*", AclOperation.READ)]))
    assert consume(broker) == b"v"
    group = binding("User:alice", AclOperation.READ, name="g", kind=ResourceType.GROUP)
    done(admin.create_acls([group]))
    assert consume(broker) == KafkaError.GROUP_AUTHORIZATION_FAILED
    of_topics = AclBindingFilter(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.MATCH,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    (deleted,) = done(admin.delete_acls([of_topics]))
    assert {acl.principal for acl in deleted} == {"User:alice", "User:ANONYMOUS", "User:*"}
    assert set(admin.describe_acls(ANY).result(SECONDS)) == {in_apps, group}


def test_a_stock_client_learns_why_an_acl_is_refused(broker: kafkapy.Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    future = admin.create_acls([binding("alice", AclOperation.READ)])
    with pytest.raises(KafkaException) as refused:
        done(future)
    error = refused.value.args[0]
    assert error.code() == KafkaError.INVALID_REQUEST
    assert "no colon" in error.str()
