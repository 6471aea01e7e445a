"""`kafkapy acls` on a broker with an authorizer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkapy import Broker
from tests.commands.conftest import Run, RunJson, invoke


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Broker(config=settings) as started:
        yield started


def test_acls_are_added_listed_and_removed(kafkapy: Run, kafkapy_json: RunJson) -> None:
    add = ("acls", "add", "--allow-principal", "User:alice", "--operation", "Read", "-o", "write")
    rows = kafkapy_json(*add, "--topic", "orders", "--group", "shop")
    assert {row["result"] for row in rows} == {"added"}
    found = kafkapy_json("acls", "list")
    assert {(row["resource_type"], row["name"], row["operation"]) for row in found} == {
        ("TOPIC", "orders", "Read"),
        ("TOPIC", "orders", "Write"),
        ("GROUP", "shop", "Read"),
        ("GROUP", "shop", "Write"),
    }
    remove = ("acls", "remove", "--allow-principal", "User:alice", "-o", "Write", "--topic", "orders")
    assert [row["result"] for row in kafkapy_json(*remove, "--dry-run")] == ["would be removed"]
    assert "add --yes" in kafkapy(*remove).stderr
    assert [row["operation"] for row in kafkapy_json(*remove, "--yes")] == ["Write"]
    assert len(kafkapy_json("acls", "list")) == 3
    assert len(kafkapy_json("acls", "remove", "--topic", "orders", "--group", "shop", "--yes")) == 3
    assert kafkapy("acls", "list").stderr == "there are no ACLs.\n"


def test_acls_are_found_by_name_prefix_and_principal(kafkapy_json: RunJson) -> None:
    prefixed = ("--resource-pattern-type", "prefixed")
    kafkapy_json("acls", "add", "--allow-principal", "User:a", "-o", "Read", "--topic", "app.", *prefixed)
    kafkapy_json("acls", "add", "--deny-principal", "User:b", "--deny-host", "10.0.0.1", "--topic", "app.x")
    kafkapy_json("acls", "add", "--allow-principal", "User:c", "-o", "Alter", "--cluster")

    def names(*options: str) -> list[str]:
        return [row["principal"] for row in kafkapy_json("acls", "list", *options)]

    assert names("--topic", "app.x", "--resource-pattern-type", "match") == ["User:a", "User:b"]
    assert names("--topic", "app.x", "--resource-pattern-type", "literal") == ["User:b"]
    assert names("--cluster") == ["User:c"]
    assert names("--principal", "User:a") == ["User:a"]
    (denied,) = kafkapy_json("acls", "list", "--principal", "User:b")
    assert (denied["host"], denied["operation"], denied["permission"]) == ("10.0.0.1", "All", "DENY")


def test_acls_of_a_broker_without_an_authorizer_are_refused() -> None:
    with Broker() as other:
        server = ("--bootstrap-server", other.bootstrap_servers)
        for command in (("list",), ("add", "--allow-principal", "User:a", "--cluster")):
            result = invoke("acls", *command, *server)
            assert result.exit_code == 1
            assert "SECURITY_DISABLED" in result.stderr


def test_a_refusal_is_told_without_the_clients_objects() -> None:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    with Broker(config=settings) as other:
        result = invoke("reassign", "list", "--bootstrap-server", other.bootstrap_servers)
    assert result.exit_code == 1
    assert result.stderr == "kafkapy: CLUSTER_AUTHORIZATION_FAILED: Cluster authorization failed.\n"
