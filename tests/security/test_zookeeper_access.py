"""How a broker comes in at ZooKeeper; interop/zookeeper tries it."""

from __future__ import annotations

import pytest

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigError
from kafkapy.metadata import znodes
from kafkapy.metadata.zookeeper_access import EVERYBODY, ZooKeeperAccess, ZooKeeperLogin
from kafkapy.security.zookeeper import LOGIN, zookeeper_access

LINE = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="a;b";'


def access(settings: dict[str, str]) -> ZooKeeperAccess:
    return zookeeper_access(BrokerConfig({"zookeeper.connect": "localhost:2181", **settings}))


def test_a_broker_comes_in_as_everybody_by_default() -> None:
    assert access({}) == EVERYBODY


def test_a_line_of_java_names_the_user() -> None:
    found = access({LOGIN: LINE, "zookeeper.set.acl": "true"})
    assert found == ZooKeeperAccess(login=ZooKeeperLogin("kafka", "a;b"), own_nodes=True)
    assert "a;b" not in repr(found)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"zookeeper.set.acl": "true"},
            "zookeeper.set.acl=true: nodes cannot belong to a broker without a name",
        ),
        (
            {"zookeeper.set.acl": "true", "zookeeper.ssl.client.enable": "true"},
            "nodes cannot belong to a broker without a name",
        ),
        ({LOGIN: LINE[:-1]}, f"{LOGIN}: the login module must end with a semicolon"),
        (
            {LOGIN: "x.PlainLoginModule required;"},
            "expected DigestLoginModule or Krb5LoginModule, found x.PlainLoginModule",
        ),
        (
            {LOGIN: "x.Krb5LoginModule required useTicketCache=true;"},
            f"{LOGIN}: (this broker proves its name by a keytab: add useKeyTab|GSSAPI needs the package)",
        ),
        ({LOGIN: "x.DigestLoginModule required username=kafka;"}, "to let this broker in: add password="),
    ],
)
def test_a_login_that_cannot_work_ends_the_start(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        access(settings)


@pytest.mark.parametrize(
    ("path", "owned", "secret"),
    [
        ("/brokers/topics/t", True, False),
        ("/config/topics", True, False),
        ("/config/users/alice", True, True),
        (znodes.SALT_SECRET, True, True),
        ("/config/brokers", True, True),
        ("/delegation_token", True, False),
        ("/delegation_token/tokens", True, True),
        ("/kafka-acl/Topic", True, False),
        ("/consumers", False, False),
        ("/consumers/group", True, False),
    ],
)
def test_nodes_are_owned_as_apache_kafka_has_it(path: str, owned: bool, secret: bool) -> None:
    own = ZooKeeperAccess(own_nodes=True)
    assert (own.is_owned(path), own.is_secret(path)) == (owned, secret)
    assert not EVERYBODY.is_owned(path)
