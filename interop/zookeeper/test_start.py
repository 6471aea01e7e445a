"""A broker with zookeeper.connect starts, or says in one line why it cannot.

Then it has written nothing.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient
from kazoo.security import make_acl

from interop.support.kafka_jars import java_command
from interop.support.waiting import wait_until
from kafkapy import Broker
from kafkapy.broker.core import StartError
from kafkapy.metadata import znodes
from tests.ports import free_ports


def broker(connect: str, data_dir: Path, **settings: Any) -> Broker:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    config = {"zookeeper.connect": connect, "zookeeper.session.timeout.ms": 4000, **names}
    return Broker(config=config, data_dir=data_dir)


def refusal(started: Broker) -> str:
    with pytest.raises(StartError) as refused:
        started.start()
    message = str(refused.value)
    assert "\n" not in message
    return message


def nodes(hand: KazooClient, path: str = "/") -> set[str]:
    """All nodes from `path` down."""
    found = {path}
    for name in hand.get_children(path):
        found |= nodes(hand, f"{path.rstrip('/')}/{name}")
    return found


def meta(folder: Path) -> dict[str, str]:
    lines = (folder / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def test_brokers_get_ids_and_keep_them(connect: str, hand: KazooClient, tmp_path: Path) -> None:
    with broker(connect, tmp_path / "a") as first, broker(connect, tmp_path / "b") as second:
        assert sorted(hand.get_children("/brokers/ids")) == ["1001", "1002"]
        assert {first.core.node_id, second.core.node_id} == {1001, 1002}
        assert first.core.clustered
        described = AdminClient({"bootstrap.servers": first.bootstrap_servers}).list_topics(timeout=20)
        assert sorted(described.brokers) == [1001, 1002]
        assert described.cluster_id == first.core.cluster_id
        node_id = first.core.node_id
    assert hand.get_children("/brokers/ids") == []
    with broker(connect, tmp_path / "a") as again:
        assert again.core.node_id == node_id
    assert meta(tmp_path / "a")["cluster.id"] == meta(tmp_path / "b")["cluster.id"]


def test_no_zookeeper(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    settings = {"zookeeper_connection_timeout_ms": 300}
    told = refusal(broker(f"{address}/kafka", tmp_path, **settings))
    assert told == (
        f"No ZooKeeper answers at {address}/kafka within 0.3 s. Start it, or correct zookeeper.connect."
    )
    assert not (tmp_path / "meta.properties").exists()


def test_data_of_another_cluster(connect: str, hand: KazooClient, tmp_path: Path) -> None:
    with broker(f"{connect}/one", tmp_path / "a"):
        pass
    assert "there is no cluster in ZooKeeper" in refusal(broker(f"{connect}/two", tmp_path / "a"))
    assert hand.exists("/two") is None
    with broker(f"{connect}/two", tmp_path / "b"):
        pass
    before, own = nodes(hand), meta(tmp_path / "a")
    assert "and zookeeper.connect names cluster" in refusal(broker(f"{connect}/two", tmp_path / "a"))
    assert nodes(hand) == before
    assert meta(tmp_path / "a") == own


def test_data_of_another_broker(connect: str, hand: KazooClient, tmp_path: Path) -> None:
    with broker(connect, tmp_path, broker_id=1):
        pass
    before = nodes(hand)
    told = refusal(broker(connect, tmp_path, broker_id=2))
    assert told.endswith(
        "belongs to broker 1, and this is broker 2. Choose another directory, or correct the settings."
    )
    assert nodes(hand) == before


def test_the_id_of_a_running_broker(connect: str, hand: KazooClient, tmp_path: Path) -> None:
    with broker(connect, tmp_path / "a", broker_id=1) as running:
        before, address = nodes(hand), running.bootstrap_servers
        told = refusal(broker(connect, tmp_path / "b", broker_id=1))
        assert told == (
            "broker id 1 is in use by another broker of this cluster, registered at"
            f" PLAINTEXT://{address}: set another broker.id, or stop that broker"
        )
        assert nodes(hand) == before
        with broker(connect, tmp_path / "b", broker_id=2):
            pass  # the directory was not claimed for the wrong id


def test_the_address_of_a_running_broker(connect: str, hand: KazooClient, tmp_path: Path) -> None:
    with broker(connect, tmp_path / "a", broker_id=1) as running:
        before, address = nodes(hand), f"PLAINTEXT://{running.bootstrap_servers}"
        told = refusal(broker(connect, tmp_path / "b", broker_id=2, advertised_listeners=address))
        assert told.startswith(f"{address} is the address of broker 1 already: set advertised.listeners to")
        assert nodes(hand) == before


def test_an_address_that_brokers_on_other_machines_cannot_reach(
    connect: str, hand: KazooClient, tmp_path: Path
) -> None:
    with broker(connect, tmp_path / "a", broker_id=1):
        pass
    there = znodes.Endpoint("PLAINTEXT", "192.0.2.1", 9092, "PLAINTEXT")
    hand.create("/brokers/ids/1", znodes.encode_broker(znodes.BrokerInfo((there,), None), 0), ephemeral=True)
    before = nodes(hand)
    told = refusal(broker(connect, tmp_path / "b", broker_id=2))
    assert f"is an address of this machine only, and broker 1 is on another, at {there}: set" in told
    assert nodes(hand) == before
    assert not (tmp_path / "b" / "meta.properties").exists()


@pytest.mark.parametrize(
    ("path", "allowed"), [("/closed", {"read": True}), ("/closed/brokers/ids", {"create": True})]
)
def test_a_tree_that_others_keep_to_themselves(
    connect: str, hand: KazooClient, tmp_path: Path, path: str, allowed: dict[str, bool]
) -> None:
    hand.create(path, makepath=True, acl=[make_acl("world", "anyone", **allowed)])
    told = refusal(broker(f"{connect}/closed", tmp_path))
    assert told.startswith("ZooKeeper refuses ")
    assert "its access control list allows that to others only" in told


def test_data_of_a_broker_that_was_alone(connect: str, hand: KazooClient, tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path):
        pass
    assert "has metadata of its own (metadata.db)" in refusal(broker(connect, tmp_path))
    assert nodes(hand) == {"/"}


def test_clients_see_the_numbers_that_partitions_have(
    connect: str, hand: KazooClient, tmp_path: Path
) -> None:
    with broker(connect, tmp_path, broker_id=1) as running:
        hand.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1],"3":[1]}}')
        client = AdminClient({"bootstrap.servers": running.bootstrap_servers})

        def partitions() -> list[tuple[int, int]]:
            topic = client.list_topics("t", timeout=20).topics["t"]
            return sorted((each.id, each.leader) for each in topic.partitions.values())

        wait_until(lambda: partitions() == [(0, 1), (3, 1)])
        command = [*java_command("3.9.1"), "org.apache.kafka.tools.TopicCommand", "--describe"]
        command += ["--topic", "t", "--bootstrap-server", running.bootstrap_servers]
        described = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
        assert re.findall(r"Partition: (\d+)\s+Leader: (\d+)", described) == [("0", "1"), ("3", "1")]
