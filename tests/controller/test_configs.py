"""Settings of topics and brokers change while the broker runs, or are refused in Kafka's words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkapy.controller.configs import ALL_BROKERS, NOTICE_LIFETIME_MS, Change, Operator, ResourceType
from kafkapy.controller.topic_plans import NewTopic
from kafkapy.protocol.errors import ErrorCode, KafkaError

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
SET, DELETE, APPEND, SUBTRACT = Operator.SET, Operator.DELETE, Operator.APPEND, Operator.SUBTRACT


async def alter(cluster: Any, resource_type: int, name: str, *changes: tuple[str, int, str | None]) -> None:
    await cluster.admin.configs.alter(resource_type, name, [Change(*change) for change in changes])


async def refusal(
    cluster: Any, resource_type: int, name: str, *changes: tuple[str, int, str | None]
) -> tuple[ErrorCode, str | None]:
    """Why a change is refused; nothing may have changed."""
    before = cluster.image
    with pytest.raises(KafkaError) as caught:
        await alter(cluster, resource_type, name, *changes)
    assert cluster.image is before
    return caught.value.code, caught.value.message


@pytest.fixture
async def topic(cluster: Any) -> Any:
    """The cluster, with a topic `t`."""
    await cluster.admin.topics.create_topics([NewTopic("t", 2, configs={"retention.ms": "5"})])
    return cluster


async def test_a_topics_setting_is_in_the_image_and_in_the_tree(topic: Any, start_cluster: Any) -> None:
    partitions = topic.image.topics["t"].partitions
    await alter(topic, TOPIC, "t", ("segment.ms", SET, "9"), ("retention.ms", DELETE, None))
    assert topic.image.topics["t"].configs == {"segment.ms": "9"}
    assert topic.image.topics["t"].partitions is partitions
    node = await topic.store.get("/config/topics/t")
    assert json.loads(node.data) == {"version": 1, "config": {"segment.ms": "9"}}
    assert (await start_cluster()).image.topics["t"].configs == {"segment.ms": "9"}


async def test_a_change_leaves_a_notice_for_other_brokers_that_goes_after_a_while(topic: Any) -> None:
    await alter(topic, TOPIC, "t", ("segment.ms", SET, "9"))
    assert await topic.store.children("/config/changes") == ["config_change_0000000000"]
    notice = await topic.store.get("/config/changes/config_change_0000000000")
    assert json.loads(notice.data) == {"version": 2, "entity_path": "topics/t"}
    topic.clock.ms += NOTICE_LIFETIME_MS
    await alter(topic, BROKER, ALL_BROKERS, ("log.retention.ms", SET, "9"))
    assert await topic.store.children("/config/changes") == ["config_change_0000000001"]
    notice = await topic.store.get("/config/changes/config_change_0000000001")
    assert json.loads(notice.data) == {"version": 2, "entity_path": "brokers/<default>"}


async def test_notices_of_before_are_dropped_at_the_start(topic: Any, start_cluster: Any) -> None:
    await alter(topic, TOPIC, "t", ("segment.ms", SET, "9"))
    cluster = await start_cluster()
    assert await cluster.store.children("/config/changes") == []


async def test_lists_grow_and_shrink(topic: Any) -> None:
    async def change(operator: Operator, value: str) -> str:
        await alter(topic, TOPIC, "t", ("cleanup.policy", operator, value))
        return str(topic.image.topics["t"].configs["cleanup.policy"])

    assert await change(APPEND, "compact") == "delete,compact"  # the default is what it grows from
    assert await change(APPEND, "compact,delete") == "delete,compact"
    assert await change(SUBTRACT, "delete") == "compact"
    assert await change(SUBTRACT, "compact") == ""


async def test_replacing_drops_what_is_left_out(topic: Any) -> None:
    await topic.admin.configs.replace(TOPIC, "t", {"segment.ms": "7"})
    assert topic.image.topics["t"].configs == {"segment.ms": "7"}


async def test_validation_alone_changes_nothing(topic: Any) -> None:
    image = topic.image
    await topic.admin.configs.alter(TOPIC, "t", [Change("segment.ms", SET, "7")], validate_only=True)
    await topic.admin.configs.replace(BROKER, "1", {"log.roll.ms": "7"}, validate_only=True)
    assert topic.image is image
    assert await topic.store.children("/config/changes") == []


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("retention.ms", "abc", "Not a number of type LONG"),
        ("retention.ms", "", "Not a number of type LONG"),
        ("retention.ms", "-2", "Value must be at least -1"),
        ("index.interval.bytes", "1.5", "Not a number of type INT"),
        ("segment.bytes", "99999999999", "Not a number of type INT"),
        ("segment.bytes", "100", "Value must be at least 1048576"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("min.cleanable.dirty.ratio", "x", "Not a number of type DOUBLE"),
        ("compression.zstd.level", "23", "Value must be no more than 22"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("preallocate", "maybe", "Expected value to be either true or false"),
        ("message.timestamp.type", "foo", "String must be one of: CreateTime, LogAppendTime"),
        (
            "compression.type",
            "GZIP",
            "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        ("cleanup.policy", "foo", "String must be one of: compact, delete"),
    ],
)
async def test_a_wrong_value_is_refused(topic: Any, name: str, value: str, reason: str) -> None:
    assert await refusal(topic, TOPIC, "t", (name, SET, value)) == (
        ErrorCode.INVALID_CONFIG,
        f"Invalid value {value} for configuration {name}: {reason}",
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("no.such", SET, "1")], "Unknown topic config name: no.such"),
        ([("no.such", APPEND, "1")], "Can't APPEND to key no.such because its type is not LIST."),
        ([("segment.ms", SUBTRACT, "1")], "Can't SUBTRACT to key segment.ms because its type is not LIST."),
        (
            [("cleanup.policy", SET, "delete,foo")],
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ([("cleanup.policy", SET, "delete,")], "Configuration 'cleanup.policy' values must not be empty."),
        (
            [("leader.replication.throttled.replicas", SET, "0:1, x")],
            "Invalid value [0:1, x] for configuration leader.replication.throttled.replicas: "
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the "
            "following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        (
            [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")],
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        (
            [("remote.storage.enable", SET, "true")],
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
    ],
)
async def test_settings_that_a_topic_cannot_have_are_refused(
    topic: Any, changes: list[tuple[str, int, str | None]], message: str
) -> None:
    assert await refusal(topic, TOPIC, "t", *changes) == (ErrorCode.INVALID_CONFIG, message)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", " 5 "),
        ("retention.ms", "+5"),
        ("retention.bytes", "-5"),
        ("preallocate", " TRUE "),
        ("cleanup.policy", ""),
        ("cleanup.policy", " compact, delete "),
        ("min.cleanable.dirty.ratio", "1e-1"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1,1:1"),
        ("leader.replication.throttled.replicas", ""),
    ],
)
async def test_what_kafka_accepts_is_accepted(topic: Any, name: str, value: str) -> None:
    await alter(topic, TOPIC, "t", (name, SET, value))
    assert topic.image.topics["t"].configs[name] == value


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            [("retention.ms", SET, None), ("segment.ms", APPEND, None)],
            "Null value not supported for : retention.ms, segment.ms",
        ),
        ([("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], "Error due to duplicate config keys"),
        ([("retention.ms", 9, "1")], "Unknown operations type 9"),
    ],
)
async def test_malformed_changes_are_refused(
    topic: Any, changes: list[tuple[str, int, str | None]], message: str
) -> None:
    assert await refusal(topic, TOPIC, "t", *changes) == (ErrorCode.INVALID_REQUEST, message)


@pytest.mark.parametrize(
    ("resource_type", "name", "code", "message"),
    [
        (TOPIC, "absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'absent' does not exist."),
        (TOPIC, "", ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."),
        (TOPIC, "..", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '..' is not allowed"),
        (BROKER, "2", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1, but received 2"),
        (BROKER, "x", ErrorCode.INVALID_REQUEST, "Node id must be an integer, but it is: x"),
        (3, "t", ErrorCode.INVALID_REQUEST, "Unknown resource type 3"),
        (ResourceType.GROUP, "g", ErrorCode.INVALID_REQUEST, "Unknown resource type 32"),
    ],
)
async def test_resources_that_have_no_settings_are_refused(
    topic: Any, resource_type: int, name: str, code: ErrorCode, message: str
) -> None:
    assert await refusal(topic, resource_type, name, ("retention.ms", SET, "1")) == (code, message)


async def test_all_changes_of_a_resource_are_made_or_none(topic: Any) -> None:
    await refusal(topic, TOPIC, "t", ("segment.ms", SET, "9"), ("retention.ms", SET, "x"))
    assert topic.image.topics["t"].configs == {"retention.ms": "5"}


# --- brokers -----------------------------------------------------------------------------------------


async def test_a_brokers_setting_is_in_effect_at_once_and_after_a_restart(start_cluster: Any) -> None:
    cluster = await start_cluster()
    await alter(cluster, BROKER, "1", ("log.retention.ms", SET, "5000"))
    assert cluster.config["log.retention.ms"] == 5000
    assert cluster.config.topic_defaults()["retention.ms"] == "5000"
    node = await cluster.store.get("/config/brokers/1")
    assert json.loads(node.data) == {"version": 1, "config": {"log.retention.ms": "5000"}}
    cluster = await start_cluster()
    assert cluster.config["log.retention.ms"] == 5000
    await alter(cluster, BROKER, "1", ("log.retention.ms", DELETE, None))
    assert cluster.config["log.retention.ms"] == 604_800_000


async def test_a_brokers_own_setting_comes_before_that_of_all_brokers(cluster: Any) -> None:
    await alter(cluster, BROKER, "1", ("log.segment.bytes", SET, "2000000"))
    await alter(cluster, BROKER, ALL_BROKERS, ("log.segment.bytes", SET, "3000000"))
    assert json.loads((await cluster.store.get("/config/brokers/<default>")).data)["version"] == 1
    assert cluster.config["log.segment.bytes"] == 2_000_000
    await alter(cluster, BROKER, "1", ("log.segment.bytes", DELETE, None))
    assert cluster.config["log.segment.bytes"] == 3_000_000


async def test_a_list_of_a_broker_grows_from_its_default(cluster: Any) -> None:
    await alter(cluster, BROKER, "1", ("log.cleanup.policy", APPEND, "compact"))
    assert cluster.config["log.cleanup.policy"] == ("delete", "compact")


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        (
            [("log.dirs", SET, "/x")],
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [log.dirs]",
        ),
        (
            [("listeners", SET, "PLAINTEXT://:1")],
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [listeners]",
        ),
        ([("no.such", SET, "1")], ErrorCode.INVALID_REQUEST, "Unknown config name: no.such"),
        ([("no.such", APPEND, "1")], ErrorCode.INVALID_CONFIG, "Unknown config name: no.such"),
        (
            [("log.retention.ms", APPEND, "1")],
            ErrorCode.INVALID_CONFIG,
            "Config value append is not allowed for config key: log.retention.ms",
        ),
        (
            [("log.retention.ms", SET, "abc")],
            ErrorCode.INVALID_REQUEST,
            "Invalid value abc for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            [("log.segment.bytes", SET, "1")],
            ErrorCode.INVALID_REQUEST,
            "Invalid value 1 for configuration log.segment.bytes: Value must be at least 1048576",
        ),
        (
            [("log.roll.jitter.ms", SET, "-1")],
            ErrorCode.INVALID_REQUEST,
            "log.roll.jitter.ms=-1: must be at least 0",
        ),
        (
            [("log.cleaner.threads", SET, "0")],
            ErrorCode.INVALID_REQUEST,
            "log.cleaner.threads=0: must be at least 1",
        ),
        (
            [("log.cleaner.threads", SET, "2"), ("log.cleaner.dedupe.buffer.size", SET, "2097153")],
            ErrorCode.INVALID_REQUEST,
            "log.cleaner.dedupe.buffer.size=2097153: must be above 1048576 for each of "
            "log.cleaner.threads (2)",
        ),
        (
            [("max.connections.per.ip.overrides", SET, "here")],
            ErrorCode.INVALID_REQUEST,
            "max.connections.per.ip.overrides=here: expected ADDRESS:LIMIT",
        ),
    ],
)
async def test_settings_that_a_broker_cannot_change_are_refused(
    cluster: Any, changes: list[tuple[str, int, str | None]], code: ErrorCode, message: str
) -> None:
    assert await refusal(cluster, BROKER, "1", *changes) == (code, message)


async def test_a_dynamic_setting_that_a_later_release_refuses_does_not_stop_the_start(
    start_cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = await start_cluster()
    await cluster.store.create("/config/brokers/1", b'{"version":1,"config":{"gone.setting":"1"}}')
    cluster = await start_cluster()
    assert cluster.config["log.retention.ms"] == 604_800_000
    assert "dynamic broker settings are ignored" in caplog.text
