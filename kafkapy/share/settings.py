"""The settings of share groups that leaders of partitions obey.

A group may have its own, in the metadata image, within the limits of the broker; where it has none, the
broker's count. They are looked up when they are needed, so a change counts at once. Source: Apache Kafka's
ShareGroupConfig, ShareGroupConfigProvider.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from kafkapy.configs.groups import within_limits
from kafkapy.configs.keys import group_keys
from kafkapy.metadata.image import MetadataImage
from kafkapy.share.share_partition import ShareLimits

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_UNITS_MS: Final = {"D": 86_400_000, "H": 3_600_000, "M": 60_000, "S": 1_000}
_PARTS: Final = re.compile(r"([0-9]+(?:[.,][0-9]*)?)([DHMS])", re.IGNORECASE)


class ShareSettings:
    """Looks up the settings of share groups."""

    def __init__(self, config: Mapping[str, Any], image: Callable[[], MetadataImage]) -> None:
        """`config` are the broker's settings, and `image` returns the present metadata."""
        self._config = config
        self._image = image

    def _value(self, group_id: str, name: str) -> Any:
        key = group_keys()[f"share.{name}"]
        own = self._image().group_configs.get(group_id, {}).get(key.name)
        if own is not None:
            value = key.parse(own)
            return within_limits(key.name, value, self._config) if key.type == "INT" else value
        return self._config[key.synonyms[0]] if key.synonyms else key.parse(key.default)

    def limits(self, group_id: str) -> ShareLimits:
        """The limits of a group's share partitions."""
        return ShareLimits(
            delivery_count=self._value(group_id, "delivery.count.limit"),
            records=self._value(group_id, "partition.max.record.locks"),
            lock_seconds=self.lock_ms(group_id) / 1000,
            may_renew=self._value(group_id, "renew.acknowledge.enable"),
        )

    def lock_ms(self, group_id: str) -> int:
        """How long a record is locked for the member that acquired it, in milliseconds."""
        value: int = self._value(group_id, "record.lock.duration.ms")
        return value

    def reads_committed(self, group_id: str) -> bool:
        """Whether the group is not given records of open and aborted transactions."""
        return bool(self._value(group_id, "isolation.level") == "read_committed")

    def begins_at(self, group_id: str) -> str | int:
        """Where a group begins: EARLIEST, LATEST, or so many milliseconds ago."""
        value: str = self._value(group_id, "auto.offset.reset")
        if value.lower() in (EARLIEST, LATEST):
            return value.lower()
        _, _, duration = value.partition(":")
        return sum(
            round(float(number.replace(",", ".")) * _UNITS_MS[unit.upper()])
            for number, unit in _parts(duration)
        )


def _parts(duration: str) -> list[tuple[str, str]]:
    """The numbers and units of a duration in ISO 8601, such as PT1H30M."""
    return [(found[1], found[2]) for found in _PARTS.finditer(duration)]
