"""ACLs go to Apache Kafka and come back, with what was created there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from interop.migrate.migration import AT_REST, kafka_as_told, kafkapy, run_kafkapy

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

SETTINGS: Final = {
    **AT_REST,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
READ, ALL = AclOperation.READ, AclOperation.ALL
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
EVERY: Final = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


def create(servers: str, *acls: AclBinding) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for created in admin.create_acls(list(acls)).values():
        created.result(30)


def acls_of(servers: str) -> set[AclBinding]:
    admin = AdminClient({"bootstrap.servers": servers})
    return set(admin.describe_acls(EVERY).result(30))


def test_acls_go_to_4_3_and_back_with_another_one(tmp_path: Path) -> None:
    acls = {
        AclBinding(ResourceType.TOPIC, "orders", LITERAL, "User:alice", "*", READ, ALLOW),
        AclBinding(ResourceType.TOPIC, "orders", LITERAL, "User:bob", "10.0.0.1", ALL, DENY),
        AclBinding(ResourceType.GROUP, "app.", PREFIXED, "User:alice", "*", READ, ALLOW),
        AclBinding(ResourceType.BROKER, "kafka-cluster", LITERAL, "User:ops", "*", ALL, ALLOW),
    }
    with kafkapy(tmp_path / "here", SETTINGS) as server:
        create(server.bootstrap_servers, *acls)
        assert acls_of(server.bootstrap_servers) == acls
    there = tmp_path / "there"
    told = run_kafkapy("export", tmp_path / "here" / "data", there / "data", "--to", "kraft")
    with kafka_as_told("4.3.1", told)(there, SETTINGS) as server:
        assert acls_of(server.bootstrap_servers) == acls
        another = AclBinding(ResourceType.TRANSACTIONAL_ID, "t", LITERAL, "User:eve", "*", READ, DENY)
        create(server.bootstrap_servers, another)
    run_kafkapy("import", there / "data", tmp_path / "back" / "data")
    with kafkapy(tmp_path / "back", SETTINGS) as server:
        assert acls_of(server.bootstrap_servers) == {*acls, another}
