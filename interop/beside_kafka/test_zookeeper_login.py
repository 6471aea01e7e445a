"""kafkapy and Apache Kafka own the nodes of a ZooKeeper that demands a login."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from interop.beside_kafka.test_secure_links import SecureCluster
from interop.security.secure_server import FromFile
from interop.support.kafka_jars import TOOL_FLAGS
from interop.support.secured_zookeeper import (
    BROKERS,
    OTHERS,
    access_of,
    jaas_flag,
    line_of,
    looking_as,
    secured_zookeeper,
)
from interop.support.waiting import wait_until
from interop.support.zookeeper_process import ZooKeeperKafkaProcess, ZooKeeperProcess
from interop.zookeeper.test_logins import OPEN, OWNED, SECRET
from kafkapy.security.zookeeper import LOGIN
from tests.ports import free_ports

CHROOT = "/owned"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    with secured_zookeeper(tmp_path_factory.mktemp("zookeeper")) as process:
        yield process


def settings(number: int, address: str, zookeeper: str) -> dict[str, str]:
    return {
        "broker.id": str(number),
        "listeners": f"PLAINTEXT://{address}",
        "advertised.listeners": f"PLAINTEXT://{address}",
        "zookeeper.connect": f"{zookeeper}{CHROOT}",
        "zookeeper.set.acl": "true",
        "offsets.topic.replication.factor": "1",
        "inter.broker.protocol.version": "3.9",
    }


@pytest.fixture(scope="module", params=["kafkapy", "Apache Kafka"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, secured: ZooKeeperProcess
) -> Iterator[SecureCluster]:
    """Both kinds, of which one starts first: it makes the tree, and is the controller."""
    with looking_as(BROKERS, secured.bootstrap_servers) as client:
        client.delete(CHROOT, recursive=True)
    folder, zookeeper = tmp_path_factory.mktemp("owned"), secured.bootstrap_servers
    (port,) = free_ports(1)
    lines = settings(1, f"127.0.0.1:{port}", zookeeper)
    own = {"log.dirs": str(folder / "1" / "data"), LOGIN: line_of(BROKERS)}
    kafkapy = FromFile(folder / "1", lines | own, f"127.0.0.1:{port}")
    flags = (*TOOL_FLAGS, jaas_flag(folder / "jaas", "Client", line_of(BROKERS)))
    kafka = ZooKeeperKafkaProcess(folder / "2", zookeeper, heap="256m", jvm_flags=flags)
    kafka.properties |= settings(2, kafka.bootstrap_servers, zookeeper)
    first, second = (kafkapy, kafka) if request.param == "kafkapy" else (kafka, kafkapy)
    with first, second:
        admin = AdminClient({"bootstrap.servers": first.bootstrap_servers})
        wait_until(lambda: len(admin.list_topics(timeout=10).brokers) == 2, timeout=60)
        yield SecureCluster(kafkapy, kafka)


def test_each_kind_changes_what_the_other_made(cluster: SecureCluster, secured: ZooKeeperProcess) -> None:
    for number, server in enumerate(cluster):
        servers = {"bootstrap.servers": server.bootstrap_servers}
        admin = AdminClient(servers)
        topic = NewTopic(f"t{number}", 2, 2, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])[topic.topic].result(30)
        user = UserScramCredentialUpsertion(
            "alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), f"secret{number}".encode()
        )
        admin.alter_user_scram_credentials([user])["alice"].result(30)
        producer = Producer({**servers, "acks": "all"})
        producer.produce(topic.topic, b"x")
        assert producer.flush(60) == 0
    with looking_as(BROKERS, secured.bootstrap_servers) as client:
        found = access_of(client, CHROOT)
    assert f"{CHROOT}/config/users/alice" in found
    secret = tuple(
        f"{CHROOT}/{path}" for path in ("config/users", "config/brokers", "delegation_token/tokens")
    )
    wrong = {
        path: access
        for path, access in found.items()
        if access != (OPEN if path == f"{CHROOT}/consumers" else SECRET if path.startswith(secret) else OWNED)
    }
    assert wrong == {}


def test_a_broker_with_another_login_does_not_come_in(
    cluster: SecureCluster, secured: ZooKeeperProcess, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    lines = settings(3, f"127.0.0.1:{port}", secured.bootstrap_servers)
    own = {"log.dirs": str(tmp_path / "data"), LOGIN: line_of(OTHERS)}
    stranger = FromFile(tmp_path, lines | own, f"127.0.0.1:{port}")
    stranger.launch()
    wait_until(lambda: not stranger.running, timeout=60)
    assert "its access control list allows that to others only" in stranger.output()
