"""A broker on ZooKeeper whose session ends or whose connection is lost.

Others write the tree by hand.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from interop.support.zookeeper_process import ZooKeeperProcess
from interop.zookeeper.conftest import SESSION_SECONDS, StartBroker, ZooKeeperCluster
from interop.zookeeper.test_sessions import expire, until
from kafkapy.controller.topic_plans import NewTopic
from kafkapy.metadata import znodes
from kafkapy.metadata.image import MetadataImage, read_image, read_tree
from kafkapy.metadata.store import EventType, MetadataStore, WatchEvent
from kafkapy.metadata.zookeeper import ZooKeeperStore
from kafkapy.protocol.errors import KafkaError
from tests.controller.cluster_world import Cluster


async def write(hand: KazooClient, path: str, fields: object = None) -> None:
    """Create a node as a tool of Kafka does."""
    data = None if fields is None else json.dumps(fields).encode()
    await asyncio.to_thread(hand.create, path, b"" if data is None else data)


async def shown(broker: Cluster) -> MetadataImage:
    """The contents of the tree, after the broker has published them."""
    image = read_image(await read_tree(broker.store))
    await broker.until(lambda published: published == image)
    return image


async def test_a_broker_whose_session_has_expired_registers_anew(
    start_broker: StartBroker, hand: KazooClient
) -> None:
    broker, other = await start_broker(1), await start_broker(2)
    assert broker.image.controller_id == 1
    epoch, controller_epoch = broker.image.brokers[1].epoch, broker.admin.writer.controller_epoch
    await other.until(lambda image: 1 in image.brokers)
    assert isinstance(broker.store.inner, ZooKeeperStore)
    await expire(broker.store.inner)
    await other.until(lambda image: 1 in image.brokers and image.brokers[1].epoch > epoch)
    assert (await asyncio.to_thread(hand.get, "/brokers/ids/1"))[1].ephemeralOwner == broker.store.session_id
    await broker.until(lambda image: 1 in image.brokers and image.brokers[1].epoch > epoch)
    # One of them has become controller, in a later epoch; the other one is none.
    leader, follower = (broker, other) if broker.admin.writer.is_controller else (other, broker)
    await follower.until(lambda image: image.controller_id == leader.node_id)
    await until(lambda: not follower.admin.writer.is_controller)
    assert int((await asyncio.to_thread(hand.get, "/controller_epoch"))[0]) > controller_epoch
    assert await shown(broker) == await shown(other)


async def disconnect(store: ZooKeeperStore) -> None:
    """End the connection; the session continues with the next one."""
    store._client._connection._socket.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("lose", [disconnect, expire])
async def test_what_changed_unheard_is_read_after_a_loss(
    start_broker: StartBroker,
    hand: KazooClient,
    monkeypatch: pytest.MonkeyPatch,
    lose: Callable[[ZooKeeperStore], Awaitable[None]],
) -> None:
    broker = await start_broker(1)
    await broker.admin.topics.create_topics([NewTopic("gone"), NewTopic("stays")])
    stays = broker.image.topics["stays"]
    store = broker.store.inner
    assert isinstance(store, ZooKeeperStore)
    tell = store._tell

    def tell_of_losses(watcher: Any, events: Sequence[WatchEvent]) -> None:
        if events[0].type is EventType.UNKNOWN:
            tell(watcher, events)

    monkeypatch.setattr(store, "_tell", tell_of_losses)
    await asyncio.to_thread(hand.delete, "/brokers/topics/gone", recursive=True)
    node = {"version": 2, "partitions": {"0": [1]}, "adding_replicas": {}, "removing_replicas": {}}
    await write(hand, "/brokers/topics/new", node)
    session = broker.store.session_id
    await lose(store)
    await broker.until(lambda image: set(image.topics) == {"stays", "new"})
    assert broker.image.topics["stays"].id == stays.id
    assert (broker.store.session_id == session) == (lose is disconnect)
    await shown(broker)


async def test_a_broker_outlives_a_restart_of_zookeeper(tmp_path: Path) -> None:
    with ZooKeeperProcess(tmp_path) as server:
        broker = await ZooKeeperCluster(server.bootstrap_servers, 1).start()
        try:
            session = broker.store.session_id
            epoch = broker.image.brokers[1].epoch
            server.kill()
            creating = asyncio.create_task(broker.admin.topics.create_topics([NewTopic("t")]))
            server.start()
            await asyncio.wait([creating])
            await broker.admin.topics.create_topics([NewTopic("u")])
            await broker.until(lambda image: "u" in image.topics)
            image = await shown(broker)
            if broker.store.session_id == session:
                assert image.brokers[1].epoch == epoch
            else:  # the restart took longer than the session
                assert image.brokers[1].epoch > epoch
            assert image.controller_id == 1
        finally:
            await broker.stop()


async def test_a_change_whose_answer_is_lost_is_found_in_the_tree(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection ends when ZooKeeper has the request, and before its answer is read."""
    broker = await start_broker(1)
    store = broker.store.inner
    assert isinstance(store, ZooKeeperStore)
    connection = store._client._connection
    submit = connection._submit
    lost = 0

    def lose_the_answer(request: Any, timeout: float, xid: int | None = None) -> None:
        nonlocal lost
        submit(request, timeout, xid)
        if request.type == 14 and not lost:  # a transaction
            lost += 1
            connection._socket.shutdown(0)  # for reading

    monkeypatch.setattr(connection, "_submit", lose_the_answer)
    results = await broker.admin.topics.create_topics([NewTopic("t")])
    assert lost == 1
    await broker.until(lambda image: "t" in image.topics)
    await shown(broker)
    assert isinstance(results["t"], KafkaError)
    again = await broker.admin.topics.create_topics([NewTopic("t")])
    assert "already exists" in str(again["t"])


