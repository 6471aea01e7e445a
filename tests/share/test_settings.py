"""The settings of share groups: their own, or else the broker's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkapy.configs.config import BrokerConfig
from kafkapy.metadata.image import MetadataImage
from kafkapy.share.settings import EARLIEST, LATEST, ShareSettings

HOUR_MS = 3_600_000


def settings(**own: str) -> ShareSettings:
    """Those of a broker whose group `g` has its own."""
    configs = {f"share.{name.replace('_', '.')}": value for name, value in own.items()}
    image = replace(MetadataImage(), group_configs={"g": configs})
    return ShareSettings(BrokerConfig({}), lambda: image)


@pytest.mark.parametrize(
    ("value", "begins_at"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("by_duration:PT1H", HOUR_MS),
        ("by_duration:P2DT3H4M5.5S", 51 * HOUR_MS + 4 * 60_000 + 5_500),
        ("by_duration:p1dt1.5s", 24 * HOUR_MS + 1_500),
        ("by_duration:PT0,25S", 250),
        ("by_duration:PT0S", 0),
    ],
)
def test_a_group_begins_where_its_setting_says(value: str, begins_at: str | int) -> None:
    assert settings(auto_offset_reset=value).begins_at("g") == begins_at


def test_a_group_without_settings_has_the_defaults() -> None:
    found = settings(auto_offset_reset="earliest", isolation_level="read_committed")
    assert found.begins_at("another") == LATEST
    assert found.reads_committed("g")
    assert not found.reads_committed("another")


def test_a_setting_beyond_the_brokers_limits_counts_as_the_nearest_within() -> None:
    """It was set while the broker had other limits."""
    assert settings(record_lock_duration_ms="1000").lock_ms("g") == 15_000
    assert settings(record_lock_duration_ms="60001").lock_ms("g") == 60_000
    limits = settings(delivery_count_limit="11", partition_max_record_locks="4001").limits("g")
    assert (limits.delivery_count, limits.records) == (10, 4_000)
