"""Changes of the tree by other sessions are published, and never lost."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from kafkapy import Broker
from kafkapy.configs.changes import Operator
from kafkapy.configs.kind import ResourceType
from kafkapy.controller.client_quotas import Alteration, QuotaChange
from kafkapy.controller.topic_plans import MorePartitions, NewTopic
from kafkapy.metadata import znodes
from kafkapy.metadata.cache import open_cluster
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.image import MetadataImage, Topic
from kafkapy.metadata.store import (
    Create,
    Delete,
    EventType,
    MetadataStore,
    MetadataStoreError,
    SetData,
    WatchEvent,
)
from kafkapy.metadata.tree_changes import PARTITIONS_AT_ONCE
from kafkapy.metadata.znodes import BrokerInfo, LeaderAndIsr, ReplicaAssignment
from kafkapy.protocol.errors import ErrorCode, KafkaError
from tests.controller.by_hand import alter, create, emptied, remove, shown, topic_nodes
from tests.controller.cluster_world import Cluster

NOTICE = "/config/changes/config_change_"


# --- what others change is published --------------------------------------------------------------


async def test_a_topic_whose_nodes_somebody_writes_is_published(cluster: Any, hand: Any) -> None:
    prepared: list[str] = []

    async def prepare(old: MetadataImage, new: MetadataImage) -> None:
        prepared.extend(new.topics.keys() - old.topics.keys())

    cluster.cache.prepare_with(prepare)
    await hand.multi(topic_nodes("t", 2, **{"retention.ms": "5"}))
    await cluster.until(lambda image: "t" in image.topics)
    topic = cluster.image.topics["t"]
    assert [state[:3] for state in topic.partitions] == [(1, 0, (1,))] * 2
    assert topic.configs == {"retention.ms": "5"}
    assert prepared == ["t"]
    await shown(cluster)


@pytest.mark.parametrize("version", [1, 3])
async def test_a_topic_of_its_node_alone_is_finished_by_the_controller(
    cluster: Any, hand: Any, version: int
) -> None:
    node: dict[str, Any] = {"version": version, "partitions": {"0": [1], "1": [1]}}
    if version == 3:
        node |= {"topic_id": "AAAAAAAAAAAAAAAAAAAAAg", "adding_replicas": {}, "removing_replicas": {}}
    await hand.create("/brokers/topics/t", json.dumps(node).encode())
    await cluster.until(lambda image: "t" in image.topics and not image.unfinished)
    assert [state[:3] for state in cluster.image.topics["t"].partitions] == [(1, 0, (1,))] * 2
    assert any(cluster.image.topics["t"].id)
    state = json.loads((await hand.get("/brokers/topics/t/partitions/1/state")).data)
    assert state == {"version": 1, "leader": 1, "leader_epoch": 0, "controller_epoch": 1, "isr": [1]}
    await shown(cluster)
    await alter(cluster, ResourceType.TOPIC, "t", "retention.ms", Operator.SET, "5")
    await cluster.admin.topics.delete_topics([cluster.image.topics["t"].id])
    assert await hand.children("/brokers/topics") == []


async def test_others_are_served_while_a_large_topic_is_read(cluster: Any, hand: Any) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await hand.multi(topic_nodes("t", 5000))
    decode = znodes.decode_state
    most = since = before = 0

    def counted(path: str, data: bytes) -> LeaderAndIsr:
        nonlocal most, since, before
        since, before = (since + 1 if turns == before else 1), turns
        most = max(most, since)
        return decode(path, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(znodes, "decode_state", counted)
        await cluster.until(lambda image: "t" in image.topics)
    counting.cancel()
    assert len(cluster.image.topics["t"].partitions) == 5000
    assert 0 < most <= PARTITIONS_AT_ONCE


async def test_a_topic_of_its_node_alone_is_finished_at_the_start(start_cluster: Any, hand: Any) -> None:
    cluster = await start_cluster()
    await cluster.stop()
    await hand.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1]}}')
    cluster = await start_cluster()
    assert cluster.image.topics["t"].partitions[0].leader == 1
    await shown(cluster)


async def test_partitions_that_somebody_adds_get_leaders(cluster: Any, hand: Any) -> None:
    topic = (await create(cluster, NewTopic("t")))["t"]
    data = znodes.encode_topic(topic.id, [ReplicaAssignment((1,))] * 3)
    await hand.set("/brokers/topics/t", data, 0)
    await cluster.until(lambda image: [s.leader for s in image.topics["t"].partitions] == [1, 1, 1])
    await shown(cluster)


async def test_a_topic_whose_nodes_somebody_removes_is_gone(cluster: Any, hand: Any) -> None:
    settled = []

    async def settle() -> None:
        settled.append(list(cluster.image.topics))

    cluster.cache.settle_with(settle)
    await create(cluster, NewTopic("t", 2), NewTopic("u"))
    await remove(hand, "/brokers/topics/t")
    await cluster.until(lambda image: "t" not in image.topics)
    # The node of its settings is left, and does no harm.
    assert isinstance((await create(cluster, NewTopic("t", configs={"retention.ms": "1"})))["t"], Topic)
    assert settled[:1] == [["u"]]
    await shown(cluster)


async def test_a_topic_that_somebody_makes_anew_has_its_new_id(cluster: Any, hand: Any) -> None:
    old = (await create(cluster, NewTopic("t", 2)))["t"]
    await remove(hand, "/brokers/topics/t")
    await hand.multi([each for each in topic_nodes("t") if each.path != "/config/topics/t"])
    await cluster.until(lambda image: "t" in image.topics and image.topics["t"].id != old.id)
    assert old.id not in cluster.image.topics_by_id
    await shown(cluster)


async def test_a_topic_that_somebody_marks_is_deleted(cluster: Any, hand: Any) -> None:
    await create(cluster, NewTopic("t", 2))
    await hand.create("/admin/delete_topics/t")
    await cluster.until(lambda image: "t" not in image.topics)
    await create(cluster, NewTopic("u"))  # waits for the end of the deletion
    assert await hand.children("/admin/delete_topics") == []
    assert await hand.children("/brokers/topics") == ["u"]


async def test_a_state_that_somebody_writes_is_published(cluster: Any, hand: Any) -> None:
    await create(cluster, NewTopic("t", 2))
    state = znodes.encode_state(LeaderAndIsr(1, 7, (1,), 1))
    await hand.set("/brokers/topics/t/partitions/1/state", state)
    await cluster.until(lambda image: image.topics["t"].partitions[1].leader_epoch == 7)
    await shown(cluster)


async def test_settings_that_somebody_writes_are_in_effect(cluster: Any, hand: Any) -> None:
    await create(cluster, NewTopic("t"))

    def notice(entity: str) -> Create:
        return Create(NOTICE, znodes.encode_config_change(entity), sequence=True)

    retention = znodes.encode_config({"retention.ms": "5"})
    await hand.multi([SetData("/config/topics/t", retention), notice("topics/t")])
    await cluster.until(lambda image: image.topics["t"].configs == {"retention.ms": "5"})
    everyone = znodes.encode_config({"min.insync.replicas": "1", "log.retention.ms": "77"})
    await hand.multi([SetData("/config/brokers/<default>", everyone), notice("brokers/<default>")])
    await cluster.until(lambda image: "log.retention.ms" in image.broker_configs[""])
    assert cluster.config["log.retention.ms"] == 77
    quota = znodes.encode_config({"producer_byte_rate": "9"})
    await hand.multi(
        [
            Create("/config/groups/g%2F1", znodes.encode_config({"consumer.session.timeout.ms": "50000"})),
            Create("/config/users/u"),
            Create("/config/users/u/clients"),
            Create("/config/users/u/clients/<default>", quota),
            notice("users/u/clients/<default>"),
        ]
    )
    image = await shown(cluster)
    assert image.group_configs == {"g/1": {"consumer.session.timeout.ms": "50000"}}
    assert image.client_quotas.configs[("client-id", None), ("user", "u")] == {"producer_byte_rate": "9"}
    await remove(hand, "/config/users/u")
    await hand.delete("/config/groups/g%2F1")
    image = await shown(cluster)
    assert not image.group_configs
    assert not image.client_quotas.configs


@pytest.mark.parametrize("is_told", [True, False])
async def test_a_new_secret_of_the_cluster_counts_for_brokers_that_run(
    cluster: Any, hand: Any, is_told: bool
) -> None:
    """Somebody has removed the node, and the next broker to start has made it anew."""
    before = cluster.image.salt_secret
    cluster.store.is_blind = not is_told
    await hand.multi([Delete(znodes.SALT_SECRET), *topic_nodes("removed")])
    if is_told:
        await cluster.until(lambda image: "removed" in image.topics)
        assert cluster.image.salt_secret == before
    made = (await open_cluster(hand, shared=True)).salt_secret
    if not is_told:
        cluster.store.tell(WatchEvent(EventType.UNKNOWN, "/"))
    await cluster.until(lambda image: image.salt_secret == made)
    assert made not in (b"", before)


async def test_everything_is_read_again_when_anything_may_have_changed(cluster: Any, hand: Any) -> None:
    await create(cluster, NewTopic("gone"), NewTopic("grown"), NewTopic("same"), NewTopic("damaged"))
    before = cluster.image
    cluster.store.is_blind = True
    await remove(hand, "/brokers/topics/gone")
    data = znodes.encode_topic(before.topics["grown"].id, [ReplicaAssignment((1,))] * 2)
    await hand.set("/brokers/topics/grown", data)
    await hand.set("/brokers/topics/damaged", b"{")
    await hand.multi(topic_nodes("new", 1, **{"retention.ms": "5"}))
    await hand.multi([*topic_nodes("marked"), Create("/admin/delete_topics/marked")])
    await hand.set("/config/topics/same", znodes.encode_config({"retention.ms": "7"}))
    await hand.create("/config/brokers/1", znodes.encode_config({"log.retention.ms": "9"}))
    await hand.create("/brokers/ids/2", znodes.encode_broker(BrokerInfo((), "r"), 0), ephemeral=True)
    await cluster.store.get("/cluster/id")  # what was changed would have been told
    cluster.store.is_blind = False
    cluster.store.tell(WatchEvent(EventType.UNKNOWN, "/brokers/topics"))
    await cluster.until(lambda image: "new" in image.topics and not image.unfinished)
    image = cluster.image
    assert set(image.topics) == {"grown", "same", "damaged", "new"}
    assert [state.leader for state in image.topics["grown"].partitions] == [1, 1]
    assert image.topics["same"].configs == {"retention.ms": "7"}
    assert image.topics["damaged"] is before.topics["damaged"]
    assert image.brokers[2].rack == "r"
    assert image.topics["grown"].id in image.topics_by_id
    assert cluster.config["log.retention.ms"] == 9
    await emptied(hand, "/admin/delete_topics")


def reads_all_or_nothing(cluster: Any) -> None:
    """Let no watch tell what has changed, so that the whole tree is read, again and again."""
    cluster.admin.retry_seconds = 0
    cluster.store.is_blind = True


async def test_after_a_loss_the_tree_is_read_until_that_succeeds(cluster: Any, hand: Any) -> None:
    failures = 2

    async def fail(subtree: Any, *paths: str) -> Any:
        nonlocal failures
        if failures:
            failures -= 1
            raise MetadataStoreError("no connection")
        return await subtree(*paths)

    reads_all_or_nothing(cluster)
    await hand.multi(topic_nodes("t"))
    cluster.store.intercept("subtree", fail)
    cluster.store.tell(WatchEvent(EventType.UNKNOWN, "/"))
    await cluster.until(lambda image: "t" in image.topics)
    assert failures == 0


@pytest.mark.parametrize("found", ["no cluster", "cluster another"])
async def test_the_tree_of_another_cluster_is_not_taken_for_this_ones(
    cluster: Any,
    hand: Any,
    found: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await create(cluster, NewTopic("t"))
    reads_all_or_nothing(cluster)
    own = (await hand.get("/cluster/id")).data
    await remove(hand, "/brokers/topics/t")
    if found == "no cluster":
        await hand.multi([Delete("/cluster/id", 0)])
    else:
        await hand.set("/cluster/id", znodes.encode_cluster_id("another"))
    read, third = list[tuple[str, ...]](), asyncio.Event()

    async def counted(subtree: Any, *paths: str) -> Any:
        read.append(paths)
        if read.count(paths) == 3:
            third.set()
        return await subtree(*paths)

    cluster.store.intercept("subtree", counted)
    cluster.store.tell(WatchEvent(EventType.UNKNOWN, "/"))
    await asyncio.wait_for(third.wait(), 30)
    assert list(cluster.image.topics) == ["t"]
    assert caplog.text.count(f"ZooKeeper has {found} at zookeeper.connect, where cluster") == 1
    if found == "no cluster":
        await hand.create("/cluster/id", own)
    else:
        await hand.set("/cluster/id", own)
    await cluster.until(lambda image: not image.topics)


async def test_a_topic_may_lack_a_partition_between_others(cluster: Any, hand: Any) -> None:
    node = {"version": 1, "partitions": {"0": [1], "3": [1], "1": [1]}}
    await hand.create("/brokers/topics/t", json.dumps(node).encode())
    await cluster.until(lambda image: "t" in image.topics and not image.unfinished)
    partitions = cluster.image.topics["t"].partitions
    assert [state.exists for state in partitions] == [True, True, False, True]
    assert cluster.image.partition("t", 3) is partitions[3]
    assert cluster.image.partition("t", 2) is None
    assert await hand.children("/brokers/topics/t/partitions") == ["0", "1", "3"]
    assert json.loads((await hand.get("/brokers/topics/t")).data)["partitions"] == node["partitions"]
    await shown(cluster)
    await cluster.admin.topics.create_partitions([MorePartitions("t", 6)])
    assert await hand.children("/brokers/topics/t/partitions") == ["0", "1", "3", "4", "5"]
    await shown(cluster)
    await cluster.admin.topics.delete_topics([cluster.image.topics["t"].id])
    assert await hand.children("/brokers/topics") == []


async def test_what_changes_between_the_first_read_and_the_start_is_not_missed(
    cluster: Any, hand: Any, tmp_path: Path
) -> None:
    class Interrupted(Cluster):
        async def read_image(self) -> MetadataImage:
            image = await super().read_image()
            await hand.multi(topic_nodes("t"))
            return image

    other = await Interrupted(tmp_path, {}, 2).start()
    await other.until(lambda image: "t" in image.topics)
    await other.stop()


async def test_what_nobody_can_read_is_left_alone_and_said(
    cluster: Any, hand: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await create(cluster, NewTopic("t"))
    await hand.set("/brokers/topics/t", b"{")
    await hand.create("/brokers/topics/a$", b"{}")
    await hand.multi(topic_nodes("u"))
    await cluster.until(lambda image: "u" in image.topics)
    assert list(cluster.image.topics) == ["t", "u"]
    assert "/brokers/topics/t cannot be understood" in caplog.text
    assert "Topic name is invalid" in caplog.text


async def test_a_store_that_fails_is_asked_again(cluster: Any, hand: Any) -> None:
    failures = 3

    async def fail(nodes: Any, paths: Sequence[str]) -> Any:
        nonlocal failures
        if failures:
            failures -= 1
            raise MetadataStoreError("no connection")
        return await nodes(paths)

    cluster.admin.retry_seconds = 0
    cluster.store.intercept("nodes", fail)
    await hand.multi(topic_nodes("t"))
    await cluster.until(lambda image: "t" in image.topics)
    assert failures == 0


async def test_a_change_of_its_own_that_a_broker_is_told_of_makes_no_other_image(cluster: Any) -> None:
    await create(cluster, NewTopic("t", 2))
    await alter(cluster, ResourceType.TOPIC, "t", "retention.ms", Operator.SET, "5")
    await alter(cluster, ResourceType.BROKER, "", "log.retention.ms", Operator.SET, "5")
    published = len(cluster.published)
    cluster.changes.add(await cluster.store.subtree("/"))
    await create(cluster, NewTopic("u"))  # waits until the changes are read
    assert len(cluster.published) == published + 1


# --- several brokers ------------------------------------------------------------------------------


async def test_brokers_see_each_other_come_and_go(start_broker: Any) -> None:
    one, two = await start_broker(1), await start_broker(2)
    await one.until(lambda image: set(image.brokers) == {1, 2})
    assert set(two.image.brokers) == {1, 2}
    assert (one.image.controller_id, two.image.controller_id) == (1, 1)
    await two.stop()
    await one.until(lambda image: set(image.brokers) == {1})


async def test_what_the_controller_does_is_in_the_image_of_every_broker(start_broker: Any) -> None:
    one, two = await start_broker(1), await start_broker(2)
    await create(one, NewTopic("t", 3), *(NewTopic(f"t{i}") for i in range(150)))
    await alter(one, ResourceType.TOPIC, "t", "retention.ms", Operator.SET, "5")
    await one.admin.topics.create_partitions([MorePartitions("t", 5)])
    await one.admin.topics.delete_topics([one.image.topics["t7"].id])
    with pytest.raises(KafkaError) as caught:
        await create(two, NewTopic("u"))
    assert caught.value.code is ErrorCode.NOT_CONTROLLER
    assert await shown(two) == await shown(one)


async def test_every_broker_changes_settings_and_quotas(start_broker: Any) -> None:
    one, two = await start_broker(1), await start_broker(2)
    await create(one, NewTopic("t"))
    await two.until(lambda image: "t" in image.topics)
    await alter(two, ResourceType.TOPIC, "t", "retention.ms", Operator.SET, "5")
    await alter(two, ResourceType.BROKER, "", "log.retention.ms", Operator.SET, "6")
    await alter(two, ResourceType.BROKER, "2", "log.retention.ms", Operator.SET, "7")
    with pytest.raises(KafkaError) as refused:
        await alter(two, ResourceType.BROKER, "1", "log.retention.ms", Operator.SET, "8")
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    alteration = Alteration([("user", "u")], [QuotaChange("producer_byte_rate", 5.0)])
    assert await two.admin.quotas.alter([alteration]) == [None]
    assert await shown(one) == await shown(two)
    assert two.image.topics["t"].configs == {"retention.ms": "5"}
    assert one.image.broker_configs["2"] == {"log.retention.ms": "7"}
    # The controller changes the same settings again.
    await alter(one, ResourceType.TOPIC, "t", "retention.ms", Operator.SET, "9")
    assert await shown(two) == await shown(one)


async def test_when_the_controller_goes_another_broker_is_it(start_broker: Any) -> None:
    one, two = await start_broker(1), await start_broker(2)
    await create(one, NewTopic("t"))
    await one.store.create("/admin/delete_topics/t")  # and then it stops
    await one.stop()
    await two.until(lambda image: image.controller_id == 2 and "t" not in image.topics)
    assert (await two.store.get("/controller_epoch")).data == b"2"
    assert isinstance((await create(two, NewTopic("u")))["u"], Topic)
    await shown(two)


async def test_a_controller_that_somebody_removes_is_elected_anew(cluster: Any, hand: Any) -> None:
    await hand.delete("/controller")
    await cluster.until(
        lambda image: (
            image.controller_id == 1 and any(new.controller_id == -1 for _, new in cluster.published)
        )
    )
    assert (await hand.get("/controller_epoch")).data == b"2"
    topic = (await create(cluster, NewTopic("t")))["t"]
    assert topic.partitions[0].controller_epoch == 2


async def test_a_controller_of_an_earlier_epoch_changes_nothing(cluster: Any, hand: Any) -> None:
    await hand.set("/controller_epoch", b"7")
    elected = asyncio.Event()
    await hand.get("/controller_epoch", lambda event: elected.set())
    results = await create(cluster, NewTopic("t"))
    assert results["t"].code is ErrorCode.NOT_CONTROLLER
    assert await hand.children("/brokers/topics") == []
    # It gives up /controller and is elected like any broker.
    async with asyncio.timeout(60):
        await elected.wait()
    assert (await hand.get("/controller_epoch")).data == b"8"
    assert isinstance((await create(cluster, NewTopic("t")))["t"], Topic)


# --- with a client --------------------------------------------------------------------------------


@pytest.mark.parametrize("directory_first", [False, True])
def test_a_topic_made_by_hand_takes_records_and_its_logs_go_with_its_nodes(
    tmp_path: Path, directory_first: bool
) -> None:
    async def by_hand(change: Callable[[MetadataStore], Awaitable[object]]) -> None:
        store = await EmbeddedStore.open(tmp_path / "metadata.db", sync=False)
        await change(store)
        await store.close()

    with Broker(data_dir=tmp_path, config={"auto.create.topics.enable": False}) as broker:
        asyncio.run(
            by_hand(lambda store: store.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1]}}'))
        )
        refused: list[KafkaException | None] = []
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("t", b"x", on_delivery=lambda error, _: refused.append(error))
        assert producer.flush(60) == 0
        assert refused == [None]
        assert (tmp_path / "t-0" / "00000000000000000000.log").stat().st_size
        if directory_first:
            shutil.rmtree(tmp_path / "t-0")
        asyncio.run(by_hand(lambda store: remove(store, "/brokers/topics/t")))
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for _ in range(10_000):
            if not admin.list_topics(timeout=60).topics:
                break
        assert not (tmp_path / "t-0").exists()
        assert not broker.core.logs.offline_dirs
