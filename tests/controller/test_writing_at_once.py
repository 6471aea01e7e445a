"""Two who write the tree at once: each change is made or refused as if one had come first."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from kafkapy.configs.changes import Change, Operator
from kafkapy.configs.kind import ResourceType
from kafkapy.controller.client_quotas import Alteration, QuotaChange
from kafkapy.controller.topic_plans import MorePartitions, NewTopic
from kafkapy.metadata import znodes
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.store import (
    Create,
    MetadataStoreError,
    Operation,
)
from kafkapy.metadata.writer import ATTEMPTS
from kafkapy.metadata.znodes import LeaderAndIsr, ReplicaAssignment
from kafkapy.protocol.errors import ErrorCode, KafkaError
from tests.controller.by_hand import alter, create, emptied, remove, shown, topic_nodes
from tests.metadata.intercepted_store import Multi


def overtake(cluster: Any, write: Callable[[], Awaitable[object]], times: int = 1) -> None:
    """Run `write` between the broker's next check and its commit."""
    left = times

    async def overtaken(multi: Multi, operations: Sequence[Operation]) -> Any:
        nonlocal left
        if left:
            left -= 1
            await write()
        return await multi(operations)

    cluster.store.intercept("multi", overtaken)


async def test_of_two_who_create_a_topic_at_once_the_first_has_made_it(cluster: Any, hand: Any) -> None:
    overtake(cluster, lambda: hand.multi(topic_nodes("t", 3)))
    results = await create(cluster, NewTopic("t"), NewTopic("u"))
    assert results["t"].code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert results["u"] is cluster.image.topics["u"]
    assert len(cluster.image.topics["t"].partitions) == 3
    await shown(cluster)


async def test_of_two_who_change_settings_at_once_both_are_heard(cluster: Any, hand: Any) -> None:
    await create(cluster, NewTopic("t"))
    data = znodes.encode_config({"cleanup.policy": "compact"})
    overtake(cluster, lambda: hand.set("/config/topics/t", data))
    await alter(cluster, ResourceType.TOPIC, "t", "cleanup.policy", Operator.APPEND, "delete")
    assert cluster.image.topics["t"].configs == {"cleanup.policy": "compact,delete"}
    await shown(cluster)
    data = znodes.encode_config({"log.retention.ms": "5"})
    overtake(cluster, lambda: hand.create("/config/brokers/1", data))
    await alter(cluster, ResourceType.BROKER, "1", "log.segment.bytes", Operator.SET, "2000000")
    assert cluster.image.broker_configs["1"] == {"log.retention.ms": "5", "log.segment.bytes": "2000000"}
    await shown(cluster)


async def test_of_two_who_change_quotas_at_once_both_are_heard(cluster: Any, hand: Any) -> None:
    data = znodes.encode_config({"consumer_byte_rate": "5"})
    overtake(
        cluster,
        lambda: hand.multi([Create("/config/users/u", data), Create("/config/users/u/clients")]),
    )
    entity = [("user", "u"), ("client-id", "c")]
    changes = [
        Alteration(entity[:1], [QuotaChange("producer_byte_rate", 9.0)]),
        Alteration(entity, [QuotaChange("producer_byte_rate", 1.0)]),
    ]
    assert await cluster.admin.quotas.alter(changes) == [None, None]
    user = cluster.image.client_quotas.configs[(("user", "u"),)]
    assert user == {"consumer_byte_rate": "5", "producer_byte_rate": "9"}
    await shown(cluster)


async def test_of_two_who_add_partitions_at_once_the_second_is_checked_again(cluster: Any, hand: Any) -> None:
    topic = (await create(cluster, NewTopic("t")))["t"]
    data = znodes.encode_topic(topic.id, [ReplicaAssignment((1,))] * 3)
    overtake(cluster, lambda: hand.set("/brokers/topics/t", data))
    error = (await cluster.admin.topics.create_partitions([MorePartitions("t", 2)]))["t"]
    assert error.code is ErrorCode.INVALID_PARTITIONS
    await cluster.until(lambda image: not image.unfinished)
    assert len(cluster.image.topics["t"].partitions) == 3
    await shown(cluster)


