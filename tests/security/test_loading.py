"""The authorizer that the settings name: Kafka's, one of the operator's own, or none."""

from __future__ import annotations

import pytest

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigError
from kafkapy.security.acls import Operation, ResourceType, StandardAuthorizer
from kafkapy.security.acls.hosts import host_address
from kafkapy.security.acls.loading import load_authorizer
from tests.security.operator_authorizers import NoTopics, WithTeams

NAME = "authorizer.class.name"
MODULE = "tests.security.operator_authorizers"
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ON_ORDERS = ("User:alice", "10.0.0.1", Operation.READ, ResourceType.TOPIC, "orders")


def test_without_the_setting_there_is_no_authorizer() -> None:
    assert load_authorizer({}) is None
    assert load_authorizer({NAME: " "}) is None


@pytest.mark.parametrize("name", [STANDARD, "kafka.security.authorizer.AclAuthorizer"])
def test_kafkas_authorizers_name_ours(name: str) -> None:
    BrokerConfig({NAME: name})
    authorizer = load_authorizer({NAME: f" {name} ", "super.users": "User:a; User:CN=b,O=c ;;"})
    assert type(authorizer) is StandardAuthorizer
    assert not authorizer.authorize(*ON_ORDERS)
    for user in ("User:a", "User:CN=b,O=c"):
        assert authorizer.authorize(user, *ON_ORDERS[1:])


def test_everyone_may_use_what_no_acl_covers_if_the_operator_says_so() -> None:
    for text, allowed in (("true", True), ("TRUE", True), ("false", False), ("", False)):
        authorizer = load_authorizer({NAME: STANDARD, "allow.everyone.if.no.acl.found": text})
        assert authorizer is not None
        assert authorizer.authorize(*ON_ORDERS) == allowed


def test_a_class_of_ones_own_decides() -> None:
    BrokerConfig({NAME: f"{MODULE}:NoTopics"})
    authorizer = load_authorizer({NAME: f"{MODULE}:NoTopics"})
    assert isinstance(authorizer, NoTopics)
    assert not authorizer.authorize(*ON_ORDERS)
    assert authorizer.authorized_operations("User:alice", "h", ResourceType.TOPIC, "orders") == 0
    assert authorizer.authorized_operations("User:alice", "h", ResourceType.GROUP, "g") > 0
    assert not authorizer.authorize_by_resource_type("User:a", "h", Operation.WRITE, ResourceType.TOPIC)


def test_a_class_of_ones_own_may_build_on_acls() -> None:
    authorizer = load_authorizer({NAME: f"{MODULE}:WithTeams", "our.separator": ".", "super.users": "User:r"})
    assert isinstance(authorizer, WithTeams)
    assert authorizer.authorize("User:a", "h", Operation.READ, ResourceType.TOPIC, "a.orders")
    assert not authorizer.authorize("User:a", "h", Operation.WRITE, ResourceType.TOPIC, "a.orders")
    assert authorizer.authorize("User:r", "h", Operation.WRITE, ResourceType.TOPIC, "a.orders")
    found = authorizer.authorized_operations("User:a", "h", ResourceType.TOPIC, "a.orders")
    assert found == 1 << Operation.READ | 1 << Operation.DESCRIBE


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({NAME: "no.such.module:A"}, "there is no Python module no"),
        ({NAME: f"{MODULE}:Missing"}, "has no class Missing"),
        (
            {NAME: f"{MODULE}:Mapping"},
            "is not a subclass of Authorizer; derive it from kafkapy.security.acls",
        ),
        ({NAME: f"{MODULE}:Undecided"}, "needs a method authorize(self, principal, host, operation"),
        ({NAME: f"{MODULE}:Coroutine"}, "which is not a coroutine"),
        ({NAME: f"{MODULE}:WithTeams"}, "the authorizer cannot be configured: KeyError: 'our.separator'"),
        (
            {NAME: STANDARD, "super.users": "User:a,bob;carol"},
            "super.users: carol is not in the form User:name",
        ),
    ],
)
def test_an_authorizer_that_cannot_be_used_ends_the_start(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_authorizer(settings)
    assert message in str(refused.value)


@pytest.mark.parametrize("name", ["org.apache.ranger.Authorizer", "module"])
def test_other_java_classes_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="expected Kafka's StandardAuthorizer or AclAuthorizer"):
        BrokerConfig({NAME: name})


@pytest.mark.parametrize(
    ("peer", "in_acls"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::a:0:1", "2001:db8:0:0:0:a:0:1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_hosts_are_written_as_java_writes_them(peer: str, in_acls: str) -> None:
    assert host_address(peer) == in_acls
