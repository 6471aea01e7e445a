"""kafkapy and Apache Kafka reach each other by TLS with logins, and ZooKeeper by TLS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from interop.security.secure_server import FromFile
from interop.support.waiting import wait_until
from interop.support.zookeeper_process import ZooKeeperKafkaProcess, ZooKeeperProcess
from tests.ports import free_ports
from tests.security.certificates import Certificates, make_certificates
from tests.servers.server_process import ServerProcess

MECHANISM = "SCRAM-SHA-512"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


class SecureCluster(NamedTuple):
    """A broker of each kind, started in this order: kafkapy is the controller."""

    kafkapy: ServerProcess
    kafka: ServerProcess

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.kafkapy.bootstrap_servers},{self.kafka.bootstrap_servers}"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secure_zookeeper(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[str]:
    """The address by TLS of a ZooKeeper that demands certificates there."""
    (port,) = free_ports(1)
    more = (
        f"secureClientPort={port}\nserverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
        "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider\n"
        f"ssl.keyStore.location={certificates.server}\nssl.trustStore.location={certificates.authority}\n"
        "ssl.clientAuth=need\nssl.quorum.hostnameVerification=false\nssl.hostnameVerification=false\n"
    )
    with ZooKeeperProcess(tmp_path_factory.mktemp("zookeeper"), more=more):
        yield f"127.0.0.1:{port}"


def settings(number: int, address: str, zookeeper: str, certificates: Certificates) -> dict[str, str]:
    """The same for both, as in a server.properties: clients are open, and brokers are not."""
    (port,) = free_ports(1)
    listeners = f"PLAINTEXT://{address},INSIDE://127.0.0.1:{port}"
    return {
        "broker.id": str(number),
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:SASL_SSL",
        "inter.broker.listener.name": "INSIDE",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "listener.name.inside.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": MECHANISM,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        f"listener.name.inside.{MECHANISM.lower()}.sasl.jaas.config": (
            f'{MODULE} required username="inside" password="secret";'
        ),
        "zookeeper.connect": f"{zookeeper}/secure",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.keystore.location": str(certificates.server),
        "zookeeper.ssl.truststore.location": str(certificates.authority),
        "offsets.topic.replication.factor": "1",
        "inter.broker.protocol.version": "3.9",
    }


def kafkapy_of(
    folder: Path, number: int, zookeeper: str, certificates: Certificates, more: dict[str, str] | None = None
) -> FromFile:
    (port,) = free_ports(1)
    lines = settings(number, f"127.0.0.1:{port}", zookeeper, certificates) | (more or {})
    return FromFile(folder, lines | {"log.dirs": str(folder / "data")}, f"127.0.0.1:{port}")


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, secure_zookeeper: str, certificates: Certificates
) -> Iterator[SecureCluster]:
    folder = tmp_path_factory.mktemp("secure")
    kafkapy = kafkapy_of(folder / "1", 1, secure_zookeeper, certificates)
    kafka = ZooKeeperKafkaProcess(folder / "2", secure_zookeeper, heap="256m")
    kafka.properties |= settings(2, kafka.bootstrap_servers, secure_zookeeper, certificates)
    with kafkapy:
        user = UserScramCredentialUpsertion(
            "inside", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"secret"
        )
        admin = AdminClient({"bootstrap.servers": kafkapy.bootstrap_servers})
        admin.alter_user_scram_credentials([user])["inside"].result(30)
        with kafka:
            wait_until(lambda: len(admin.list_topics(timeout=10).brokers) == 2, timeout=60)
            yield SecureCluster(kafkapy, kafka)


def test_records_reach_the_other_kind_of_broker(cluster: SecureCluster) -> None:
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    admin = AdminClient(servers)
    topic = NewTopic("t", 2, 2, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])["t"].result(30)
    producer = Producer({**servers, "acks": "all"})
    for number in range(1000):
        producer.produce("t", str(number), partition=number % 2)
    assert producer.flush(60) == 0
    leaders = admin.list_topics("t", timeout=10).topics["t"].partitions
    assert {each.leader: sorted(each.isrs) for each in leaders.values()} == {1: [1, 2], 2: [1, 2]}
    consumer = Consumer({**servers, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", number, OFFSET_BEGINNING) for number in range(2)])
    found: set[bytes] = set()
    while len(found) < 1000:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is None:
            found.add(message.value())
    consumer.close()
    assert found == {str(number).encode() for number in range(1000)}


def test_a_broker_without_the_right_certificate_does_not_reach_zookeeper(
    tmp_path: Path, secure_zookeeper: str, certificates: Certificates
) -> None:
    stranger = kafkapy_of(
        tmp_path,
        3,
        secure_zookeeper,
        certificates,
        {
            "zookeeper.ssl.keystore.location": str(certificates.stranger),
            "zookeeper.connection.timeout.ms": "3000",
        },
    )
    stranger.launch()
    wait_until(lambda: not stranger.running, timeout=30)
    assert f"No ZooKeeper answers at {secure_zookeeper}/secure" in stranger.output()
