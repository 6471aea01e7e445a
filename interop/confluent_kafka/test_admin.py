"""confluent-kafka: the admin client, and what is refused."""

from __future__ import annotations

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    TopicDescription,
)

from interop.confluent_kafka.client import consume, poll, produce
from interop.conftest import MakeTopic
from interop.support.records import check_one_partition, text_records
from interop.support.waiting import wait_until


@pytest.fixture
def admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers})


def refusal(futures: dict[object, object]) -> int:
    """The error code of the one future of `futures`."""
    (future,) = futures.values()
    with pytest.raises(KafkaException) as refused:
        future.result(30)  # type: ignore[attr-defined]
    return int(refused.value.args[0].code())


def without_group(bootstrap_servers: str, reset: str) -> Consumer:
    config = {"bootstrap.servers": bootstrap_servers, "group.id": "unused", "auto.offset.reset": reset}
    return Consumer(config)


def names(admin: AdminClient) -> set[str]:
    return set(admin.list_topics(timeout=10).topics)


def describe(admin: AdminClient, topic: str, partitions: int) -> TopicDescription:
    """The topic once it has so many partitions."""

    def described() -> TopicDescription | None:
        description = admin.describe_topics(TopicCollection([topic]))[topic].result(30)
        return description if len(description.partitions) == partitions else None

    return wait_until(described, ignoring=KafkaException)


@pytest.mark.capability("topics")
def test_topics_are_created_described_grown_and_deleted(admin: AdminClient, name: str) -> None:
    admin.create_topics([NewTopic(name, 3, config={"retention.ms": "9000"})])[name].result(30)
    described = describe(admin, name, 3)
    assert (described.name, described.is_internal) == (name, False)
    assert str(described.topic_id)
    brokers = sorted(node.id for node in admin.describe_cluster().result(30).nodes)
    assert sorted(partition.id for partition in described.partitions) == [0, 1, 2]
    for partition in described.partitions:
        assert partition.leader.id == partition.replicas[0].id
        for nodes in (partition.replicas, partition.isr):
            assert sorted(node.id for node in nodes) == brokers

    admin.create_partitions([NewPartitions(name, 5)])[name].result(30)
    describe(admin, name, 5)

    admin.delete_topics([name])[name].result(30)
    wait_until(lambda: name not in names(admin))
    assert refusal(admin.delete_topics([name])) == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.capability("topics")
def test_a_deleted_topic_can_be_created_again_and_is_empty(
    admin: AdminClient, bootstrap_servers: str, name: str
) -> None:
    ids = set()
    for value in (b"old", b"new"):
        admin.create_topics([NewTopic(name, 1)])[name].result(30)
        ids.add(str(describe(admin, name, 1).topic_id))
        sent = [record._replace(value=value) for record in text_records(5)]
        produce(bootstrap_servers, name, sent)
        check_one_partition(sent, consume(bootstrap_servers, name, 5))
        admin.delete_topics([name])[name].result(30)
        wait_until(lambda: name not in names(admin))
    assert len(ids) == 2


@pytest.mark.capability("configs")
def test_topic_configs_are_described_altered_and_reset(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms="123456")
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)

    def described() -> dict[str, ConfigEntry]:
        (future,) = admin.describe_configs([resource]).values()
        return dict(future.result(30))

    def alter(*entries: tuple[str, str | None, AlterConfigOpType]) -> dict[object, object]:
        changes = [ConfigEntry(key, value, incremental_operation=kind) for key, value, kind in entries]
        change = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=changes)
        return dict(admin.incremental_alter_configs([change]))

    before = described()
    assert len(before) > 25
    assert (before["retention.ms"].value, before["retention.ms"].source) == (
        "123456",
        ConfigSource.DYNAMIC_TOPIC_CONFIG.value,
    )
    assert not before["retention.ms"].is_default
    assert (before["segment.bytes"].value, before["segment.bytes"].is_default) == ("1073741824", True)

    (done,) = alter(
        ("retention.ms", "5000", AlterConfigOpType.SET),
        ("cleanup.policy", "compact", AlterConfigOpType.APPEND),
    ).values()
    done.result(30)  # type: ignore[attr-defined]
    wait_until(lambda: described()["retention.ms"].value == "5000")
    assert set(described()["cleanup.policy"].value.split(",")) == {"delete", "compact"}
    (done,) = alter(("retention.ms", None, AlterConfigOpType.DELETE)).values()
    done.result(30)  # type: ignore[attr-defined]
    wait_until(lambda: described()["retention.ms"].value == "604800000")

    assert refusal(alter(("retention.ms", "soon", AlterConfigOpType.SET))) == KafkaError.INVALID_CONFIG
    assert refusal(alter(("no.such.config", "1", AlterConfigOpType.SET))) == KafkaError.INVALID_CONFIG


