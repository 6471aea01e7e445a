"""aiokafka: the admin client, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from interop.aiokafka.client import consume, poll, produce
from interop.conftest import MakeTopic
from interop.support.records import check_one_partition, text_records


@pytest.fixture
async def admin(bootstrap_servers: str) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await client.start()
    yield client
    await client.close()


async def eventually(admin: AIOKafkaAdminClient, topic: str, partitions: int) -> dict[str, Any]:
    """The topic once it has so many partitions."""
    async with asyncio.timeout(30):
        while True:
            (described,) = await admin.describe_topics([topic])
            if len(described["partitions"]) == partitions:
                return dict(described)
            await asyncio.sleep(0.02)


def codes(response: Any) -> list[int]:
    """The error codes of a response that lists (name, error code, ...)."""
    listed = response.topic_errors if hasattr(response, "topic_errors") else response.topic_error_codes
    return [entry[1] for entry in listed]


@pytest.mark.capability("topics")
async def test_topics_are_created_described_grown_and_deleted(admin: AIOKafkaAdminClient, name: str) -> None:
    brokers = [broker["node_id"] for broker in (await admin.describe_cluster())["brokers"]]
    new = NewTopic(name, 3, len(brokers), topic_configs={"retention.ms": "9000"})
    assert codes(await admin.create_topics([new])) == [0]
    topic = await eventually(admin, name, 3)
    for partition in topic["partitions"]:
        assert partition["leader"] == partition["replicas"][0]
        assert sorted(partition["replicas"]) == sorted(partition["isr"]) == sorted(brokers)
    await admin.create_partitions({name: NewPartitions(5)})
    await eventually(admin, name, 5)
    assert codes(await admin.delete_topics([name])) == [0]
    assert codes(await admin.delete_topics([name])) == [errors.UnknownTopicOrPartitionError.errno]


@pytest.mark.capability("configs")
async def test_topic_configs_are_described(admin: AIOKafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms="123456")
    (response,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    ((code, _message, _type, resource, entries),) = response.resources
    values = {entry[0]: entry[1] for entry in entries}
    assert (code, resource) == (0, topic)
    assert values["retention.ms"] == "123456"
    assert values["cleanup.policy"] == "delete"
    assert len(values) > 25


@pytest.mark.capability("delete records")
async def test_deleted_records_are_no_longer_read(
    admin: AIOKafkaAdminClient, bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic, sent = make_topic(), text_records(100)
    partition = TopicPartition(topic, 0)
    await produce(bootstrap_servers, topic, sent)
    assert await admin.delete_records({partition: RecordsToDelete(60)}) == {partition: 60}
    check_one_partition(sent[60:], await consume(bootstrap_servers, topic, 40), 60)


@pytest.mark.capability("group admin")
async def test_groups_are_listed_and_their_offsets_told(
    admin: AIOKafkaAdminClient, bootstrap_servers: str, make_topic: MakeTopic, name: str
) -> None:
    topic, sent = make_topic(), text_records(50)
    await produce(bootstrap_servers, topic, sent)
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap_servers, group_id=name, auto_offset_reset="earliest"
    ) as consumer:
        assert len(await poll(consumer, 50)) == 50
        await consumer.commit()
        assert name in {group[0] for group in await admin.list_consumer_groups()}
        offsets = await admin.list_consumer_group_offsets(name)
        assert offsets[TopicPartition(topic, 0)].offset == 50
        (described,) = await admin.describe_consumer_groups([name])
        code, group, state, protocol_type, protocol, members = described.groups[0][:6]
        assert (code, group, state, protocol_type) == (0, name, "Stable", "consumer")
        assert protocol
        assert len(members) == 1


@pytest.mark.capability("cluster")
async def test_the_cluster_tells_its_brokers(admin: AIOKafkaAdminClient, bootstrap_servers: str) -> None:
    cluster = await admin.describe_cluster()
    told = {f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]}
    assert told == set(bootstrap_servers.split(","))
    assert cluster["controller_id"] in {broker["node_id"] for broker in cluster["brokers"]}


@pytest.mark.capability("errors")
async def test_a_record_that_is_too_large_is_refused_and_the_next_goes_through(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes="10000")
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        with pytest.raises(errors.MessageSizeTooLargeError):
            await producer.send_and_wait(topic, b"x" * 20_000)
        assert (await producer.send_and_wait(topic, b"small")).offset == 0


@pytest.mark.capability("errors")
@pytest.mark.parametrize("wrong", ["no spaces", "a/b", "..", "x" * 250])
async def test_a_wrong_topic_name_is_refused(admin: AIOKafkaAdminClient, wrong: str) -> None:
    assert codes(await admin.create_topics([NewTopic(wrong, 1, 1)])) == [errors.InvalidTopicError.errno]


@pytest.mark.capability("errors")
async def test_what_cannot_be_created_says_why(
    admin: AIOKafkaAdminClient, make_topic: MakeTopic, name: str
) -> None:
    topic = make_topic()
    for new, error in (
        (NewTopic(topic, 1, 1), errors.TopicAlreadyExistsError),
        (NewTopic(name, 1, 4), errors.InvalidReplicationFactorError),
        (NewTopic(name, 0, 1), errors.InvalidPartitionsError),
        (NewTopic(name, 1, 1, topic_configs={"cleanup.policy": "burn"}), errors.InvalidConfigurationError),
    ):
        assert codes(await admin.create_topics([new])) == [error.errno]


@pytest.mark.capability("errors")
async def test_reading_outside_the_log_is_an_error_where_no_reset_is_wanted(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    await produce(bootstrap_servers, topic, text_records(5))
    partition = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="none") as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 6)
        with pytest.raises(errors.OffsetOutOfRangeError):
            await consumer.getone()
