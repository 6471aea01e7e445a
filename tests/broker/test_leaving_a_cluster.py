"""A broker alone does not serve the logs of a cluster's broker unless it is told to."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import kafkapy
from kafkapy.broker.core import StartError
from tests.broker.test_cli import kafkapy as run

TOPIC = "orders"


def create(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()


def topics(broker: kafkapy.Broker) -> set[str]:
    return set(AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=10).topics)


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """The directory of the only broker of a cluster that is stopped."""
    with kafkapy.Cluster(brokers=1, data_dir=tmp_path / "cluster") as cluster:
        create(cluster.bootstrap_servers)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce(TOPIC, b"record")
        assert producer.flush(10) == 0
        (directory,) = cluster[1].core.config.log_dirs
    return directory


def test_a_broker_alone_does_not_take_the_directory_of_a_cluster_for_its_own(left: Path) -> None:
    before = {path: path.read_bytes() for path in left.rglob("*") if path.is_file()}
    with pytest.raises(StartError) as refusal, kafkapy.Broker(data_dir=left):
        pass
    message = str(refusal.value)
    assert message.startswith(f"{left} belongs to broker 1 of cluster ")
    assert "Set zookeeper.connect." in message
    assert f"remove metadata.shared from meta.properties in {left}." in message
    assert "\n" not in message
    assert {path: path.read_bytes() for path in left.rglob("*") if path.is_file()} == before


def test_it_does_if_the_operator_says_so(left: Path) -> None:
    meta = left / "meta.properties"
    lines = meta.read_text().splitlines()
    assert lines.count("metadata.shared=true") == 1
    meta.write_text("\n".join(line for line in lines if line != "metadata.shared=true"))
    with kafkapy.Broker(data_dir=left) as broker:
        assert topics(broker) == {TOPIC}
    with kafkapy.Broker(data_dir=left) as broker:
        assert topics(broker) == {TOPIC}


def test_a_copy_that_was_imported_has_left_the_cluster(left: Path, tmp_path: Path) -> None:
    done = run("import", str(left), str(tmp_path / "copy"))
    assert done.returncode == 0, done.stdout + done.stderr
    with kafkapy.Broker(data_dir=tmp_path / "copy") as broker:
        assert topics(broker) == {TOPIC}


def test_a_cluster_goes_on_with_its_directories(left: Path) -> None:
    with kafkapy.Cluster(brokers=1, data_dir=left.parent) as cluster:
        assert topics(cluster[1]) == {TOPIC}


def test_a_broker_alone_that_lost_its_metadata_still_adopts_its_logs(tmp_path: Path) -> None:
    with kafkapy.Broker(data_dir=tmp_path) as broker:
        create(broker.bootstrap_servers)
        assert "metadata.shared" not in (tmp_path / "meta.properties").read_text()
    for path in tmp_path.glob("metadata.db*"):
        path.unlink()
    with kafkapy.Broker(data_dir=tmp_path) as broker:
        assert topics(broker) == {TOPIC}
