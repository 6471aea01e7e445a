"""A broker finds its cluster in a tree that others use too."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import pytest

from kafkapy.configs.config import BrokerConfig
from kafkapy.metadata import znodes
from kafkapy.metadata.cache import open_cluster
from kafkapy.metadata.image import Broker, MetadataImage, PartitionState, Topic
from kafkapy.metadata.shared_tree import choose_broker_id, open_zookeeper, require_others_in_sync
from kafkapy.metadata.store import Create, MetadataStore, MetadataStoreError, Operation, OutcomeUnknownError
from kafkapy.metadata.zookeeper_access import ZooKeeperAccess, ZooKeeperLogin
from tests.metadata.intercepted_store import InterceptedStore, Multi
from tests.metadata.test_metadata_store import OpenSession, connect_store, open_session, store

__all__ = ["connect_store", "open_session", "store"]

ID = "mJ8a4l9tQ3iXoZ3pK5rT1w"


async def test_another_broker_may_have_made_some_paths(store: MetadataStore) -> None:
    for path in ("/consumers", "/brokers", "/brokers/ids", "/admin", "/feature"):
        await store.create(path)
    image = await open_cluster(store, shared=True)
    assert image.cluster_id
    assert {*znodes.PERSISTENT_PATHS, "/controller_epoch"} <= (await store.subtree("/")).keys()
    assert (await store.get("/controller_epoch")).data == b"0"


async def test_another_broker_may_make_the_paths_at_the_same_time(
    store: InterceptedStore, open_session: OpenSession
) -> None:
    other = await open_session()
    overtaken = [
        Create("/consumers"),
        Create("/cluster"),
        Create("/cluster/id", znodes.encode_cluster_id(ID)),
    ]

    async def multi_after(multi: Multi, operations: Sequence[Operation]) -> Any:
        while overtaken:
            await other.multi([overtaken.pop(0)])
        return await multi(operations)

    store.intercept("multi", multi_after)
    assert (await open_cluster(store, shared=True)).cluster_id == ID
    assert (await open_cluster(other, ID, shared=True)).cluster_id == ID


async def test_brokers_of_a_cluster_share_one_secret(store: MetadataStore, open_session: OpenSession) -> None:
    secret = (await open_cluster(store, shared=True)).salt_secret
    assert secret
    assert (await open_cluster(await open_session(), shared=True)).salt_secret == secret


async def test_a_tree_of_apache_kafka_gets_a_secret(store: MetadataStore) -> None:
    before = (await open_cluster(store, shared=True)).salt_secret
    await store.delete(znodes.SALT_SECRET)
    assert (await open_cluster(store, shared=True)).salt_secret not in (b"", before)


@pytest.mark.parametrize("is_made", [False, True])
async def test_a_connection_that_is_lost_while_the_paths_are_made_does_not_end_the_start(
    store: InterceptedStore, is_made: bool
) -> None:
    lost = [True]

    async def lose_the_answer(multi: Multi, operations: Sequence[Operation]) -> Any:
        if not lost:
            return await multi(operations)
        lost.clear()
        if is_made:
            await multi(operations)
        raise OutcomeUnknownError("the connection was lost")

    store.intercept("multi", lose_the_answer)
    assert (await open_cluster(store, shared=True)).cluster_id
    assert {*znodes.PERSISTENT_PATHS, "/controller_epoch"} <= (await store.subtree("/")).keys()


async def test_data_of_another_cluster_is_refused_before_anything_is_written(store: MetadataStore) -> None:
    with pytest.raises(MetadataStoreError, match=f"belong to cluster {ID}, and there is no cluster in Zoo"):
        await open_cluster(store, ID, shared=True)
    assert await store.subtree("/") == {}
    await store.multi([Create("/cluster"), Create("/cluster/id", b'{"version":"1","id":"another"}')])
    with pytest.raises(MetadataStoreError, match=f"cluster {ID}, and zookeeper.connect names cluster ano"):
        await open_cluster(store, ID, shared=True)
    assert list(await store.subtree("/")) == ["/cluster", "/cluster/id"]


async def test_nodes_that_nobody_can_read_do_not_keep_a_broker_out(
    store: MetadataStore, caplog: pytest.LogCaptureFixture
) -> None:
    await open_cluster(store, shared=True)
    topic = znodes.encode_topic(bytes(15) + b"1", [znodes.ReplicaAssignment((1,))])
    nodes = {
        "/brokers/topics/good": topic,
        "/brokers/topics/bad": b"{",
        "/brokers/topics/a$": topic,
        "/brokers/topics/leaderless": topic.replace(b"AAAAMQ", b"AAAAMg"),
        "/brokers/topics/leaderless/partitions": b"",
        "/brokers/topics/leaderless/partitions/0": b"",
        "/brokers/topics/leaderless/partitions/0/state": b"[]",
        "/brokers/ids/one": b"{}",
        "/controller": b"me",
        "/config/brokers/1": b"[]",
        "/config/users/u": b"x",
    }
    await store.multi([Create(path, data) for path, data in nodes.items()])
    image = await open_cluster(store, shared=True)
    assert sorted(image.topics) == ["good", "leaderless"]
    assert image.topics["leaderless"].partitions[0].leader == -1
    assert (image.brokers, image.controller_id, image.broker_configs) == ({}, -1, {})
    for path in ("/brokers/topics/bad", "leaderless/partitions/0/state", "/brokers/ids/one", "/controller"):
        assert f"{path} cannot be understood" in caplog.text
    assert "Topic name is invalid" in caplog.text


async def test_the_id_of_a_broker_is_set_stored_or_new(store: InterceptedStore) -> None:
    await open_cluster(store, shared=True)
    settings = BrokerConfig({}, clustered=True)
    assert await choose_broker_id(store, settings, 7, 8) == 7
    assert await choose_broker_id(store, settings, -1, 8) == 8
    assert await choose_broker_id(store, settings, -1, None) == 1001
    left = 1

    async def lose_the_answer(multi: Multi, operations: Sequence[Operation]) -> Any:
        nonlocal left
        versions = await multi(operations)
        if left:
            left -= 1
            raise OutcomeUnknownError("the connection was lost")
        return versions

    store.intercept("multi", lose_the_answer)
    assert await choose_broker_id(store, settings, -1, None) == 1003
    settings = BrokerConfig({"broker.id.generation.enable": "false"}, clustered=True)
    with pytest.raises(MetadataStoreError, match=r"^The broker has no id, .* Set broker.id\.$"):
        await choose_broker_id(store, settings, -1, None)


def cluster_of(*isrs: tuple[int, ...], live: Sequence[int] = ()) -> MetadataImage:
    """An image with a topic `t` whose partitions have these in-sync replicas."""
    partitions = tuple(PartitionState(isr[0], 0, isr, (1, 2, 3)) for isr in isrs)
    topic = Topic("t", bytes(15) + b"1", partitions)
    return (
        MetadataImage(cluster_id=ID)
        .with_topics([topic])
        .with_brokers([Broker(n, None, {}) for n in live], -1)
    )


@pytest.mark.parametrize(
    ("image", "lost"),
    [
        (cluster_of((1, 2), (2,)), r"t-0, t-1, and no .* is lost, start broker 1 first, let another"),
        (cluster_of((2,), (2, 1, 3), live=[1]), "t-0, and no .* is lost, let another replica lead"),
        (cluster_of((2, 1, 3), live=[2]), "t-0, and no .* start broker 1 or 3 first,"),
        (cluster_of((2,), (2,), (2,), (2,)), "t-0, t-1, t-2, …, and no running broker is"),
        (cluster_of((1, 2), (3,), live=[1]), None),
        (cluster_of((1,)), None),
    ],
)
async def test_the_only_broker_in_sync_does_not_start_without_its_disk(
    store: MetadataStore, image: MetadataImage, lost: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    await open_cluster(store, shared=True)
    if lost is None:
        await require_others_in_sync(store, image, 2, "/data")
        assert "/data: nothing is there, and this broker has" in caplog.text
        return
    with pytest.raises(
        MetadataStoreError, match=f"/data: nothing is there, but broker 2 was in sync for {lost}"
    ):
        await require_others_in_sync(store, image, 2, "/data")
    await store.create("/admin/delete_topics/t")
    await require_others_in_sync(store, image, 2, "/data")


async def test_a_missing_client_of_zookeeper_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kafkapy.metadata.zookeeper", raising=False)
    monkeypatch.setitem(sys.modules, "kazoo", None)
    with pytest.raises(MetadataStoreError, match=r"kazoo is not installed: pip .*zookeeper.connect=$"):
        await open_zookeeper(BrokerConfig({"zookeeper.connect": "localhost:2181"}))


async def test_a_missing_library_for_logins_at_zookeeper_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "puresasl", None)
    monkeypatch.delitem(sys.modules, "puresasl.client", raising=False)
    access = ZooKeeperAccess(login=ZooKeeperLogin("kafka", "secret"))
    with pytest.raises(MetadataStoreError, match="pure-sasl is not installed: pip install"):
        await open_zookeeper(BrokerConfig({"zookeeper.connect": "localhost:2181"}), access)
