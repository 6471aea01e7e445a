"""DescribeConfigs shows each setting's value, where it comes from and what else could give it."""

from __future__ import annotations

from typing import Any

from kafkapy.config_keys import broker_keys, topic_keys
from kafkapy.controller.config_entries import ConfigEntry, Source
from kafkapy.controller.configs import ALL_BROKERS, Change, Operator, ResourceType


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


async def test_every_topic_setting_is_shown_in_order_with_its_documentation(cluster: Any) -> None:
    entries = cluster.admin.describer.topic_entries({})
    assert [entry.name for entry in entries] == sorted(topic_keys())
    assert all(entry.documentation for entry in entries)
    assert {entry.source for entry in entries} == {Source.DEFAULT}
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
    assert [entry.name for entry in cluster.admin.describer.broker_entries()] == sorted(broker_keys())


async def test_a_password_is_never_shown(start_cluster: Any) -> None:
    cluster = await start_cluster(**{"ssl.key.password": "hunter2"})
    entry = broker_entry(cluster, "ssl.key.password")
    assert (entry.value, entry.sensitive, entry.source) == (None, True, Source.STATIC_BROKER)
    assert entry.synonyms == [("ssl.key.password", None, Source.STATIC_BROKER)]


async def test_settings_of_all_brokers_show_only_what_is_set_for_all(start_cluster: Any) -> None:
    cluster = await start_cluster(log_segment_bytes="2000000")
    assert cluster.admin.describer.cluster_entries() == []
    await set_broker(cluster, ALL_BROKERS, log_segment_bytes="3000000")
    (entry,) = cluster.admin.describer.cluster_entries()
    assert (entry.name, entry.value, entry.source) == (
        "log.segment.bytes",
        "3000000",
        Source.DYNAMIC_DEFAULT_BROKER,
    )
    assert entry.synonyms == [("log.segment.bytes", "3000000", Source.DYNAMIC_DEFAULT_BROKER)]
