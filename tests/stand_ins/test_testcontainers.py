"""A suite for testcontainers runs unedited when one line of pytest's configuration says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kafkapy.stand_ins.testcontainers import KafkaContainer, RedpandaContainer

CONFTEST = """
import pytest
from testcontainers.kafka import KafkaContainer

@pytest.fixture(scope="session")
def kafka():
    container = KafkaContainer("confluentinc/cp-kafka:7.6.1").with_kraft().with_env("KAFKA_NUM_PARTITIONS", 3)
    with container as started:
        yield started
"""
SUITE = """
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

def test_a_record_is_taken(kafka):
    servers = {"bootstrap.servers": kafka.get_bootstrap_server()}
    producer = Producer(servers)
    producer.produce("orders", "two apples")
    assert producer.flush(20) == 0
    topic = AdminClient(servers).list_topics("orders", timeout=20).topics["orders"]
    assert len(topic.partitions) == 3
    host, port = kafka.get_container_host_ip(), kafka.get_exposed_port(9093)
    assert kafka.get_bootstrap_server() == f"{host}:{port}"
"""


def pytest_in(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(SUITE)
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)


def test_a_suite_runs_unedited(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nkafka_stand_in = testcontainers\n")
    ended = pytest_in(tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_name_that_is_not_known_is_refused(tmp_path: Path) -> None:
    ended = pytest_in(tmp_path, "-o", "kafka_stand_in=docker")
    assert ended.returncode != 0
    assert "kafka_stand_in=docker: expected pytest_kafka, pytest_kafka_broker, testcontainers" in ended.stderr


def test_redpanda_has_a_schema_registry() -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    with RedpandaContainer() as redpanda:
        with SchemaRegistryClient({"url": redpanda.get_schema_registry_address()}) as client:
            assert client.get_subjects() == []
        assert redpanda.get_bootstrap_server().endswith(f":{redpanda.get_exposed_port(9092)}")


@pytest.mark.parametrize("method", ["exec", "with_tmpfs_mount", "with_command", "get_logs"])
def test_what_needs_a_container_is_refused(method: str) -> None:
    with pytest.raises(NotImplementedError, match=f"so it has no {method}: take kafka_stand_in out"):
        getattr(KafkaContainer(), method)


def test_tls_and_logins_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="security_protocol=SSL"):
        KafkaContainer(security_protocol="SSL")
    mapped = KafkaContainer().with_env("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "A:PLAINTEXT,B:SASL_SSL")
    with pytest.raises(NotImplementedError, match="B:SASL_SSL"):
        mapped.start()
    secured = KafkaContainer().with_env("KAFKA_LISTENERS", "PLAINTEXT://:9092,SASL_PLAINTEXT://:9093")
    with pytest.raises(NotImplementedError, match="SASL_PLAINTEXT"):
        secured.start()


def test_a_second_start_leaves_the_broker_as_it_is() -> None:
    with KafkaContainer() as container:
        address = container.get_bootstrap_server()
        assert container.start().get_bootstrap_server() == address


def test_it_can_be_started_again() -> None:
    container = KafkaContainer()
    for _ in range(2):
        container.start()
        assert container.get_bootstrap_server()
        container.stop()
    with pytest.raises(RuntimeError, match="KafkaContainer has not been started"):
        container.get_bootstrap_server()


_IMAGES = """
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network
from testcontainers.community.kafka import KafkaContainer

def test_a_broker_and_a_registry_of_it():
    with Network() as network:
        kafka = (
            DockerContainer(image="confluentinc/cp-kafka:7.6.1", hostname="kafka")
            .with_env("KAFKA_LISTENERS", "PLAINTEXT://:9092,CONTROLLER://:9093,EXTERNAL://:19092")
            .with_env("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://kafka:9092,EXTERNAL://127.0.0.1:19092")
            .with_env("KAFKA_NUM_PARTITIONS", "3")
            .with_env("KAFKA_NODE_ID", "0")
            .with_exposed_ports(19092)
            .with_network(network)
        )
        assert kafka.get_logs() == (b"", b"")
        with kafka:
            assert b"Kafka Server started" in kafka.get_logs()[0]
            address = f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(19092)}"
            producer = Producer({"bootstrap.servers": address})
            producer.produce("orders", b"two apples")
            assert producer.flush(20) == 0
            assert len(producer.list_topics("orders").topics["orders"].partitions) == 3
            assert list(producer.list_topics().brokers) == [0]
            registry = (
                DockerContainer(image="confluentinc/cp-schema-registry")
                .with_env("SCHEMA_REGISTRY_KAFKASTORE_BOOTSTRAP_SERVERS", "PLAINTEXT://kafka:9092")
                .with_exposed_ports(8081)
                .with_network(network)
            )
            with registry:
                client = SchemaRegistryClient({"url": f"http://127.0.0.1:{registry.get_exposed_port(8081)}"})
                assert client.register_schema("orders", Schema('"string"', "AVRO")) > 0
            with pytest.raises(NotImplementedError, match="without a container, so it has no exec"):
                kafka.exec("ls")

def test_a_registry_finds_a_broker_by_its_name_in_the_network():
    with Network() as network:
        kafka = KafkaContainer("confluentinc/cp-kafka").with_network(network).with_network_aliases("kafka")
        registry = (
            DockerContainer("confluentinc/cp-schema-registry:8.3.1")
            .with_network(network)
            .with_network_aliases("schema-registry")
            .with_exposed_ports(8081)
            .with_env("SCHEMA_REGISTRY_KAFKASTORE_BOOTSTRAP_SERVERS", "PLAINTEXT://kafka:9092")
            .waiting_for(object())
        )
        with kafka, registry:
            client = SchemaRegistryClient({"url": f"http://127.0.0.1:{registry.get_exposed_port(8081)}"})
            assert client.register_schema("orders", Schema('"string"', "AVRO")) > 0
            producer = Producer({"bootstrap.servers": kafka.get_bootstrap_server()})
            assert "_schemas" in producer.list_topics(timeout=20).topics

def test_another_image_is_refused_without_testcontainers():
    with pytest.raises(NotImplementedError, match="postgres:16 is none"):
        DockerContainer("postgres:16")
"""


def test_containers_of_images_of_kafka_and_registries_are_stood_in_for(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nkafka_stand_in = testcontainers\n")
    (tmp_path / "test_it.py").write_text(_IMAGES)
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (ended.returncode, ended.stdout.count("3 passed")) == (0, 1), ended.stdout + ended.stderr
