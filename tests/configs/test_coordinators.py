"""The settings of the coordinators arrive in their own configurations."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from kafkapy.configs import keys
from kafkapy.configs.config import BrokerConfig
from kafkapy.groups.config import GroupConfig
from kafkapy.transactions.config import TransactionConfig

GROUPS: list[tuple[str, str, dict[str, Any]]] = [
    ("group.min.session.timeout.ms", "100", {"min_session_timeout_ms": 100}),
    ("group.max.session.timeout.ms", "70000", {"max_session_timeout_ms": 70_000}),
    ("group.initial.rebalance.delay.ms", "0", {"initial_rebalance_delay_ms": 0}),
    ("group.max.size", "3", {"max_size": 3}),
    ("offset.metadata.max.bytes", "9", {"offset_metadata_max_bytes": 9}),
    ("offsets.retention.minutes", "2", {"offsets_retention_ms": 120_000}),
    ("offsets.retention.check.interval.ms", "1000", {"offsets_retention_check_interval_ms": 1_000}),
    ("offsets.commit.timeout.ms", "700", {"offsets_commit_timeout_ms": 700}),
    ("group.consumer.session.timeout.ms", "50000", {"consumer_session_timeout_ms": 50_000}),
    ("group.consumer.heartbeat.interval.ms", "6000", {"consumer_heartbeat_interval_ms": 6_000}),
    ("group.consumer.assignment.interval.ms", "30", {"consumer_assignment_interval_ms": 30}),
    ("group.consumer.max.size", "4", {"consumer_max_size": 4}),
    ("group.consumer.assignors", "range,uniform", {"consumer_assignors": ("range", "uniform")}),
    ("group.consumer.migration.policy", "upgrade", {"downgrades": False}),
    ("group.consumer.migration.policy", "DOWNGRADE", {"upgrades": False}),
    ("group.consumer.migration.policy", "Disabled", {"upgrades": False, "downgrades": False}),
    ("group.share.session.timeout.ms", "51000", {"share_session_timeout_ms": 51_000}),
    ("group.share.heartbeat.interval.ms", "7000", {"share_heartbeat_interval_ms": 7_000}),
    ("group.share.assignment.interval.ms", "31", {"share_assignment_interval_ms": 31}),
    ("group.share.max.size", "5", {"share_max_size": 5}),
    ("group.streams.session.timeout.ms", "52000", {"streams_session_timeout_ms": 52_000}),
    ("group.streams.heartbeat.interval.ms", "8000", {"streams_heartbeat_interval_ms": 8_000}),
    ("group.streams.assignment.interval.ms", "32", {"streams_assignment_interval_ms": 32}),
    ("group.streams.initial.rebalance.delay.ms", "33", {"streams_initial_rebalance_delay_ms": 33}),
    ("group.streams.num.standby.replicas", "1", {"streams_num_standby_replicas": 1}),
    ("group.streams.max.size", "6", {"streams_max_size": 6}),
    (
        "group.consumer.max.session.timeout.ms",
        "50000",
        {"limits": {**GroupConfig().limits, "group.consumer.max.session.timeout.ms": 50_000}},
    ),
]
TRANSACTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("transaction.max.timeout.ms", "1000", {"max_timeout_ms": 1_000}),
    (
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "2000",
        {"timeout_check_interval_ms": 2_000},
    ),
    ("transactional.id.expiration.ms", "3000", {"expiration_ms": 3_000}),
    (
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        "4000",
        {"expiration_check_interval_ms": 4_000},
    ),
    ("request.timeout.ms", "5000", {"request_timeout_ms": 5_000}),
]


@pytest.mark.parametrize(
    ("config", "setting", "value", "changed"),
    [(GroupConfig, *each) for each in GROUPS] + [(TransactionConfig, *each) for each in TRANSACTIONS],
)
def test_a_setting_of_the_broker_changes_what_its_coordinator_obeys_and_nothing_else(
    config: type[GroupConfig] | type[TransactionConfig], setting: str, value: str, changed: dict[str, Any]
) -> None:
    assert config.from_broker(BrokerConfig({setting: value})) == replace(config(), **changed)


@pytest.mark.parametrize(("config", "cases"), [(GroupConfig, GROUPS), (TransactionConfig, TRANSACTIONS)])
def test_every_field_comes_from_a_setting(
    config: type[GroupConfig] | type[TransactionConfig], cases: list[tuple[str, str, dict[str, Any]]]
) -> None:
    tested = {name for _, _, changed in cases for name in changed}
    assert tested == {field.name for field in fields(config)}


def test_defaults_are_those_of_the_table_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = keys.broker_keys()["group.max.size"]._replace(default="77")
    monkeypatch.setitem(keys.broker_keys(), "group.max.size", changed)
    assert GroupConfig().max_size == 77
