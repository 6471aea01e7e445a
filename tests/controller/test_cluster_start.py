"""A broker joins its cluster, and comes back to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkapy.controller.topic_plans import NewTopic
from kafkapy.metadata import znodes
from kafkapy.metadata.cache import open_cluster
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.image import MetadataImage, read_image
from kafkapy.metadata.store import Create, MetadataStoreError
from kafkapy.metadata.tree_changes import TreeChanges


async def json_at(cluster: Any, path: str) -> Any:
    return json.loads((await cluster.store.get(path)).data)


async def test_a_new_cluster_has_an_id_that_stays(start_cluster: Any) -> None:
    cluster = await start_cluster()
    cluster_id = cluster.image.cluster_id
    assert len(cluster_id) == 22
    assert await json_at(cluster, "/cluster/id") == {"version": "1", "id": cluster_id}
    assert (await start_cluster()).image.cluster_id == cluster_id


async def test_a_new_cluster_takes_the_id_that_its_data_directories_know(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "metadata.db", sync=False)
    assert (await open_cluster(store, "abcdefghijklmnopqrstuv")).cluster_id == "abcdefghijklmnopqrstuv"
    assert (await open_cluster(store, "zzzzzzzzzzzzzzzzzzzzzz")).cluster_id == "abcdefghijklmnopqrstuv"
    await store.close()


async def test_the_broker_registers_as_kafka_does(start_cluster: Any) -> None:
    cluster = await start_cluster(broker_rack="r1")
    assert await json_at(cluster, "/brokers/ids/1") == {
        "version": 5,
        "host": "localhost",
        "port": 9092,
        "endpoints": ["PLAINTEXT://localhost:9092"],
        "jmx_port": -1,
        "timestamp": "1700000000000",
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "features": {},
        "rack": "r1",
    }
    broker = cluster.image.brokers[1]
    assert broker.rack == "r1"
    assert broker.endpoints["PLAINTEXT"][:3] == ("PLAINTEXT", "localhost", 9092)
    assert broker.epoch == (await cluster.store.get("/brokers/ids/1")).stat.created_zxid


async def test_the_only_broker_is_the_controller_and_its_epoch_grows(start_cluster: Any) -> None:
    cluster = await start_cluster()
    assert cluster.image.controller_id == 1
    assert await json_at(cluster, "/controller") == {
        "version": 2,
        "brokerid": 1,
        "timestamp": "1700000000000",
        "kraftControllerEpoch": -1,
    }
    assert (await cluster.store.get("/controller_epoch")).data == b"1"
    cluster = await start_cluster()
    assert (await cluster.store.get("/controller_epoch")).data == b"2"


async def test_a_broker_id_that_is_taken_is_one_clear_line(cluster: Any) -> None:
    from kafkapy.controller.admin import ClusterAdmin
    from kafkapy.metadata.cache import MetadataCache

    session = await EmbeddedStore.open(cluster.path / "metadata.db", sync=False)
    other = ClusterAdmin(
        session, MetadataCache(), cluster.config, TreeChanges(session), node_id=1, clock=cluster.clock
    )
    with pytest.raises(MetadataStoreError, match="broker id 1 is in use by another broker"):
        await other.start(await open_cluster(session), [])
    await session.close()


async def test_each_start_begins_a_new_leader_epoch(start_cluster: Any) -> None:
    cluster = await start_cluster()
    await cluster.admin.topics.create_topics([NewTopic("t", 2)])
    assert [state.leader_epoch for state in cluster.image.topics["t"].partitions] == [0, 0]
    cluster = await start_cluster()
    topic = cluster.image.topics["t"]
    assert [(state.leader, state.leader_epoch) for state in topic.partitions] == [(1, 1), (1, 1)]
    assert await json_at(cluster, "/brokers/topics/t/partitions/1/state") == {
        "version": 1,
        "leader": 1,
        "leader_epoch": 1,
        "controller_epoch": 2,
        "isr": [1],
    }


async def test_the_image_kept_by_changes_is_the_image_of_the_tree(start_cluster: Any) -> None:
    cluster = await start_cluster()
    topics = cluster.admin.topics
    await topics.create_topics(
        [NewTopic("a.b", 3, configs={"retention.ms": "1"}), NewTopic("gone"), NewTopic("c")]
    )
    await topics.delete_topics([cluster.image.topics["gone"].id])
    assert read_image(await cluster.store.subtree("/")) == cluster.image
    cluster = await start_cluster()
    assert read_image(await cluster.store.subtree("/")) == cluster.image


async def test_followers_hear_of_the_first_image_too(start_cluster: Any) -> None:
    cluster = await start_cluster()
    await cluster.admin.topics.create_topics([NewTopic("t")])
    cluster = await start_cluster()
    old, new = cluster.published[0]
    assert not old.topics
    assert list(new.topics) == ["t"]


async def test_a_deletion_that_was_interrupted_goes_on_at_the_next_start(start_cluster: Any) -> None:
    cluster = await start_cluster()
    await cluster.admin.topics.create_topics([NewTopic("t", 2)])
    await cluster.store.multi([Create("/admin/delete_topics/t"), Create("/admin/delete_topics/unknown")])
    cluster = await start_cluster()
    assert not cluster.image.topics
    # The first image still has the topic: otherwise followers would not know what to delete.
    assert [list(new.topics) for _, new in cluster.published] == [["t"], []]
    assert await cluster.store.children("/brokers/topics") == []
    assert await cluster.store.children("/admin/delete_topics") == []


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/cluster/id", b"{"),
        ("/brokers/topics/t", b'{"version":3}'),
        ("/brokers/topics/t", b'{"version":3,"topic_id":"x","partitions":{"0":[1]}}'),
        ("/brokers/topics/t/partitions/0/state", b"[]"),
        ("/config/topics/t", b'{"config":{"a":1}}'),
    ],
)
async def test_a_damaged_node_is_one_clear_line(start_cluster: Any, path: str, data: bytes) -> None:
    cluster = await start_cluster()
    await cluster.admin.topics.create_topics([NewTopic("t")])
    await cluster.store.set(path, data)
    with pytest.raises(znodes.DamagedNodeError, match=path):
        await open_cluster(cluster.store)


async def test_a_follower_that_fails_keeps_neither_the_others_nor_the_answer(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    heard = []

    def fail(old: MetadataImage, new: MetadataImage) -> None:
        raise OSError("disk failed")

    cluster.cache.follow(fail)
    cluster.cache.follow(lambda old, new: heard.append(list(new.topics)))
    results = await cluster.admin.topics.create_topics([NewTopic("t")])
    assert results["t"] is cluster.image.topics["t"]
    assert heard == [["t"]]
    assert "could not be acted on" in caplog.text
