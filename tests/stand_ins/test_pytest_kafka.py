"""A suite for pytest-kafka runs unedited when one line of pytest's configuration says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

INI = "[pytest]\nkafka_stand_in = pytest_kafka\n"
CONFTEST = """
from functools import partial
from subprocess import Popen
from pytest_kafka import (
    KAFKA_SERVER_CONFIG_TEMPLATE, make_kafka_consumer, make_kafka_server, make_zookeeper_process, terminate,
)
from pytest_kafka.constants import DEFAULT_CONSUMER_TIMEOUT_MS

kill = partial(terminate, signal_fn=Popen.kill)
zookeeper = make_zookeeper_process("kafka/bin/zookeeper-server-start.sh", teardown_fn=kill, scope="session")
kafka_server = make_kafka_server(
    "kafka/bin/kafka-server-start.sh", "zookeeper", teardown_fn=kill, scope="session",
    kafka_config_template=KAFKA_SERVER_CONFIG_TEMPLATE + "\\nlisteners=PLAINTEXT://:{kafka_port}\\n"
    "log.dirs={kafka_log_dir}\\nzookeeper.connect=localhost:{zk_port}\\nnum.partitions=3\\n",
)
kafka_of_a_test = make_kafka_server("kafka/bin/kafka-server-start.sh", "zookeeper")
consumer = make_kafka_consumer("kafka_server", kafka_topics=["orders"], seek_to_beginning=True)
"""
SUITE = """
from kafka import KafkaProducer

def test_a_record_arrives(kafka_server, consumer):
    process, port = kafka_server
    assert process.poll() is None
    producer = KafkaProducer(bootstrap_servers=f"localhost:{port}")
    producer.send("orders", b"two apples").get(20)
    assert len(producer.partitions_for("orders")) == 3
    producer.close()
    assert [record.value for record in consumer] == [b"two apples"]

def test_a_server_ends(kafka_of_a_test, kafka_server):
    process, port = kafka_of_a_test
    assert port != kafka_server[1]
    process.terminate()
    assert process.wait(5) == process.poll() == -15
"""


def pytest_in(folder: Path, conftest: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text(INI)
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_it.py").write_text(SUITE)
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)


def test_a_suite_runs_unedited(tmp_path: Path) -> None:
    ended = pytest_in(tmp_path, CONFTEST)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_listener_with_tls_is_refused(tmp_path: Path) -> None:
    ended = pytest_in(tmp_path, CONFTEST.replace("PLAINTEXT://", "SSL://"))
    assert "kafkapy stands in for pytest-kafka without listeners=SSL://:0" in ended.stdout
