"""The settings of groups: a group's own, else the broker's."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
    image = image.with_group_config("g", {f"{group_type}.{name}": "80"})
    assert (settings.of("g", name), settings.of("h", name)) == (80, 70)
