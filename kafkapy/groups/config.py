"""The settings of group coordination.

Those that are dynamic are taken over by `GroupCoordinator.configure`: `consumer_assignment_interval_ms`,
`share_assignment_interval_ms` and `streams_assignment_interval_ms`. The others are read once, at start.
Single groups may have settings of their own (`kafkapy.groups.modern.settings`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from kafkapy.configs.groups import names_of_limits
from kafkapy.configs.part_config import part_config, setting, settings

_MIGRATION_POLICY: Final = "group.consumer.migration.policy"


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Times in milliseconds, sizes in bytes."""

    min_session_timeout_ms: int = setting("group.min.session.timeout.ms")
    max_session_timeout_ms: int = setting("group.max.session.timeout.ms")
    initial_rebalance_delay_ms: int = setting("group.initial.rebalance.delay.ms")
    max_size: int = setting("group.max.size")
    offset_metadata_max_bytes: int = setting("offset.metadata.max.bytes")
    offsets_retention_ms: int = setting("offsets.retention.minutes", lambda minutes: minutes * 60_000)
    offsets_retention_check_interval_ms: int = setting("offsets.retention.check.interval.ms")
    offsets_commit_timeout_ms: int = setting("offsets.commit.timeout.ms")
    consumer_session_timeout_ms: int = setting("group.consumer.session.timeout.ms")
    consumer_heartbeat_interval_ms: int = setting("group.consumer.heartbeat.interval.ms")
    consumer_assignment_interval_ms: int = setting("group.consumer.assignment.interval.ms")
    consumer_max_size: int = setting("group.consumer.max.size")
    consumer_assignors: tuple[str, ...] = setting("group.consumer.assignors", tuple)
    share_session_timeout_ms: int = setting("group.share.session.timeout.ms")
    share_heartbeat_interval_ms: int = setting("group.share.heartbeat.interval.ms")
    share_assignment_interval_ms: int = setting("group.share.assignment.interval.ms")
    share_max_size: int = setting("group.share.max.size")
    streams_session_timeout_ms: int = setting("group.streams.session.timeout.ms")
    streams_heartbeat_interval_ms: int = setting("group.streams.heartbeat.interval.ms")
    streams_assignment_interval_ms: int = setting("group.streams.assignment.interval.ms")
    streams_initial_rebalance_delay_ms: int = setting("group.streams.initial.rebalance.delay.ms")
    streams_num_standby_replicas: int = setting("group.streams.num.standby.replicas")
    streams_max_size: int = setting("group.streams.max.size")
    upgrades: bool = setting(_MIGRATION_POLICY, lambda policy: policy.lower() in ("bidirectional", "upgrade"))
    """Whether a classic group with members may become a consumer group."""
    downgrades: bool = setting(
        _MIGRATION_POLICY, lambda policy: policy.lower() in ("bidirectional", "downgrade")
    )
    """Whether a consumer group with members may become a classic group."""
    limits: Mapping[str, int] = settings(names_of_limits)
    """The limits of what single groups may override, by the names of broker settings."""

    def of_groups(self, group_type: str, name: str) -> int:
        """A setting that single groups may override, such as session.timeout.ms of consumer groups."""
        value: int = getattr(self, f"{group_type}_{name.replace('.', '_')}")
        return value

    @classmethod
    def from_broker(cls, config: Mapping[str, Any]) -> Self:
        """The settings of a broker configuration."""
        return part_config(cls, config)