async def test_the_registration_of_a_killed_broker_is_waited_for(
    start_broker: StartBroker, connect: str
) -> None:
    dead = await ZooKeeperStore.open(connect, session_timeout=SESSION_SECONDS, connection_timeout=20)
    broker = await start_broker(2)
    own = znodes.BrokerInfo((znodes.Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),), None)
    await dead.create("/brokers/ids/1", znodes.encode_broker(own, 0), ephemeral=True)
    await broker.until(lambda image: 1 in image.brokers)
    before = broker.image.brokers[1].epoch
    dead._client._connection._socket.shutdown(2)
    dead._client._stopped.set()  # it does not connect again
    await start_broker(1)
    await broker.until(lambda image: 1 in image.brokers and image.brokers[1].epoch > before)
    await dead.close()


async def test_settings_and_marks_written_by_hand_are_obeyed(
    start_broker: StartBroker, hand: KazooClient
) -> None:
    broker = await start_broker(1)
    await broker.admin.topics.create_topics([NewTopic("t"), NewTopic("marked")])
    settings = json.dumps({"version": 1, "config": {"retention.ms": "5"}}).encode()
    await asyncio.to_thread(hand.set, "/config/topics/t", settings)
    for notice in (
        {"version": 1, "entity_type": "topics", "entity_name": "t"},
        {"version": 2, "entity_path": "topics/t"},
    ):
        await asyncio.to_thread(
            hand.create, "/config/changes/config_change_", json.dumps(notice).encode(), sequence=True
        )
    await write(hand, "/config/brokers/<default>", {"version": 1, "config": {"log.retention.ms": "9"}})
    await write(hand, "/config/users/u%20v", {"version": 1, "config": {"producer_byte_rate": "1"}})
    await asyncio.to_thread(hand.create, "/admin/delete_topics/marked")
    await broker.until(lambda image: list(image.topics) == ["t"])
    await broker.until(lambda image: image.topics["t"].configs == {"retention.ms": "5"})
    await broker.until(lambda image: (("user", "u v"),) in image.client_quotas.configs)
    assert broker.config["log.retention.ms"] == 9
    await until(lambda: hand.exists("/admin/delete_topics/marked") is None)  # the mark goes after the topic
    # Other brokers may not have read the notices yet.
    assert len(await asyncio.to_thread(hand.get_children, "/config/changes")) == 2
    await shown(broker)


async def test_new_nodes_without_content_have_no_data_as_kafkas_have(
    start_broker: StartBroker, hand: KazooClient
) -> None:
    """Kafka's brokers do not start if /latest_producer_id_block has empty data.

    They take it for damage.
    """
    await start_broker(1)
    for path in ("/consumers", "/latest_producer_id_block", "/isr_change_notification"):
        data, _ = await asyncio.to_thread(hand.get, path)
        assert data is None


async def test_a_broker_finds_a_tree_that_a_migration_to_kraft_uses(
    start_broker: StartBroker, hand: KazooClient
) -> None:
    for path in ("/cluster", "/brokers", "/brokers/ids", "/brokers/topics", "/admin"):
        await write(hand, path)
    nodes = {
        "/cluster/id": {"version": "1", "id": "mJ8a4l9tQ3iXoZ3pK5rT1w"},
        "/controller": {"version": 2, "brokerid": 3000, "timestamp": "-1", "kraftControllerEpoch": 1},
        "/migration": {"version": 0, "kraft_controller_id": 3000, "kraft_controller_epoch": 1},
        "/feature": {"version": 2, "status": 1, "features": {}},
        "/brokers/ids/7": {"version": 1, "host": "old", "port": 9092, "jmx_port": -1, "timestamp": "1"},
        "/brokers/topics/t": {"version": 3, "topic_id": "AAAAAAAAAAAAAAAAAAAAAg", "partitions": {"0": [7]}},
        "/brokers/topics/t/partitions": None,
        "/brokers/topics/t/partitions/0": None,
        "/brokers/topics/t/partitions/0/state": {
            "version": 1,
            "leader": -1,
            "leader_epoch": 3,
            "controller_epoch": 2,
            "isr": [7],
        },
    }
    for path, fields in nodes.items():
        await write(hand, path, fields)
    await asyncio.to_thread(hand.create, "/controller_epoch", b"2")
    broker = await start_broker(1)
    image = await shown(broker)
    assert image.cluster_id == "mJ8a4l9tQ3iXoZ3pK5rT1w"
    assert image.controller_id == 3000
    assert not broker.admin.writer.is_controller
    assert str(image.brokers[7].endpoints["PLAINTEXT"]) == "PLAINTEXT://old:9092"
    assert image.topics["t"].partitions[0][:3] == (-1, 3, (7,))
    # A broker with another id is not touched by the old node, and the controller is not replaced.
    assert sorted(image.brokers) == [1, 7]


async def test_what_nobody_can_read_is_passed_over(store: MetadataStore, start_broker: StartBroker) -> None:
    broker = await start_broker(1)
    await store.create("/brokers/topics/t", b"{")
    await store.create("/config/topics/t", b"[1]")
    await store.create("/brokers/ids/x", b"")
    await store.create("/brokers/topics/u", b'{"version":1,"partitions":{"1":[1]}}')
    await broker.until(lambda image: "u" in image.topics and not image.unfinished)
    assert [state.exists for state in broker.image.topics["u"].partitions] == [False, True]