@pytest.mark.capability("configs")
def test_broker_configs_have_sources_and_synonyms(admin: AdminClient) -> None:
    broker = admin.describe_cluster().result(30).nodes[0]
    (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, str(broker.id))]).values()
    configs = future.result(30)
    assert configs["log.segment.bytes"].value == "1073741824"
    assert configs["log.dirs"].is_read_only
    assert configs["log.retention.ms"].source == ConfigSource.DEFAULT_CONFIG.value


@pytest.mark.capability("delete records")
def test_deleted_records_are_no_longer_read(
    admin: AdminClient, bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic, sent = make_topic(), text_records(100)
    produce(bootstrap_servers, topic, sent)
    (future,) = admin.delete_records([TopicPartition(topic, 0, 60)]).values()
    assert future.result(30).low_watermark == 60
    for spec, expected in ((OffsetSpec.earliest(), 60), (OffsetSpec.latest(), 100)):
        (found,) = admin.list_offsets({TopicPartition(topic, 0): spec}).values()
        assert found.result(30).offset == expected
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "x", "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(topic, 0, 3)])
    check_one_partition(sent[60:], poll(consumer, 40), 60)
    consumer.close()
    assert refusal(admin.delete_records([TopicPartition(topic, 0, 1_000)])) == KafkaError.OFFSET_OUT_OF_RANGE


@pytest.mark.capability("positions")
@pytest.mark.parametrize("isolation", [IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED])
def test_the_offset_of_the_greatest_timestamp_is_found(
    admin: AdminClient, bootstrap_servers: str, make_topic: MakeTopic, isolation: IsolationLevel
) -> None:
    topic, sent = make_topic(), text_records(30)
    sent[11] = sent[11]._replace(timestamp=sent[-1].timestamp + 1_000)
    produce(bootstrap_servers, topic, sent)
    partition = TopicPartition(topic, 0)
    (found,) = admin.list_offsets({partition: OffsetSpec.max_timestamp()}, isolation_level=isolation).values()
    assert (found.result(30).offset, found.result(30).timestamp) == (11, sent[11].timestamp)


@pytest.mark.capability("group admin")
def test_groups_are_listed_described_moved_and_deleted(
    admin: AdminClient, bootstrap_servers: str, make_topic: MakeTopic, name: str
) -> None:
    topic, sent = make_topic(2), text_records(50)
    told = produce(bootstrap_servers, topic, sent)
    ends = {n: sum(each.partition() == n for each in told) for n in (0, 1)}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": name,
            "client.id": "me",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    assert len(poll(consumer, 50)) == 50
    group = admin.describe_consumer_groups([name])[name].result(30)
    assert (group.state, group.partition_assignor) == (ConsumerGroupState.STABLE, "range")
    assert [member.client_id for member in group.members] == ["me"]
    assert sorted(each.partition for each in group.members[0].assignment.topic_partitions) == [0, 1]
    assert refusal(admin.delete_consumer_groups([name])) == KafkaError.NON_EMPTY_GROUP
    consumer.close()

    listed = {each.group_id: each for each in admin.list_consumer_groups().result(30).valid}
    assert listed[name].state == ConsumerGroupState.EMPTY

    def committed() -> dict[int, int]:
        (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)]).values()
        return {each.partition: each.offset for each in future.result(30).topic_partitions}

    assert committed() == ends
    moved = ConsumerGroupTopicPartitions(name, [TopicPartition(topic, 0, 1)])
    (future,) = admin.alter_consumer_group_offsets([moved]).values()
    future.result(30)
    assert committed() == {**ends, 0: 1}

    admin.delete_consumer_groups([name])[name].result(30)
    assert name not in {each.group_id for each in admin.list_consumer_groups().result(30).valid}
    assert refusal(admin.delete_consumer_groups([name])) == KafkaError.GROUP_ID_NOT_FOUND


