"""The settings of the groups of one type.

A group may have its own, in the metadata image, within the limits of the broker; where it has none, the
broker's count. They are looked up when they are needed, so a change counts at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkapy.configs.groups import within_limits
from kafkapy.groups.config import GroupConfig
from kafkapy.metadata.image import MetadataImage

ASSIGNMENT_INTERVAL: Final = "assignment.interval.ms"
HEARTBEAT_INTERVAL: Final = "heartbeat.interval.ms"
SESSION_TIMEOUT: Final = "session.timeout.ms"


class GroupSettings:
    """Looks up the settings of groups."""

    def __init__(self, group_type: str, config: GroupConfig, image: Callable[[], MetadataImage]) -> None:
        """`group_type` is consumer, share or streams; `image` returns the present metadata."""
        self.config = config
        """The broker's. Another one takes its place when a dynamic setting changes."""
        self._group_type = group_type
        self._image = image

    def of(self, group_id: str, name: str) -> int:
        """A setting of a group, such as SESSION_TIMEOUT."""
        setting = f"{self._group_type}.{name}"
        own = self._image().group_configs.get(group_id, {}).get(setting)
        if own is None:
            return self.config.of_groups(self._group_type, name)
        return within_limits(setting, int(own), self.config.limits)
