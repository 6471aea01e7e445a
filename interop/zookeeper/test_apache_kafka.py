"""Apache Kafka 3.9.1 and kafkapy's metadata on one tree.

Each understands what the other writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kazoo.client import KazooClient

from interop.support.waiting import wait_until
from interop.support.zookeeper_process import ZooKeeperKafkaProcess
from interop.zookeeper.conftest import StartBroker
from kafkapy.metadata.cache import open_cluster
from kafkapy.metadata.store import MetadataStore

SETTINGS = {
    "broker.id": "2",
    "zookeeper.session.timeout.ms": "6000",
    "offsets.topic.num.partitions": "3",
    "broker.rack": "r2",
    "auto.leader.rebalance.enable": "false",
}


@contextlib.asynccontextmanager
async def running(kafka: ZooKeeperKafkaProcess) -> AsyncIterator[None]:
    await asyncio.to_thread(kafka.start)
    try:
        yield
    finally:
        await asyncio.to_thread(kafka.stop)


async def test_a_tree_of_apache_kafka(
    start_broker: StartBroker, connect: str, hand: KazooClient, tmp_path: Path
) -> None:
    kafka = ZooKeeperKafkaProcess(tmp_path, connect, properties=SETTINGS)
    async with running(kafka):
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        topic = NewTopic("t", 3, 1, config={"retention.ms": "5000"})
        await asyncio.to_thread(lambda: admin.create_topics([topic])["t"].result(30))
        broker = await start_broker(1)
        assert broker.image.controller_id == 2
        assert not broker.admin.writer.is_controller
        assert broker.image.brokers[2].rack == "r2"
        address = broker.image.brokers[2].endpoints["PLAINTEXT"]
        assert f"{address.host}:{address.port}" == kafka.bootstrap_servers
        found = broker.image.topics["t"]
        assert [state.leader for state in found.partitions] == [2, 2, 2]
        assert found.configs == {"retention.ms": "5000"}
        cluster_id, _ = await asyncio.to_thread(hand.get, "/cluster/id")
        assert broker.image.cluster_id == json.loads(cluster_id)["id"]
        await asyncio.to_thread(
            wait_until, lambda: sorted(admin.list_topics(timeout=30).brokers) == [1, 2], timeout=30
        )
        await asyncio.to_thread(
            lambda: admin.create_partitions([NewPartitions("t", 5, [[2], [2]])])["t"].result(30)
        )
        await broker.until(lambda image: len(image.topics["t"].partitions) == 5)
        change = ConfigEntry("segment.ms", "60000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[change])
        await asyncio.to_thread(lambda: admin.incremental_alter_configs([resource])[resource].result(30))
        await broker.until(lambda image: image.topics["t"].configs.get("segment.ms") == "60000")
        await asyncio.to_thread(lambda: admin.delete_topics(["t"])["t"].result(30))
        await broker.until(lambda image: "t" not in image.topics)
    await broker.until(lambda image: image.controller_id == 1)
    assert broker.admin.writer.controller_epoch == 2
    assert (await asyncio.to_thread(hand.get, "/controller_epoch"))[0] == b"2"


async def test_apache_kafka_takes_a_tree_of_kafkapy(
    store: MetadataStore, connect: str, tmp_path: Path
) -> None:
    image = await open_cluster(store, shared=True)
    kafka = ZooKeeperKafkaProcess(tmp_path, connect, properties=SETTINGS)
    async with running(kafka):
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        described = await asyncio.to_thread(lambda: admin.list_topics(timeout=30))
        assert described.cluster_id == image.cluster_id
        assert (await store.get("/controller_epoch")).data == b"1"
