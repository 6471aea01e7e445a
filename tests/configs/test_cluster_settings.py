"""A broker of a cluster obeys settings that mean nothing to a sole broker."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkapy
from kafkapy.configs import unsupported
from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigError, broker_keys

SET = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "5000",
    "zookeeper.session.timeout.ms": "6000",
    "inter.broker.protocol.version": "2.8",
    "unclean.leader.election.enable": "true",
}


def test_settings_of_a_cluster_have_no_effect_on_a_sole_broker() -> None:
    assert BrokerConfig(SET).without_effect() == list(SET)
    assert BrokerConfig(SET, clustered=True).without_effect() == []


def test_internal_topics_have_three_replicas_in_a_cluster() -> None:
    sole, clustered = BrokerConfig({}), BrokerConfig({}, clustered=True)
    names = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
    assert [sole[name] for name in names] == [1, 1]
    assert [clustered[name] for name in names] == [3, 3]
    assert clustered.text(names[0]) == "3"
    assert clustered["transaction.state.log.min.isr"] == 2
    given = BrokerConfig({names[0]: "1"}, clustered=True)
    assert given[names[0]] == 1


def test_an_address_of_zookeeper_makes_the_broker_one_of_a_cluster() -> None:
    assert BrokerConfig({"zookeeper.connect": "localhost:2181"}).clustered
    assert not BrokerConfig({"zookeeper.connect": ""}).clustered


@pytest.mark.parametrize(
    "connect",
    ["localhost", "a:2181,b:2181", "a:1, b:2/kafka", "[::1]:2181/a/b", "a:1/", "a:1/kafka/"],
)
def test_zookeeper_is_given_by_hosts_and_a_chroot(connect: str) -> None:
    assert BrokerConfig({"zookeeper.connect": connect})["zookeeper.connect"] == connect


@pytest.mark.parametrize("connect", ["a:port", "/kafka", "a:1,", "a:1/x//y", "http://a:1", "a:1/k,b:1/k x"])
def test_a_malformed_address_is_refused(connect: str) -> None:
    with pytest.raises(ConfigError, match=r"^zookeeper.connect=.*: expected HOST:PORT, .*, such as loc"):
        BrokerConfig({"zookeeper.connect": connect})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"zookeeper.ssl.crl.enable": "true"},
            "zookeeper.ssl.crl.enable=true: lists of revoked certificates",
        ),
        ({"zookeeper.clientCnxnSocket": "a.B"}, "zookeeper.clientCnxnSocket=a.B: this broker loads no Java"),
        ({"zookeeper.metadata.migration.enable": "true"}, "there is no KRaft to migrate to"),
        ({"broker.id": "1001"}, r"broker.id=1001: ids above 1000 \(reserved.broker.max.id\) are generated"),
        ({"inter.broker.protocol.version": "4.0-IV1"}, "4.0-IV1: no release of Kafka with ZooKeeper has it"),
        ({"inter.broker.listener.name": "INSIDE"}, "listener INSIDE, which is not among the listeners"),
        ({"zookeeper.session.timeout.ms": "0"}, "zookeeper.session.timeout.ms=0: must be at least 1"),
        ({"zookeeper.connection.timeout.ms": "-1"}, "timeout.ms=-1: must be at least 1"),
    ],
)
def test_what_a_broker_of_a_cluster_cannot_do_is_one_line(settings: dict[str, str], message: str) -> None:
    BrokerConfig(settings)  # a sole broker does not care
    with pytest.raises(ConfigError, match=message) as refused:
        BrokerConfig(settings, clustered=True)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"broker.id": "-5"}, "broker.id=-5: expected at least -1, with which the broker chooses its id"),
        ({"node.id": "-2"}, "node.id=-2: expected at least -1"),
        ({"broker.id": "1", "node.id": "2"}, r"broker.id=1: must be the same as node.id \(2\)"),
    ],
)
def test_an_id_that_no_broker_can_have_is_refused(
    settings: dict[str, str], message: str, clustered: bool
) -> None:
    with pytest.raises(ConfigError, match=message):
        BrokerConfig(settings, clustered=clustered)


def test_the_listener_of_other_brokers_is_named_by_its_security_protocol_too() -> None:
    settings = {
        "listeners": "PLAINTEXT://:9092,SASL_SSL://:9093",
        "security.inter.broker.protocol": "SASL_SSL",
    }
    config = BrokerConfig(settings, clustered=True)
    assert (config.inter_broker_listener, config.inter_broker_protocol) == ("SASL_SSL", "SASL_SSL")


def test_the_listener_of_other_brokers_is_named_once() -> None:
    settings = {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"}
    with pytest.raises(ConfigError, match="both say where other brokers connect; set one of them"):
        BrokerConfig(settings)


def test_zookeeper_may_be_reached_by_netty_as_tls_demands_in_apache_kafka() -> None:
    name = "org.apache.zookeeper.ClientCnxnSocketNetty"
    assert BrokerConfig({"zookeeper.clientCnxnSocket": name}, clustered=True).clustered


def test_ids_are_free_if_none_are_generated() -> None:
    settings = {"broker.id": "5000", "broker.id.generation.enable": "false"}
    assert BrokerConfig(settings, clustered=True).node_id == 5000


@pytest.mark.parametrize(
    "version", ["3.9", "3.9.1", "3.9-IV0", "2.8", "0.10.2", "0.10.2.1", "0.9.0", "0.11.0-IV2"]
)
def test_a_release_of_kafka_is_a_version_of_its_protocol(version: str) -> None:
    assert BrokerConfig({"inter.broker.protocol.version": version}, clustered=True).clustered


@pytest.mark.parametrize("version", ["3.10", "3.9-IV7", "9", "latest", "0.7.0", "3"])
def test_a_version_that_nobody_knows_is_refused(version: str) -> None:
    with pytest.raises(ConfigError, match=f"version={version}: expected a version of Kafka, such as 3.9"):
        BrokerConfig({"inter.broker.protocol.version": version})


def test_the_listener_of_other_brokers_is_plaintext_or_named() -> None:
    assert BrokerConfig({}, clustered=True).inter_broker_listener == "PLAINTEXT"
    settings = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "inter.broker.listener.name": "inside",
    }
    assert BrokerConfig(settings, clustered=True).inter_broker_listener == "INSIDE"


def test_every_setting_of_a_cluster_is_obeyed_refused_or_said_to_have_no_effect() -> None:
    package = Path(kafkapy.__file__).parent
    sources = "".join(
        path.read_text() for path in package.rglob("*.py") if path.name not in ("unsupported.py", "docs.py")
    )
    idle_alone = unsupported.without_effect(broker_keys())
    silent = [
        name
        for name in idle_alone
        if not unsupported.without_effect([name], clustered=True)
        and not unsupported.refusal(name, clustered=True)
        and f'"{name}"' not in sources
    ]
    assert silent == []
