"""The settings of groups: a group's own, else the broker's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkapy.configs.config import BrokerConfig
from kafkapy.groups.config import GroupConfig
from kafkapy.groups.modern.settings import (
    ASSIGNMENT_INTERVAL,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    GroupSettings,
)
from kafkapy.metadata.image import MetadataImage


@pytest.mark.parametrize("group_type", ["consumer", "share", "streams"])
@pytest.mark.parametrize("name", [ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT])
def test_a_group_obeys_its_own_setting_or_else_the_brokers_as_they_are_now(
    group_type: str, name: str
) -> None:
    image = MetadataImage()
    settings = GroupSettings(group_type, GroupConfig(), lambda: image)
    assert settings.of("g", name) == {"assi": 1_000, "hear": 5_000, "sess": 45_000}[name[:4]]
    field = f"{group_type}_{name.replace('.', '_')}"
    settings.config = replace(settings.config, **{field: 70})  # type: ignore[arg-type]
    assert settings.of("g", name) == 70
    own = {"assi": 2_000, "hear": 6_000, "sess": 46_000}[name[:4]]
    image = image.with_group_config("g", {f"{group_type}.{name}": str(own)})
    assert (settings.of("g", name), settings.of("h", name)) == (own, 70)


@pytest.mark.parametrize("group_type", ["consumer", "share", "streams"])
@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        (ASSIGNMENT_INTERVAL, 0, 15_000),
        (HEARTBEAT_INTERVAL, 5_000, 15_000),
        (SESSION_TIMEOUT, 45_000, 60_000),
    ],
)
def test_a_setting_beyond_the_brokers_limits_counts_as_the_nearest_within(
    group_type: str, name: str, low: int, high: int
) -> None:
    """It was set while the broker had other limits."""
    setting = f"{group_type}.{name}"
    image = MetadataImage().with_group_config("low", {setting: str(max(0, low - 1))})
    image = image.with_group_config("high", {setting: str(high + 1)})
    settings = GroupSettings(group_type, GroupConfig(), lambda: image)
    assert (settings.of("low", name), settings.of("high", name)) == (low, high)


def test_a_limit_is_the_brokers_own() -> None:
    config = GroupConfig.from_broker(
        BrokerConfig.from_properties({"log.dirs": "unused", "group.consumer.max.session.timeout.ms": "50000"})
    )
    image = MetadataImage().with_group_config("g", {"consumer.session.timeout.ms": "55000"})
    assert GroupSettings("consumer", config, lambda: image).of("g", SESSION_TIMEOUT) == 50_000


def test_standby_replicas_have_a_highest_number_only() -> None:
    image = MetadataImage().with_group_config("g", {"streams.num.standby.replicas": "3"})
    assert GroupSettings("streams", GroupConfig(), lambda: image).of("g", "num.standby.replicas") == 2


def test_a_setting_without_limits_counts_as_it_is() -> None:
    image = MetadataImage().with_group_config("g", {"streams.initial.rebalance.delay.ms": "900000"})
    settings = GroupSettings("streams", GroupConfig(), lambda: image)
    assert settings.of("g", "initial.rebalance.delay.ms") == 900_000
