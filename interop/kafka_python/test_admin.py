"""kafka-python: the admin client, and what is refused."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetSpec, TopicPartition, errors
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.structs import OffsetAndMetadata

from interop.conftest import MakeTopic
from interop.kafka_python.client import consume, poll, produce
from interop.support.records import check_one_partition, text_records
from interop.support.waiting import wait_until


@pytest.fixture
def admin(bootstrap_servers: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    yield client
    client.close()


@pytest.mark.capability("topics")
def test_topics_are_created_described_grown_and_deleted(admin: KafkaAdminClient, name: str) -> None:
    admin.create_topics({name: {"num_partitions": 3, "configs": {"retention.ms": "9000"}}})
    admin.wait_for_topics([name])
    assert name in admin.list_topics()
    wait_until(lambda: admin.describe_topics([name])[0]["partitions"])
    (topic,) = admin.describe_topics([name])
    assert not topic["is_internal"]
    brokers = {broker["broker_id"] for broker in admin.describe_cluster()["brokers"]}
    assert sorted(partition["partition_index"] for partition in topic["partitions"]) == [0, 1, 2]
    for partition in topic["partitions"]:
        assert partition["leader_id"] == partition["replica_nodes"][0]
        assert set(partition["replica_nodes"]) == set(partition["isr_nodes"]) == brokers

    admin.create_partitions({name: 5})
    admin.wait_for_topics([name])
    wait_until(lambda: len(admin.describe_topics([name])[0]["partitions"]) == 5)

    admin.delete_topics([name])
    wait_until(lambda: name not in admin.list_topics())
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.delete_topics([name])


@pytest.mark.capability("topics")
def test_a_topic_keeps_its_manual_assignment_and_its_id(admin: KafkaAdminClient, name: str) -> None:
    broker = admin.describe_cluster()["brokers"][0]["broker_id"]
    admin.create_topics({name: {"assignments": {0: [broker], 1: [broker]}}})
    admin.wait_for_topics([name])
    # Each request may ask another broker, and one of them may learn of the topic a moment later.
    wait_until(lambda: admin.describe_topics([name])[0]["partitions"])
    (topic,) = admin.describe_topics([name])
    assert {partition["partition_index"] for partition in topic["partitions"]} == {0, 1}
    (by_id,) = admin.describe_topics([uuid.UUID(topic["topic_id"])])
    assert by_id["name"] == name


@pytest.mark.capability("topics")
def test_validate_only_creates_nothing(admin: KafkaAdminClient, name: str) -> None:
    admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1}}, validate_only=True)
    assert name not in admin.list_topics()


@pytest.mark.capability("configs")
def test_topic_configs_are_described_altered_and_reset(
    admin: KafkaAdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(retention_ms="123456")

    def described(which: str = "all") -> Any:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        return admin.describe_configs([resource], config_filter=which)["topic"][topic]

    everything = described()
    assert len(everything) > 25
    assert everything["retention.ms"]["value"] == "123456"
    assert everything["retention.ms"]["config_source"] == "DYNAMIC_TOPIC_CONFIG"
    assert everything["segment.bytes"]["value"] == "1073741824"
    assert everything["cleanup.policy"]["value"] == "delete"
    assert set(described("modified")) == {"retention.ms"}

    change = ConfigResource(
        ConfigResourceType.TOPIC, topic, {"retention.ms": "5000", "cleanup.policy": "compact"}
    )
    assert admin.alter_configs([change]) == {"topic": {topic: "OK"}}
    wanted = {"retention.ms": "5000", "cleanup.policy": "compact"}
    wait_until(lambda: {key: entry["value"] for key, entry in described("modified").items()} == wanted)
    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, ["retention.ms"])])
    wait_until(lambda: described()["retention.ms"]["value"] == "604800000")
    assert described()["cleanup.policy"]["value"] == "compact"


@pytest.mark.capability("configs")
def test_broker_configs_are_described(admin: KafkaAdminClient) -> None:
    broker = str(admin.describe_cluster()["brokers"][0]["broker_id"])
    resource = ConfigResource(ConfigResourceType.BROKER, broker)
    configs = admin.describe_configs([resource], config_filter="all")["broker"][broker]
    assert configs["log.segment.bytes"]["value"] == "1073741824"
    assert configs["socket.request.max.bytes"]["value"] == "104857600"


@pytest.mark.capability("configs")
def test_a_wrong_config_value_is_refused(admin: KafkaAdminClient, make_topic: MakeTopic, name: str) -> None:
    topic = make_topic()
    change = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "soon"})
    assert "retention.ms" in admin.alter_configs([change])["topic"][topic]
    with pytest.raises(errors.InvalidConfigurationError):
        admin.create_topics({name: {"configs": {"cleanup.policy": "burn"}}})
    with pytest.raises(errors.InvalidConfigurationError):
        admin.create_topics({name: {"configs": {"no.such.config": "1"}}})


@pytest.mark.capability("delete records")
def test_deleted_records_are_no_longer_read(
    admin: KafkaAdminClient, bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic, sent = make_topic(), text_records(100)
    partition = TopicPartition(topic, 0)
    produce(bootstrap_servers, topic, sent)
    answer = admin.delete_records({partition: 60})
    assert answer[partition]["low_watermark"] == 60
    assert admin.list_partition_offsets({partition: OffsetSpec.EARLIEST})[partition].offset == 60
    assert admin.list_partition_offsets({partition: OffsetSpec.LATEST})[partition].offset == 100
    check_one_partition(sent[60:], consume(bootstrap_servers, topic, 40), 60)
    with pytest.raises(errors.OffsetOutOfRangeError):
        admin.delete_records({partition: 1_000})


@pytest.mark.capability("group admin")
def test_groups_are_listed_described_moved_and_deleted(
    admin: KafkaAdminClient, bootstrap_servers: str, make_topic: MakeTopic, name: str
) -> None:
    topic, sent = make_topic(2), text_records(50)
    told = produce(bootstrap_servers, topic, sent)
    ends = {n: sum(each.partition == n for each in told) for n in (0, 1)}
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap_servers,
        group_id=name,
        client_id="me",
        auto_offset_reset="earliest",
    )
    assert len(poll(consumer, 50)) == 50
    group = admin.describe_groups([name])[name]
    assert group["group_state"] == "Stable"
    assert group["protocol_type"] == "consumer"
    assert [member["client_id"] for member in group["members"]] == ["me"]
    (assigned,) = group["members"][0]["member_assignment"]["assigned_partitions"]
    assert (assigned["topic"], sorted(assigned["partitions"])) == (topic, [0, 1])
    assert admin.delete_groups([name])[name] == "NonEmptyGroupError"
    consumer.close()

    assert name in {listed["group_id"] for listed in admin.list_groups()}
    assert admin.describe_groups([name])[name]["group_state"] == "Empty"
    offsets = admin.list_group_offsets(name)[name]
    assert {partition.partition: offset.offset for partition, offset in offsets.items()} == ends

    first = TopicPartition(topic, 0)
    admin.alter_group_offsets(name, {first: OffsetAndMetadata(1, "moved", -1)})
    assert admin.list_group_offsets(name)[name][first].offset == 1
    admin.reset_group_offsets(name, {first: OffsetSpec.EARLIEST})
    assert admin.list_group_offsets(name)[name][first].offset == 0
    assert admin.delete_group_offsets(name, [first]) == {first: errors.NoError}
    assert first not in admin.list_group_offsets(name)[name]

    assert admin.delete_groups([name]) == {name: "OK"}
    assert name not in {listed["group_id"] for listed in admin.list_groups()}
    assert admin.delete_groups([name])[name] == "GroupIdNotFoundError"


@pytest.mark.capability("cluster")
def test_the_cluster_tells_its_brokers_and_its_log_dirs(
    admin: KafkaAdminClient, bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    cluster = admin.describe_cluster()
    told = {f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]}
    assert told == set(bootstrap_servers.split(","))
    assert cluster["cluster_id"]
    assert cluster["controller_id"] in {broker["broker_id"] for broker in cluster["brokers"]}
    topic = make_topic(2)
    produce(bootstrap_servers, topic, text_records(10), partition=1)
    described = admin.describe_log_dirs()
    assert len(described) == len(told)
    for broker in described:
        sizes = {
            (each["name"], partition["partition_index"]): partition["partition_size"]
            for log_dir in broker["log_dirs"]
            for each in log_dir["topics"]
            for partition in each["partitions"]
        }
        assert sizes[topic, 0] == 0
        assert sizes[topic, 1] > 500


@pytest.mark.capability("errors")
def test_a_record_that_is_too_large_is_refused_and_the_next_goes_through(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes="10000")
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, enable_idempotence=False)
    with pytest.raises(errors.MessageSizeTooLargeError):
        producer.send(topic, b"x" * 20_000).get(timeout=30)
    assert producer.send(topic, b"small").get(timeout=30).offset == 0
    producer.close()


@pytest.mark.capability("errors")
@pytest.mark.parametrize("wrong", ["no spaces", "a/b", "..", "x" * 250])
def test_a_wrong_topic_name_is_refused(admin: KafkaAdminClient, wrong: str) -> None:
    with pytest.raises(errors.InvalidTopicError):
        admin.create_topics({wrong: {"num_partitions": 1, "replication_factor": 1}})


@pytest.mark.capability("errors")
def test_what_cannot_be_created_says_why(admin: KafkaAdminClient, make_topic: MakeTopic, name: str) -> None:
    topic = make_topic(3)
    with pytest.raises(errors.TopicAlreadyExistsError):
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
    with pytest.raises(errors.InvalidReplicationFactorError):
        admin.create_topics({name: {"num_partitions": 1, "replication_factor": 4}})
    with pytest.raises(errors.InvalidPartitionsError):
        admin.create_topics({name: {"num_partitions": 0, "replication_factor": 1}})
    with pytest.raises(errors.InvalidPartitionsError):
        admin.create_partitions({topic: 2})
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.create_partitions({name: 2})


@pytest.mark.capability("errors")
def test_reading_outside_the_log_is_an_error_where_no_reset_is_wanted(
    bootstrap_servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    produce(bootstrap_servers, topic, text_records(5))
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="none")
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 6)
    with pytest.raises(errors.OffsetOutOfRangeError):
        poll(consumer, 1)
    consumer.close()