async def test_of_two_who_delete_a_topic_at_once_both_have(cluster: Any, hand: Any) -> None:
    topics = await create(cluster, NewTopic("t", 2), NewTopic("u", 2), NewTopic("v", 2))
    ids = {name: topic.id for name, topic in topics.items()}
    overtake(cluster, lambda: hand.create("/admin/delete_topics/t"))
    assert await cluster.admin.topics.delete_topics([ids["t"]]) == {ids["t"]: None}
    overtake(cluster, lambda: remove(hand, "/brokers/topics/u"))
    results = await cluster.admin.topics.delete_topics([ids["u"]])
    assert results[ids["u"]].code is ErrorCode.UNKNOWN_TOPIC_ID
    state = znodes.encode_state(LeaderAndIsr(1, 7, (1,), 1))
    overtake(cluster, lambda: hand.set("/brokers/topics/v/partitions/0/state", state), 2)
    assert await cluster.admin.topics.delete_topics([ids["v"]]) == {ids["v"]: None}
    assert await hand.children("/brokers/topics") == []
    assert await hand.children("/admin/delete_topics") == []
    assert not cluster.image.topics


async def test_topics_that_are_deleted_together_have_results_of_their_own(cluster: Any, hand: Any) -> None:
    topics = await create(cluster, *(NewTopic(name) for name in ("marked", "removed", "t")))
    ids = {name: topic.id for name, topic in topics.items()}

    async def others() -> None:
        await hand.create("/admin/delete_topics/marked")
        await remove(hand, "/brokers/topics/removed")

    overtake(cluster, others)
    results = await cluster.admin.topics.delete_topics([ids["marked"], ids["removed"], ids["t"]])
    assert (results[ids["marked"]], results[ids["t"]]) == (None, None)
    assert results[ids["removed"]].code is ErrorCode.UNKNOWN_TOPIC_ID
    assert await hand.children("/brokers/topics") == []
    assert await hand.children("/admin/delete_topics") == []
    assert not cluster.image.topics


async def test_who_is_always_overtaken_has_the_client_try_again(cluster: Any, hand: Any) -> None:
    await create(cluster, NewTopic("t"))
    data = znodes.encode_config({})
    overtake(cluster, lambda: hand.set("/config/topics/t", data), ATTEMPTS)
    with pytest.raises(KafkaError) as caught:
        await alter(cluster, ResourceType.TOPIC, "t", "retention.ms", Operator.SET, "5")
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
    await alter(cluster, ResourceType.TOPIC, "t", "retention.ms", Operator.SET, "5")
    await shown(cluster)


@pytest.mark.parametrize("seed", range(5))
async def test_whoever_writes_what_every_broker_ends_with_the_image_of_the_tree(
    start_broker: Any, hand: EmbeddedStore, seed: int
) -> None:
    chance = random.Random(seed)
    brokers = [await start_broker(1), await start_broker(2)]
    names = ["a", "b.c", "d"]
    refusals = []

    async def by_hand() -> None:
        for _ in range(30):
            name = chance.choice(names)
            path = f"/brokers/topics/{name}"
            try:
                match chance.randrange(5):
                    case 0:
                        await hand.multi(topic_nodes(name, chance.randint(1, 3)))
                    case 1:
                        await remove(hand, path)
                    case 2:
                        await hand.create(path, b'{"version":1,"partitions":{"0":[1],"1":[2]}}')
                    case 3:
                        data = znodes.encode_config({"retention.ms": str(chance.randrange(9))})
                        await hand.set(f"/config/topics/{name}", data)
                    case 4:
                        await hand.create(f"/admin/delete_topics/{name}")
            except MetadataStoreError:
                continue  # it does not exist, or exists already

    async def by_request() -> None:
        admin = brokers[0].admin
        for _ in range(30):
            name = chance.choice(names)
            topic = brokers[0].image.topics.get(name)
            try:
                match chance.randrange(4):
                    case 0:
                        await admin.topics.create_topics([NewTopic(name, 2)])
                    case 1:
                        await admin.topics.create_partitions([MorePartitions(name, 4)])
                    case 2 if topic is not None:
                        await admin.topics.delete_topics([topic.id])
                    case _:
                        change = Change("segment.ms", Operator.SET, str(chance.randrange(1, 9)))
                        await admin.configs.alter(ResourceType.TOPIC, name, [change])
            except KafkaError as error:
                refusals.append(error.code)

    await asyncio.gather(by_hand(), by_request())
    await hand.multi(topic_nodes("last"))
    assert ErrorCode.KAFKA_STORAGE_ERROR not in refusals
    async with asyncio.timeout(60):
        await emptied(hand, "/admin/delete_topics")
    for broker in brokers:
        await shown(broker)
