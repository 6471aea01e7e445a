"""A suite for pytest-kafka-broker runs unedited with one line of configuration."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

INI = """[pytest]
kafka_stand_in = pytest_kafka_broker
kafka_broker_extra_config =
    message.max.bytes = 123456
    listeners = PLAINTEXT://127.0.0.1:1
"""
SUITE = """
import asyncio
import pytest
from confluent_kafka.admin import ConfigResource, ResourceType
from pytest_kafka_broker import KafkaBrokerContext

def test_clients_reach_the_broker(kafka_broker: KafkaBrokerContext):
    with kafka_broker.producer() as producer:
        producer.produce("orders", b"two apples")
    with kafka_broker.consumer({"group.id": "shop", "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe(["orders"])
        (message,) = consumer.consume()
        assert message.value() == b"two apples"

def test_asynchronous_clients_reach_it(kafka_broker):
    async def round_trip():
        async with kafka_broker.aio_producer() as producer:
            await producer.produce("orders", b"two apples")
        config = {"group.id": "shop", "auto.offset.reset": "earliest"}
        async with kafka_broker.aio_consumer(config) as consumer:
            await consumer.subscribe(["orders"])
            (message,) = await consumer.consume()
            return message.value()
    assert asyncio.run(round_trip()) == b"two apples"

def test_its_settings_are_those_of_the_configuration(kafka_broker):
    with kafka_broker.admin() as admin:
        (future,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, name="1")]).values()
        assert future.result()["message.max.bytes"].value == "123456"

@pytest.mark.kafka(topics={"orders": 3})
def test_kafkapys_own_fixtures_live_beside_it(kafka_broker, async_kafka_broker):
    assert async_kafka_broker.bootstrap_servers == kafka_broker.bootstrap_server
    fault = kafka_broker.faults.produce().error("NOT_LEADER_OR_FOLLOWER", times=1)
    kafka_broker.producer().flush()
    assert len(kafka_broker.admin().list_topics().topics["orders"].partitions) == 3
    assert repr(kafka_broker) == f"KafkaBrokerContext(bootstrap_server={kafka_broker.bootstrap_server!r})"

def test_a_port_is_free(find_unused_tcp_port):
    ports = {find_unused_tcp_port(), find_unused_tcp_port(9092), find_unused_tcp_port(9092)}
    assert len(ports) == 3
"""
_PLUGIN = """
import pytest

def pytest_addoption(parser):
    parser.getgroup("Kafka broker").addoption("--kafka", action="store_true")
    parser.addini("kafka_broker_extra_config", type="linelist", help="")

@pytest.fixture
def kafka_broker():
    raise AssertionError("the package's own fixture is used")
"""


def pytest_in(folder: Path, *arguments: str, suite: str = SUITE) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text(INI)
    (folder / "test_it.py").write_text(suite)
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)


def test_a_suite_runs_unedited(tmp_path: Path) -> None:
    ended = pytest_in(tmp_path, "--kafka")
    assert (ended.returncode, ended.stdout.count("passed")) == (0, 1), ended.stdout + ended.stderr


def test_it_takes_the_place_of_the_installed_package(tmp_path: Path) -> None:
    package, facts = tmp_path / "pytest_kafka_broker", tmp_path / "pytest_kafka_broker-1.0.0.dist-info"
    for folder in (package, facts):
        folder.mkdir()
    (package / "__init__.py").write_text("")
    (package / "plugin.py").write_text(_PLUGIN)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: pytest-kafka-broker\nVersion: 1.0.0\n")
    (facts / "entry_points.txt").write_text("[pytest11]\nkafka_broker = pytest_kafka_broker.plugin\n")
    ended = pytest_in(tmp_path, "--kafka", "-k", "settings")
    assert (ended.returncode, ended.stdout.count("1 passed")) == (0, 1), ended.stdout + ended.stderr


def test_a_folder_of_apache_kafka_is_refused(tmp_path: Path) -> None:
    ended = pytest_in(tmp_path, suite="def test_it(kafka_home): pass")
    assert "kafkapy stands in for pytest-kafka-broker without kafka_home" in ended.stdout
