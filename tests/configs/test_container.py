"""Environment variables as images of Kafka have them, and the settings that they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.container import MOUNTED_FILE, container_properties, setting_of
from kafkapy.configs.keys import ConfigError
from kafkapy.configs.listeners import Listener
from kafkapy.configs.security_protocol import SecurityProtocol

APACHE = {
    "PATH": "/usr/bin",
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"
    ),
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT_HOST://localhost:9092,PLAINTEXT://broker:19092",
    "KAFKA_LISTENERS": "CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs",
    "KAFKA_HEAP_OPTS": "-Xmx1G",
    "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN",
    "KAFKA_LOG4J_LOGGERS": "kafka.controller=INFO",
}
CONFLUENT = {
    "KAFKA_BROKER_ID": "1",
    "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
    "KAFKA_METRIC_REPORTERS": "io.confluent.metrics.reporter.ConfluentMetricsReporter",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_CONFLUENT_SCHEMA_REGISTRY_URL": "http://schema-registry:8081",
    "KAFKA_JMX_PORT": "9101",
    "KAFKA_JMX_HOSTNAME": "localhost",
    "CONFLUENT_METRICS_ENABLE": "true",
}
BITNAMI = {
    "ALLOW_PLAINTEXT_LISTENER": "yes",
    "KAFKA_ENABLE_KRAFT": "yes",
    "KAFKA_KRAFT_CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_CFG_NODE_ID": "0",
    "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
    "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093,EXTERNAL://:9094",
    "KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092,EXTERNAL://localhost:9094",
    "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "0@kafka:9093",
    "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
}


def config_of(environment: dict[str, str], root: Path, *, clustered: bool = False) -> BrokerConfig:
    return BrokerConfig.from_properties(container_properties(environment, None, root), clustered=clustered)


@pytest.mark.parametrize(
    ("variable", "setting"),
    [
        ("KAFKA_ADVERTISED_LISTENERS", "advertised.listeners"),
        ("KAFKA_LOG_RETENTION_MS", "log.retention.ms"),
        ("KAFKA_LISTENER_NAME_SASL__SSL_SSL_CLIENT_AUTH", "listener.name.sasl_ssl.ssl.client.auth"),
        (
            "KAFKA_LISTENER_NAME_OUTSIDE_SCRAM___SHA___512_SASL_JAAS_CONFIG",
            "listener.name.outside.scram-sha-512.sasl.jaas.config",
        ),
        ("KAFKA_LISTENER_NAME_SSL___INTERNAL_SSL_CLIENT_AUTH", "listener.name.ssl-internal.ssl.client.auth"),
        ("KAFKA_CFG_LOG_RETENTION_MS", "log.retention.ms"),
        ("KAFKA_CFG_LISTENER_NAME_SASL_SSL_SSL_CLIENT_AUTH", "listener.name.sasl_ssl.ssl.client.auth"),
        (
            "KAFKA_CFG_LISTENER_NAME_SASL_PLAINTEXT_PLAIN_SASL_JAAS_CONFIG",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config",
        ),
        ("KAFKA_ZOOKEEPER_CLIENTCNXNSOCKET", "zookeeper.clientCnxnSocket"),
        ("KAFKA_CFG_ZOOKEEPER_CLIENTCNXNSOCKET", "zookeeper.clientCnxnSocket"),
        ("KAFKA_OUR_TENANT_RATE", "our.tenant.rate"),
        ("KAFKA_HEAP_OPTS", None),
        ("KAFKA_JMX_PORT", None),
        ("KAFKA_PORT_9092_TCP_ADDR", None),
        ("KAFKA_SERVICE_HOST", None),
        ("CLUSTER_ID", None),
        ("KAFKAPY_CONTEXT", None),
        ("MY_KAFKA_LISTENERS", None),
    ],
)
def test_a_variable_is_the_setting_that_the_images_make_of_it(variable: str, setting: str | None) -> None:
    assert setting_of(variable) == setting


def test_the_variables_of_apache_kafkas_image_start_a_broker(tmp_path: Path) -> None:
    config = config_of(APACHE, tmp_path)
    assert config.node_id == 1
    assert config.log_dirs == (Path("/tmp/kraft-combined-logs"),)
    assert config.listeners == (Listener("PLAINTEXT_HOST", "", 9092), Listener("PLAINTEXT", "", 19092))
    assert config.advertised_listeners == (
        Listener("PLAINTEXT_HOST", "localhost", 9092),
        Listener("PLAINTEXT", "broker", 19092),
    )
    assert config["group.initial.rebalance.delay.ms"] == 0
    assert config.unknown() == []


def test_the_variables_of_confluents_image_start_a_broker_on_zookeeper(tmp_path: Path) -> None:
    config = config_of(CONFLUENT, tmp_path, clustered=True)
    assert config.node_id == 1
    assert config["zookeeper.connect"] == "zookeeper:2181"
    assert config.listeners == (
        Listener("PLAINTEXT", "0.0.0.0", 29092),
        Listener("PLAINTEXT_HOST", "0.0.0.0", 9092),
    )
    assert config.log_dirs == (Path("/var/lib/kafkapy"),)
    assert config.unknown() == []


def test_the_variables_of_bitnamis_image_start_a_broker(tmp_path: Path) -> None:
    config = config_of(BITNAMI, tmp_path)
    assert config.node_id == 0
    assert config.listeners == (Listener("PLAINTEXT", "", 9092), Listener("EXTERNAL", "", 9094))
    assert config.advertised_listeners[1] == Listener("EXTERNAL", "localhost", 9094)
    assert config.unknown() == []


def test_a_container_without_variables_listens_on_all_addresses(tmp_path: Path) -> None:
    config = config_of({}, tmp_path)
    assert config.listeners == (Listener("PLAINTEXT", "0.0.0.0", 9092),)
    assert config.advertised_listeners == ()
    assert config.log_dirs == (Path("/var/lib/kafkapy"),)
    assert config["metrics.port"] == 9404


def test_listeners_are_those_that_are_advertised_on_all_addresses(tmp_path: Path) -> None:
    properties = container_properties(
        {"KAFKA_ADVERTISED_LISTENERS": "A://[::1]:1,B://b.example:2"}, None, tmp_path
    )
    assert properties["listeners"] == "A://0.0.0.0:1,B://0.0.0.0:2"


def test_a_mounted_file_is_read_and_variables_win(tmp_path: Path) -> None:
    mounted = tmp_path / MOUNTED_FILE
    mounted.parent.mkdir(parents=True)
    mounted.write_text("num.partitions=3\nlog.dir=/data\nlisteners=PLAINTEXT://:9\nlog.retention.ms=5\n")
    config = config_of({"KAFKA_LOG_RETENTION_MS": "7"}, tmp_path)
    assert (config["num.partitions"], config["log.retention.ms"]) == (3, 7)
    assert config.log_dirs == (Path("/data"),)
    assert config.listeners == (Listener("PLAINTEXT", "", 9),)


def test_the_file_that_config_names_counts_and_not_the_mounted_one(tmp_path: Path) -> None:
    mounted = tmp_path / MOUNTED_FILE
    mounted.parent.mkdir(parents=True)
    mounted.write_text("num.partitions=3\n")
    named = tmp_path / "server.properties"
    named.write_text("num.partitions=4\n")
    assert container_properties({}, named, tmp_path)["num.partitions"] == "4"


def test_stores_and_passwords_are_files_below_the_secrets(tmp_path: Path) -> None:
    secrets = tmp_path / "etc/kafka/secrets"
    secrets.mkdir(parents=True)
    (secrets / "key_creds").write_text("of the key\n")
    (secrets / "trust_creds").write_text("of the store\n")
    properties = container_properties(
        {
            "KAFKA_SSL_KEYSTORE_FILENAME": "server.p12",
            "KAFKA_SSL_KEY_CREDENTIALS": "key_creds",
            "KAFKA_SSL_TRUSTSTORE_FILENAME": "authorities.p12",
            "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "trust_creds",
        },
        None,
        tmp_path,
    )
    assert properties["ssl.keystore.location"] == str(secrets / "server.p12")
    assert properties["ssl.truststore.location"] == str(secrets / "authorities.p12")
    assert properties["ssl.key.password"] == "of the key"
    assert properties["ssl.truststore.password"] == "of the store"
    assert "ssl.keystore.password" not in properties
    assert not [name for name in properties if name.endswith((".filename", ".credentials"))]


def test_an_empty_value_is_a_value(tmp_path: Path) -> None:
    config = config_of({"KAFKA_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM": ""}, tmp_path)
    assert config.text("ssl.endpoint.identification.algorithm") == ""


def test_a_listener_may_have_a_dash_in_its_name(tmp_path: Path) -> None:
    config = config_of(
        {
            "KAFKA_LISTENERS": "SSL-INTERNAL://:19093,SSL://:9093",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "SSL:SSL,SSL-INTERNAL:SSL",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "SSL-INTERNAL",
        },
        tmp_path,
    )
    assert config.listeners[0] == Listener("SSL-INTERNAL", "", 19093, SecurityProtocol.SSL)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"KAFKA_NUM_PARTITIONS": "1", "KAFKA_CFG_NUM_PARTITIONS": "2"},
            "KAFKA_NUM_PARTITIONS, KAFKA_CFG_NUM_PARTITIONS: both give num.partitions; set one of them",
        ),
        (
            {"KAFKA_OPTS": "-Djava.security.auth.login.config=/etc/kafka/secrets/jaas.conf"},
            "KAFKA_OPTS: java.security.auth.login.config names a file for Java, which is not read."
            " Give each login module as KAFKA_LISTENER_NAME_<listener>_<mechanism>_SASL_JAAS_CONFIG"
            " (docs/containers.md)",
        ),
        (
            {"KAFKA_CLIENT_USERS": "alice"},
            "KAFKA_CLIENT_USERS: logins are given as JAAS lines, such as"
            " KAFKA_LISTENER_NAME_<listener>_PLAIN_SASL_JAAS_CONFIG (docs/containers.md)",
        ),
    ],
)
def test_variables_that_cannot_be_obeyed_are_refused(
    environment: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as refused:
        container_properties(environment, None, tmp_path)
    assert str(refused.value) == message


def test_a_password_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"KAFKA_SSL_KEY_CREDENTIALS: cannot read .*/none: No such file"):
        container_properties({"KAFKA_SSL_KEY_CREDENTIALS": "none"}, None, tmp_path)


def test_a_quorum_of_several_is_refused_with_the_way_to_a_cluster(tmp_path: Path) -> None:
    voters = {"KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:9093,2@b:9093,3@c:9093"}
    with pytest.raises(ConfigError, match=r"the quorum has 3 members.*zookeeper\.connect"):
        config_of({**APACHE, **voters}, tmp_path)
