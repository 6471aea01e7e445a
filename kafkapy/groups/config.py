"""The settings of group coordination.

Those that are dynamic are taken over by `GroupCoordinator.configure`: `consumer_assignment_interval_ms`,
`share_assignment_interval_ms` and `streams_assignment_interval_ms`. The others are read once, at start.
Single groups may have settings of their own (`kafkapy.groups.modern.settings`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Times in milliseconds, sizes in bytes."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1_000
    offsets_retention_check_interval_ms: int = 600_000
    offsets_commit_timeout_ms: int = 5_000
    new_member_join_timeout_ms: int = 300_000
    """How long a new member may wait in JoinGroup: it cannot send heartbeats yet. Not a setting in Kafka
    either (GroupCoordinatorConfig.CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS)."""

    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_assignment_interval_ms: int = 1_000
    consumer_max_size: int = 2**31 - 1
    streams_session_timeout_ms: int = 45_000
    streams_heartbeat_interval_ms: int = 5_000
    streams_assignment_interval_ms: int = 1_000
    streams_initial_rebalance_delay_ms: int = 3_000
    streams_num_standby_replicas: int = 0
    streams_max_size: int = 2**31 - 1
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    share_session_timeout_ms: int = 45_000
    share_heartbeat_interval_ms: int = 5_000
    share_assignment_interval_ms: int = 1_000
    share_max_size: int = 200
    upgrades: bool = True
    """Whether a classic group with members may become a consumer group (group.consumer.migration.policy)."""
    downgrades: bool = True
    """Whether a consumer group with members may become a classic group."""

    def of_groups(self, group_type: str, name: str) -> int:
        """A setting that single groups may override, such as session.timeout.ms of consumer groups."""
        value: int = getattr(self, f"{group_type}_{name.replace('.', '_')}")
        return value

    @classmethod
    def from_broker(cls, config: Mapping[str, Any]) -> Self:
        """The settings of a broker configuration."""
        policy = config["group.consumer.migration.policy"].lower()
        return cls(
            min_session_timeout_ms=config["group.min.session.timeout.ms"],
            max_session_timeout_ms=config["group.max.session.timeout.ms"],
            initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
            max_size=config["group.max.size"],
            offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
            offsets_retention_ms=config["offsets.retention.minutes"] * 60_000,
            offsets_retention_check_interval_ms=config["offsets.retention.check.interval.ms"],
            offsets_commit_timeout_ms=config["offsets.commit.timeout.ms"],
            consumer_session_timeout_ms=config["group.consumer.session.timeout.ms"],
            consumer_heartbeat_interval_ms=config["group.consumer.heartbeat.interval.ms"],
            consumer_assignment_interval_ms=config["group.consumer.assignment.interval.ms"],
            consumer_max_size=config["group.consumer.max.size"],
            consumer_assignors=tuple(config["group.consumer.assignors"]),
            share_session_timeout_ms=config["group.share.session.timeout.ms"],
            share_heartbeat_interval_ms=config["group.share.heartbeat.interval.ms"],
            share_assignment_interval_ms=config["group.share.assignment.interval.ms"],
            share_max_size=config["group.share.max.size"],
            streams_session_timeout_ms=config["group.streams.session.timeout.ms"],
            streams_heartbeat_interval_ms=config["group.streams.heartbeat.interval.ms"],
            streams_assignment_interval_ms=config["group.streams.assignment.interval.ms"],
            streams_initial_rebalance_delay_ms=config["group.streams.initial.rebalance.delay.ms"],
            streams_num_standby_replicas=config["group.streams.num.standby.replicas"],
            streams_max_size=config["group.streams.max.size"],
            upgrades=policy in ("bidirectional", "upgrade"),
            downgrades=policy in ("bidirectional", "downgrade"),
        )