@pytest.mark.capability("cluster")
def test_the_cluster_tells_its_brokers_and_id(admin: AdminClient, bootstrap_servers: str) -> None:
    cluster = admin.describe_cluster().result(30)
    assert {f"{broker.host}:{broker.port}" for broker in cluster.nodes} == set(bootstrap_servers.split(","))
    assert cluster.controller.id in {broker.id for broker in cluster.nodes}
    assert cluster.cluster_id == admin.list_topics(timeout=10).cluster_id


@pytest.mark.capability("errors")
def test_a_record_that_is_too_large_is_refused_and_the_next_goes_through(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes="10000")
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    told: list[tuple[int, int]] = []
    for value in (b"x" * 20_000, b"small"):
        producer.produce(
            topic,
            value,
            on_delivery=lambda error, message: told.append((error.code() if error else 0, message.offset())),
        )
        producer.flush(30)
    assert told[0][0] == KafkaError.MSG_SIZE_TOO_LARGE
    assert told[1] == (0, 0)


@pytest.mark.capability("errors")
@pytest.mark.parametrize("wrong", ["no spaces", "a/b", "..", "x" * 250])
def test_a_wrong_topic_name_is_refused(admin: AdminClient, wrong: str) -> None:
    assert refusal(admin.create_topics([NewTopic(wrong, 1, 1)])) == KafkaError.TOPIC_EXCEPTION


@pytest.mark.capability("errors")
def test_what_cannot_be_created_says_why(admin: AdminClient, make_topic: MakeTopic, name: str) -> None:
    topic = make_topic(3)
    for new, code in (
        (NewTopic(topic, 1, 1), KafkaError.TOPIC_ALREADY_EXISTS),
        (NewTopic(name, 1, 4), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic(name, 1, 1, config={"cleanup.policy": "burn"}), KafkaError.INVALID_CONFIG),
        (NewTopic(name, 1, 1, config={"no.such.config": "1"}), KafkaError.INVALID_CONFIG),
    ):
        assert refusal(admin.create_topics([new])) == code
    assert refusal(admin.create_partitions([NewPartitions(topic, 2)])) == KafkaError.INVALID_PARTITIONS
    assert refusal(admin.create_partitions([NewPartitions(name, 2)])) == KafkaError.UNKNOWN_TOPIC_OR_PART
    admin.create_topics([NewTopic(name, 2, 1)], validate_only=True)[name].result(30)
    assert name not in names(admin)


@pytest.mark.capability("errors")
def test_reading_outside_the_log_is_an_error_where_no_reset_is_wanted(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    produce(bootstrap_servers, topic, text_records(5))
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "x", "auto.offset.reset": "error"}
    )
    consumer.assign([TopicPartition(topic, 0, 6)])
    with pytest.raises(KafkaException) as refused:
        poll(consumer, 1)
    assert refused.value.args[0].code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
    consumer.close()


@pytest.mark.capability("errors")
def test_an_unknown_topic_is_an_error_where_it_is_not_created(bootstrap_servers: str, name: str) -> None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "x", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([name])
    with pytest.raises(KafkaException) as refused:
        poll(consumer, 1)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    consumer.close()
