"""DescribeConfigs shows each setting's value and where it comes from.

It also shows what else could give the value.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkapy.configs.changes import Change, Operator
from kafkapy.configs.entries import ConfigEntry, Source
from kafkapy.configs.keys import broker_keys, group_keys, topic_keys
from kafkapy.configs.kind import ALL_BROKERS, ResourceType

RATES = {
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
}


async def set_broker(cluster: Any, name: str, **settings: str) -> None:
    changes = [Change(key.replace("_", "."), Operator.SET, value) for key, value in settings.items()]
    await cluster.admin.configs.alter(ResourceType.BROKER, name, changes)


def topic_entry(cluster: Any, name: str, **overrides: str) -> ConfigEntry:
    settings = {key.replace("_", "."): value for key, value in overrides.items()}
    entries: list[ConfigEntry] = cluster.admin.describer.topic_entries(settings)
    return next(entry for entry in entries if entry.name == name)


def broker_entry(cluster: Any, name: str) -> ConfigEntry:
    entries: list[ConfigEntry] = cluster.admin.describer.broker_entries()
    return next(entry for entry in entries if entry.name == name)


async def test_a_setting_that_takes_effect_after_the_metadata_has_it_is_shown(cluster: Any) -> None:
    assert broker_entry(cluster, "background.threads").value == "10"
    cluster.config.set_dynamic({"background.threads": "7"})
    assert broker_entry(cluster, "background.threads").value == "7"


async def test_every_topic_setting_is_shown_in_order_with_its_documentation(cluster: Any) -> None:
    entries = cluster.admin.describer.topic_entries({})
    assert [entry.name for entry in entries] == sorted(topic_keys())
    assert all(entry.documentation for entry in entries)
    assert {entry.name: entry.source for entry in entries if entry.source is not Source.DEFAULT} == {
        "min.insync.replicas": Source.DYNAMIC_DEFAULT_BROKER
    }
    assert not any(entry.read_only or entry.sensitive for entry in entries)


async def test_a_topics_own_setting_comes_first(cluster: Any) -> None:
    await set_broker(cluster, "1", log_cleanup_policy="delete,compact")
    entry = topic_entry(cluster, "cleanup.policy", cleanup_policy=" compact, delete ")
    assert (entry.value, entry.source, entry.type) == ("compact,delete", Source.TOPIC, 7)
    assert entry.synonyms == [
        ("cleanup.policy", "compact,delete", Source.TOPIC),
        ("log.cleanup.policy", "delete,compact", Source.DYNAMIC_BROKER),
        ("log.cleanup.policy", "delete", Source.DEFAULT),
    ]


async def test_synonyms_are_in_order_of_precedence(start_cluster: Any) -> None:
    cluster = await start_cluster(log_segment_bytes="2000000")
    await set_broker(cluster, ALL_BROKERS, log_segment_bytes="3000000")
    await set_broker(cluster, "1", log_segment_bytes="4000000")
    assert broker_entry(cluster, "log.segment.bytes").synonyms == [
        ("log.segment.bytes", "4000000", Source.DYNAMIC_BROKER),
        ("log.segment.bytes", "3000000", Source.DYNAMIC_DEFAULT_BROKER),
        ("log.segment.bytes", "2000000", Source.STATIC_BROKER),
        ("log.segment.bytes", "1073741824", Source.DEFAULT),
    ]
    entry = topic_entry(cluster, "segment.bytes")
    assert (entry.value, entry.source) == ("4000000", Source.DYNAMIC_BROKER)


async def test_hours_count_where_milliseconds_are_not_set(start_cluster: Any) -> None:
    cluster = await start_cluster(log_retention_hours="48")
    entry = topic_entry(cluster, "retention.ms")
    assert (entry.value, entry.source, entry.synonyms) == ("172800000", Source.STATIC_BROKER, [])
    await set_broker(cluster, "1", log_retention_ms="-2")
    entry = topic_entry(cluster, "retention.ms")
    assert (entry.value, entry.source) == ("-1", Source.DYNAMIC_BROKER)
    assert entry.synonyms == [
        ("log.retention.ms", "-2", Source.DYNAMIC_BROKER),
        ("log.retention.hours", "48", Source.STATIC_BROKER),
        ("log.retention.hours", "168", Source.DEFAULT),
    ]


async def test_a_time_below_zero_between_flushes_is_no_limit_for_topics(cluster: Any) -> None:
    await set_broker(cluster, "1", log_flush_interval_ms="-1")
    assert broker_entry(cluster, "log.flush.interval.ms").value == "-1"
    entry = topic_entry(cluster, "flush.ms")
    assert (entry.value, entry.source) == ("9223372036854775807", Source.DYNAMIC_BROKER)


async def test_a_setting_without_a_value_is_shown_as_null(cluster: Any) -> None:
    entry = broker_entry(cluster, "log.flush.interval.ms")
    assert (entry.value, entry.source, entry.synonyms) == (None, Source.DEFAULT, [])
    entry = broker_entry(cluster, "log.flush.scheduler.interval.ms")
    assert (entry.value, entry.read_only) == ("9223372036854775807", True)


async def test_every_broker_setting_is_shown(cluster: Any) -> None:
    shown = [entry.name for entry in cluster.admin.describer.broker_entries()]
    assert shown == sorted(broker_keys().keys() - RATES)


async def test_rates_of_replication_are_shown_where_they_are_set(cluster: Any) -> None:
    await set_broker(cluster, "1", leader_replication_throttled_rate="5")
    entry = broker_entry(cluster, "leader.replication.throttled.rate")
    assert (entry.value, entry.source, entry.read_only) == ("5", Source.DYNAMIC_BROKER, False)
    assert entry.synonyms == [("leader.replication.throttled.rate", "5", Source.DYNAMIC_BROKER)]


async def test_a_setting_that_nobody_knows_is_shown_without_its_value(start_cluster: Any) -> None:
    cluster = await start_cluster(custom_key="secret")
    await set_broker(cluster, "1", custom_key="dynamic", other_key="1")
    entry = broker_entry(cluster, "custom.key")
    assert (entry.value, entry.source, entry.read_only, entry.sensitive, entry.type) == (
        None,
        Source.DYNAMIC_BROKER,
        True,
        True,
        0,
    )
    assert entry.synonyms == [
        ("custom.key", None, Source.DYNAMIC_BROKER),
        ("custom.key", None, Source.STATIC_BROKER),
    ]
    assert broker_entry(cluster, "other.key").source is Source.DYNAMIC_BROKER


async def test_a_setting_of_one_listener_comes_before_that_of_all(start_cluster: Any) -> None:
    cluster = await start_cluster(max_connections="7")
    name = "listener.name.plaintext.max.connections"
    await set_broker(cluster, "1", **{name: "5"})
    await set_broker(cluster, ALL_BROKERS, **{name: "6"})
    entry = broker_entry(cluster, name)
    assert (entry.value, entry.type, entry.read_only) == ("5", 3, True)
    assert entry.synonyms == [
        (name, "5", Source.DYNAMIC_BROKER),
        (name, "6", Source.DYNAMIC_DEFAULT_BROKER),
        ("max.connections", "7", Source.STATIC_BROKER),
        ("max.connections", "10000", Source.DEFAULT),
    ]


@pytest.mark.parametrize("given", ["node.id", "broker.id"])
async def test_an_id_that_is_given_by_one_name_is_given_by_both(start_cluster: Any, given: str) -> None:
    cluster = await start_cluster(**{given: "1"})
    for name in ("node.id", "broker.id"):
        entry = broker_entry(cluster, name)
        assert (entry.value, entry.source) == ("1", Source.STATIC_BROKER)
        assert entry.synonyms == [(name, "1", Source.STATIC_BROKER), (name, "-1", Source.DEFAULT)]


async def test_an_id_that_is_not_given_is_a_default(cluster: Any) -> None:
    entry = broker_entry(cluster, "node.id")
    assert (entry.value, entry.source) == ("1", Source.DEFAULT)


async def test_a_group_shows_the_brokers_setting_where_it_has_none(start_cluster: Any) -> None:
    cluster = await start_cluster(group_consumer_session_timeout_ms="50000")
    entries = {entry.name: entry for entry in cluster.admin.describer.group_entries("g")}
    assert list(entries) == sorted(group_keys())
    assert all(entry.documentation for entry in entries.values())
    session = entries["consumer.session.timeout.ms"]
    assert (session.value, session.source) == ("50000", Source.STATIC_BROKER)
    assert session.synonyms[0] == ("group.consumer.session.timeout.ms", "50000", Source.STATIC_BROKER)
    reset = entries["share.auto.offset.reset"]
    assert reset.synonyms == [("share.auto.offset.reset", "latest", Source.DEFAULT)]


async def test_a_groups_own_setting_comes_first(cluster: Any) -> None:
    name = "consumer.session.timeout.ms"
    await cluster.admin.configs.alter(ResourceType.GROUP, "g", [Change(name, Operator.SET, " 50000 ")])
    (entry,) = (entry for entry in cluster.admin.describer.group_entries("g") if entry.name == name)
    assert (entry.value, entry.source) == ("50000", Source.GROUP)
    assert entry.synonyms == [
        (name, "50000", Source.GROUP),
        ("group.consumer.session.timeout.ms", "45000", Source.DEFAULT),
    ]


async def test_client_metrics_show_their_own_settings(cluster: Any) -> None:
    change = Change("match", Operator.SET, "client_id=a , client_id=b")
    await cluster.admin.configs.alter(ResourceType.CLIENT_METRICS, "m", [change])
    entries = {entry.name: entry for entry in cluster.admin.describer.client_metrics_entries("m")}
    assert all(entry.documentation for entry in entries.values())
    assert (entries["interval.ms"].value, entries["interval.ms"].synonyms) == ("300000", [])
    assert (entries["match"].value, entries["match"].source) == (
        "client_id=a,client_id=b",
        Source.CLIENT_METRICS,
    )


async def test_a_password_is_never_shown(start_cluster: Any) -> None:
    cluster = await start_cluster(**{"ssl.key.password": "hunter2"})
    entry = broker_entry(cluster, "ssl.key.password")
    assert (entry.value, entry.sensitive, entry.source) == (None, True, Source.STATIC_BROKER)
    assert entry.synonyms == [("ssl.key.password", None, Source.STATIC_BROKER)]


async def test_settings_of_all_brokers_show_only_what_is_set_for_all(start_cluster: Any) -> None:
    cluster = await start_cluster(log_segment_bytes="2000000")
    (insync,) = cluster.admin.describer.cluster_entries()
    assert (insync.name, insync.value) == ("min.insync.replicas", "1")
    await set_broker(cluster, ALL_BROKERS, log_segment_bytes="3000000")
    entry, _ = cluster.admin.describer.cluster_entries()
    assert (entry.name, entry.value, entry.source) == (
        "log.segment.bytes",
        "3000000",
        Source.DYNAMIC_DEFAULT_BROKER,
    )
    assert entry.synonyms == [("log.segment.bytes", "3000000", Source.DYNAMIC_DEFAULT_BROKER)]
