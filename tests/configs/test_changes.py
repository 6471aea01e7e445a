"""Settings of topics and brokers change while the broker runs.

Wrong changes are refused in Kafka's words.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkapy.configs.changes import Change, Operator
from kafkapy.configs.kind import ALL_BROKERS, ResourceType
from kafkapy.controller.topic_plans import NewTopic
from kafkapy.metadata.change_notices import NOTICE_LIFETIME_MS
from kafkapy.protocol.errors import ErrorCode, KafkaError

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
GROUP, METRICS = ResourceType.GROUP, ResourceType.CLIENT_METRICS
SET, DELETE, APPEND, SUBTRACT = Operator.SET, Operator.DELETE, Operator.APPEND, Operator.SUBTRACT


async def alter(cluster: Any, resource_type: int, name: str, *changes: tuple[str, int, str | None]) -> None:
    await cluster.admin.configs.alter(resource_type, name, [Change(*change) for change in changes])


async def refusal(
    cluster: Any, resource_type: int, name: str, *changes: tuple[str, int, str | None]
) -> tuple[ErrorCode, str | None]:
    """The error of a refused change, which must have changed nothing."""
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
    topic.clock.turn_ms(NOTICE_LIFETIME_MS)
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
        (ResourceType.BROKER_LOGGER, "1", ErrorCode.INVALID_REQUEST, "Unknown resource type 8"),
        (GROUP, "", ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."),
        (METRICS, "", ErrorCode.INVALID_REQUEST, "Subscription name can't be empty"),
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
    await cluster.store.create("/config/brokers/1", b'{"version":1,"config":{"log.segment.bytes":"1"}}')
    cluster = await start_cluster()
    assert cluster.config["log.segment.bytes"] == 1 << 30
    assert "dynamic broker settings are ignored" in caplog.text


@pytest.mark.parametrize("name", ["1", ALL_BROKERS])
async def test_broker_settings_of_any_name_are_kept(
    cluster: Any, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    await alter(cluster, BROKER, name, ("custom.key", SET, "secret"), ("log.retention.msec", SET, "5"))
    assert cluster.image.broker_configs[name]["custom.key"] == "secret"
    assert "custom.key, log.retention.msec (did you mean log.retention.ms?)" in caplog.text
    assert "secret" not in caplog.text
    await alter(cluster, BROKER, name, ("custom.key", DELETE, None))
    assert "custom.key" not in cluster.image.broker_configs[name]


async def test_settings_without_effect_are_told_when_they_are_changed(
    topic: Any, caplog: pytest.LogCaptureFixture
) -> None:
    throttle = "leader.replication.throttled.replicas"
    await alter(topic, BROKER, "1", ("num.io.threads", SET, "9"), ("log.retention.ms", SET, "5"))
    await alter(topic, TOPIC, "t", (throttle, SET, "*"), ("segment.ms", SET, "9"))
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [line.rpartition(": ")[2] for line in told] == [
        "num.io.threads",
        throttle,
    ]
    caplog.clear()
    await alter(topic, BROKER, "1", ("num.io.threads", SET, "9"))
    assert caplog.text == ""  # nothing has changed


LISTENER = "listener.name.plaintext"


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("1", {f"{LISTENER}.max.connections": "5", f"{LISTENER}.ssl.keystore.type": "PEM"}, None),
        (ALL_BROKERS, {f"{LISTENER}.max.connections": "5"}, None),
        (
            ALL_BROKERS,
            {f"{LISTENER}.ssl.keystore.type": "PEM"},
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{LISTENER}.ssl.keystore.type]",
        ),
        (
            "1",
            {f"{LISTENER}.max.connections": "x"},
            f"Invalid value x for configuration {LISTENER}.max.connections: Not a number of type INT",
        ),
        (
            "1",
            {f"{LISTENER}.num.network.threads": "7"},
            f"Dynamic thread count update validation failed for {LISTENER}.num.network.threads=7, "
            "value should not be greater than double the current value 3",
        ),
    ],
)
async def test_settings_of_one_listener_are_kept_or_refused_as_those_of_all(
    cluster: Any, name: str, settings: dict[str, str], message: str | None
) -> None:
    changes = [(setting, SET, value) for setting, value in settings.items()]
    if message is None:
        await alter(cluster, BROKER, name, *changes)
        assert settings.items() <= cluster.image.broker_configs[name].items()
    else:
        assert await refusal(cluster, BROKER, name, *changes) == (ErrorCode.INVALID_REQUEST, message)


async def test_thread_counts_change_by_half_or_double_at_most(cluster: Any) -> None:
    async def count(value: int) -> tuple[ErrorCode, str | None] | None:
        change = ("num.io.threads", SET, str(value))
        if value in (4, 16, 32):
            await alter(cluster, BROKER, "1", change)
            return None
        return await refusal(cluster, BROKER, "1", change)

    failed = "Dynamic thread count update validation failed for num.io.threads"
    assert await count(1000) == (
        ErrorCode.INVALID_REQUEST,
        f"{failed}=1000, value should not be greater than double the current value 8",
    )
    assert await count(3) == (
        ErrorCode.INVALID_REQUEST,
        f"{failed}=3, value should be at least half the current value 8",
    )
    await count(16)
    await count(32)
    assert await refusal(cluster, BROKER, "1", ("num.io.threads", DELETE, None)) == (
        ErrorCode.INVALID_REQUEST,
        f"{failed}=8, value should be at least half the current value 32",
    )
    assert cluster.config["num.io.threads"] == 32


async def test_min_insync_replicas_is_a_setting_of_all_brokers_alone(cluster: Any) -> None:
    name = "min.insync.replicas"
    assert cluster.image.broker_configs == {ALL_BROKERS: {name: "1"}}
    message = f"Broker-level {name} cannot be altered while ELR is enabled."
    for change in ((name, SET, "2"), (name, DELETE, None)):
        assert await refusal(cluster, BROKER, "1", change) == (ErrorCode.INVALID_CONFIG, message)
    message = f"Cluster-level {name} cannot be removed while ELR is enabled."
    assert await refusal(cluster, BROKER, ALL_BROKERS, (name, DELETE, None)) == (
        ErrorCode.INVALID_CONFIG,
        message,
    )
    with pytest.raises(KafkaError, match="cannot be removed"):
        await cluster.admin.configs.replace(BROKER, ALL_BROKERS, {})
    await alter(cluster, BROKER, ALL_BROKERS, (name, SET, "2"))
    assert cluster.config.topic_defaults()[name] == "2"


async def test_min_insync_replicas_of_a_new_cluster_is_that_of_the_file(start_cluster: Any) -> None:
    cluster = await start_cluster(min_insync_replicas="2")
    assert cluster.image.broker_configs == {ALL_BROKERS: {"min.insync.replicas": "2"}}
    cluster = await start_cluster(min_insync_replicas="3")
    assert cluster.config["min.insync.replicas"] == 2


async def test_min_insync_replicas_of_one_broker_becomes_that_of_all(start_cluster: Any) -> None:
    cluster = await start_cluster()
    config = b'{"version":1,"config":{"min.insync.replicas":"2","log.roll.ms":"7"}}'
    await cluster.store.create("/config/brokers/1", config)
    await cluster.store.delete("/config/brokers/<default>")
    cluster = await start_cluster()
    assert cluster.image.broker_configs == {
        ALL_BROKERS: {"min.insync.replicas": "2"},
        "1": {"log.roll.ms": "7"},
    }
    node = await cluster.store.get("/config/brokers/1")
    assert json.loads(node.data) == {"version": 1, "config": {"log.roll.ms": "7"}}


# --- groups and client metrics -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource_type", "name", "path", "settings"),
    [
        (GROUP, "g", "/config/groups/g", {"consumer.session.timeout.ms": "50000"}),
        (
            GROUP,
            "a/b ü*~",
            "/config/groups/a%2Fb%20%C3%BC%2A%7E",
            {"share.isolation.level": "read_committed"},
        ),
        (METRICS, "..", "/config/client-metrics/%2E%2E", {"match": "client_id=x", "metrics": "*"}),
    ],
)
async def test_settings_of_groups_and_client_metrics_are_in_the_tree_while_there_are_some(
    start_cluster: Any, resource_type: int, name: str, path: str, settings: dict[str, str]
) -> None:
    cluster = await start_cluster()
    await alter(cluster, resource_type, name, *((key, SET, value) for key, value in settings.items()))
    assert json.loads((await cluster.store.get(path)).data) == {"version": 1, "config": settings}
    notice = await cluster.store.get("/config/changes/config_change_0000000000")
    assert json.loads(notice.data) == {"version": 2, "entity_path": path.removeprefix("/config/")}
    cluster = await start_cluster()

    def kept() -> Any:
        image = cluster.image
        return image.group_configs if resource_type == GROUP else image.client_metrics_configs

    assert kept() == {name: settings}
    await cluster.admin.configs.replace(resource_type, name, {})
    assert kept() == {}
    assert await cluster.store.exists(path) is None
    await cluster.admin.configs.replace(resource_type, name, {})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("no.such", SET, "1")], "Unknown group config name: no.such"),
        (
            [("consumer.session.timeout.ms", SET, "x")],
            "Invalid value x for configuration consumer.session.timeout.ms: Not a number of type INT",
        ),
        (
            [("consumer.session.timeout.ms", SET, "44999")],
            "consumer.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms",
        ),
        (
            [("share.delivery.count.limit", SET, "11")],
            "share.delivery.count.limit must be less than or equal to group.share.max.delivery.count.limit",
        ),
        (
            [("streams.num.standby.replicas", SET, "3")],
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        (
            [("share.isolation.level", APPEND, "x")],
            "Can't APPEND to key share.isolation.level because its type is not LIST.",
        ),
    ],
)
async def test_settings_that_a_group_cannot_have_are_refused(
    cluster: Any, changes: list[tuple[str, int, str | None]], message: str
) -> None:
    assert await refusal(cluster, GROUP, "g", *changes) == (ErrorCode.INVALID_CONFIG, message)


async def test_a_group_expels_members_later_than_they_are_to_be_heard(start_cluster: Any) -> None:
    limit = {"group_consumer_max_heartbeat_interval_ms": "60000"}
    cluster = await start_cluster(**limit)
    await alter(cluster, GROUP, "g", ("consumer.heartbeat.interval.ms", SET, "44999"))
    assert await refusal(cluster, GROUP, "g", ("consumer.heartbeat.interval.ms", SET, "45000")) == (
        ErrorCode.INVALID_CONFIG,
        "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms",
    )


@pytest.mark.parametrize(
    ("name", "value", "code", "message"),
    [
        ("no.such", "1", ErrorCode.INVALID_REQUEST, "Unknown client metrics configuration: no.such"),
        (
            "interval.ms",
            "99",
            ErrorCode.INVALID_REQUEST,
            "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            "interval.ms",
            "x",
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration interval.ms: Not a number of type INT",
        ),
        ("metrics", "a,,b", ErrorCode.INVALID_CONFIG, "Configuration 'metrics' values must not be empty."),
        ("match", "client_id", ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_id"),
        ("match", "host=x", ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: host=x"),
        (
            "match",
            "client_id=a=b",
            ErrorCode.INVALID_CONFIG,
            "Illegal client matching pattern: client_id=a=b",
        ),
    ],
)
async def test_settings_that_client_metrics_cannot_have_are_refused(
    cluster: Any, name: str, value: str, code: ErrorCode, message: str
) -> None:
    assert await refusal(cluster, METRICS, "m", (name, SET, value)) == (code, message)


async def test_one_resource_has_no_more_settings_than_a_node_can_hold(cluster: Any) -> None:
    code, message = await refusal(cluster, BROKER, "1", ("custom.key", SET, "x" * (1 << 20)))
    assert code == ErrorCode.INVALID_REQUEST
    assert message is not None
    assert "one resource may have 1048576 bytes of them" in message


async def test_a_tree_of_an_earlier_release_gets_the_paths_it_lacks(start_cluster: Any) -> None:
    cluster = await start_cluster()
    for path in ("/config/groups", "/config/client-metrics"):
        await cluster.store.delete(path)
    cluster = await start_cluster()
    await alter(cluster, GROUP, "g", ("share.delivery.count.limit", SET, "4"))
    assert await cluster.store.children("/config/groups") == ["g"]


async def test_one_resource_has_a_thousand_settings_at_most(cluster: Any) -> None:
    code, _ = await refusal(cluster, BROKER, "1", *((f"key.{n}", SET, "") for n in range(1001)))
    assert code == ErrorCode.INVALID_REQUEST
    await alter(cluster, BROKER, "1", *((f"key.{n}", SET, "") for n in range(1000)))
    assert await refusal(cluster, BROKER, "1", ("another.key", SET, "")) == (
        ErrorCode.INVALID_REQUEST,
        "1001 settings are too many: one resource may have 1000.",
    )
