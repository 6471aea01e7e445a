"""The settings of one topic that storage needs, with their types.

Names, defaults and valid values are those of Apache Kafka 4.3's LogConfig and TopicConfig. The broker
validates the settings of clients first; `from_mapping` takes their texts without a check.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

NEVER = 2**63 - 1
"""Kafka's value for a time or a count without a limit."""


def _boolean(text: str) -> bool:
    return text.strip().lower() == "true"


def _words(text: str) -> frozenset[str]:
    return frozenset(word for part in text.split(",") if (word := part.strip()))


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of a topic that its logs use.

    Times are milliseconds, sizes are bytes, and -1 means no limit.
    """

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = NEVER
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = NEVER
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    is_compacted: bool = field(init=False, repr=False, compare=False)
    """Whether records are kept by key, so that every record needs one."""
    max_segment_ms: int = field(init=False, repr=False, compare=False)
    """The age at which a segment is closed: the active segment is not compacted (KIP-354)."""

    def __post_init__(self) -> None:
        """Derive what every append asks."""
        is_compacted = "compact" in self.cleanup_policy
        lag_ms = max(self.max_compaction_lag_ms, 1) if is_compacted else NEVER
        object.__setattr__(self, "is_compacted", is_compacted)
        object.__setattr__(self, "max_segment_ms", min(self.segment_ms, lag_ms))

    @property
    def deletes(self) -> bool:
        """Whether old segments are deleted by time and size."""
        return "delete" in self.cleanup_policy

    def random_segment_jitter(self) -> int:
        """The random time by which one segment rolls earlier than segment.ms.

        It keeps partitions that are created together from rolling together.
        """
        if self.segment_jitter_ms == 0:
            return 0
        return random.randrange(min(self.segment_jitter_ms, self.segment_ms))

    @classmethod
    def from_mapping(cls, settings: Mapping[str, str]) -> LogConfig:
        """The configuration with these settings, and defaults for the others.

        `settings` maps Kafka's dotted names to text. Settings that storage does not use are ignored.
        """
        return cls(
            **{name: parse(settings[key]) for key, name, parse in _SETTINGS if key in settings}  # type: ignore[arg-type]
        )


_PARSERS: dict[str, Callable[[str], object]] = {
    "bool": _boolean,
    "float": float,
    "frozenset[str]": _words,
    "int": int,
    "str": str,
}

_SETTINGS = [
    (setting.name.replace("_", "."), setting.name, _PARSERS[str(setting.type)])
    for setting in fields(LogConfig)
    if setting.init
]
