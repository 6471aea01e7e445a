"""aiokafka: consumer groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.structs import OffsetAndMetadata
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition

from interop.aiokafka.client import as_received, poll, produce
from interop.conftest import MakeTopic
from interop.support.records import Received, check_partitions, text_records


class Member:
    """A group's consumer that remembers what it got, polled by a task of its own."""

    def __init__(self, bootstrap_servers: str, topic: str, group: str, **config: object) -> None:
        settings = {
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 200,
            "session_timeout_ms": 10_000,
        }
        self.consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap_servers, group_id=group, **{**settings, **config}
        )
        self.received: list[Received] = []

    async def __aenter__(self) -> Member:
        await self.consumer.start()
        self._task = asyncio.create_task(self._poll())
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
            await self.consumer.stop()

    async def _poll(self) -> None:
        while True:
            for records in (await self.consumer.getmany(timeout_ms=200)).values():
                self.received += map(as_received, records)

    @property
    def partitions(self) -> set[int]:
        return {partition.partition for partition in self.consumer.assignment()}


async def until(reached: Callable[[], bool], *members: Member) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + 40
    while not reached():
        assert loop.time() < deadline, [(len(member.received), member.partitions) for member in members]
        await asyncio.sleep(0.02)


@pytest.mark.capability("groups")
async def test_members_share_the_partitions_and_hand_them_over(
    bootstrap_servers: str, make_topic: MakeTopic, name: str
) -> None:
    topic, sent = make_topic(4), text_records(600)
    await produce(bootstrap_servers, topic, sent[:200])
    async with Member(bootstrap_servers, topic, name) as first:
        await until(lambda: len(first.received) == 200, first)
        assert first.partitions == {0, 1, 2, 3}
        async with Member(bootstrap_servers, topic, name) as second:
            await until(lambda: len(first.partitions) == len(second.partitions) == 2, first, second)
            assert first.partitions | second.partitions == {0, 1, 2, 3}
            await produce(bootstrap_servers, topic, sent[200:400])
            await until(lambda: len(first.received) + len(second.received) == 400, first, second)
            assert second.received
            await first.stop()
            await until(lambda: second.partitions == {0, 1, 2, 3}, second)
            await produce(bootstrap_servers, topic, sent[400:])
            await until(lambda: len(first.received) + len(second.received) == 600, second)
    check_partitions(sent, first.received + second.received)


@pytest.mark.capability("groups")
async def test_a_group_goes_on_where_it_committed(
    bootstrap_servers: str, make_topic: MakeTopic, name: str
) -> None:
    topic, sent = make_topic(), text_records(100)
    await produce(bootstrap_servers, topic, sent)
    partition = TopicPartition(topic, 0)
    config = {"bootstrap_servers": bootstrap_servers, "group_id": name, "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(topic, enable_auto_commit=False, **config) as first:
        assert await first.committed(partition) is None
        assert len(await poll(first, 100)) == 100
        await first.commit({partition: OffsetAndMetadata(37, "half-way")})
    async with AIOKafkaConsumer(topic, **config) as second:
        received = await poll(second, 63)
        assert [each.offset for each in received] == list(range(37, 100))
        assert [each.record for each in received] == sent[37:]
        assert await second.committed(partition) == 37


@pytest.mark.capability("groups")
async def test_a_static_member_that_returns_keeps_its_partitions(
    bootstrap_servers: str, make_topic: MakeTopic, name: str
) -> None:
    topic = make_topic(4)
    async with (
        Member(bootstrap_servers, topic, name, group_instance_id="one") as first,
        Member(bootstrap_servers, topic, name, group_instance_id="two") as second,
    ):
        await until(lambda: len(first.partitions) == len(second.partitions) == 2, first, second)
        before = second.partitions
        await second.stop()
        async with Member(bootstrap_servers, topic, name, group_instance_id="two") as again:
            await until(lambda: len(again.partitions) == 2, first, again)
            assert again.partitions == before
            assert len(first.partitions) == 2


@pytest.mark.capability("groups")
async def test_a_pattern_subscription_finds_a_topic_created_later(
    bootstrap_servers: str, make_topic: MakeTopic, name: str
) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        group_id=name,
        auto_offset_reset="earliest",
        metadata_max_age_ms=500,
    )
    consumer.subscribe(pattern=f"^{name}-.*")
    async with consumer:
        topic, sent = make_topic(), text_records(20)
        await produce(bootstrap_servers, topic, sent)
        check_partitions(sent, await poll(consumer, 20))


async def test_the_next_owner_does_not_wait_for_offsets_of_an_open_transaction(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    """Its OffsetFetch has no `require_stable` (KIP-447): records are read again."""
    topic = make_topic(partitions=1)
    partition = TopicPartition(topic, 0)
    await produce(bootstrap_servers, topic, text_records(10))
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, transactional_id=f"{topic}-former"
    ) as former_owner:
        async with former_owner.transaction():
            await former_owner.send_offsets_to_transaction({partition: 7}, topic)
            async with AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap_servers,
                group_id=topic,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            ) as next_owner:
                assert (await asyncio.wait_for(next_owner.getone(), 20)).offset == 0

            stable = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": topic})
            with pytest.raises(KafkaException) as refused:  # librdkafka's consumers wait
                await asyncio.to_thread(stable.committed, [ConfluentPartition(topic, 0)], 2)
            assert refused.value.args[0].code() in (KafkaError.UNSTABLE_OFFSET_COMMIT, KafkaError._TIMED_OUT)
        (committed,) = await asyncio.to_thread(stable.committed, [ConfluentPartition(topic, 0)], 20)
        assert committed.offset == 7
        stable.close()
