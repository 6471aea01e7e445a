"""The plan, the limits and the statistics of a pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkapy.storage.cleaning.offset_map import LOAD_FACTOR
from kafkapy.storage.log.log_config import LogConfig
from kafkapy.storage.log.producers import ProducerEntry
from kafkapy.storage.log.txn_index import AbortedTxn

_LARGEST_BATCH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """A closed segment, as it was when the pass was planned."""

    base_offset: int
    end_offset: int
    """The base offset of the next segment."""
    size: int


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """The state of a log that a pass needs, copied on the event loop."""

    directory: str
    config: LogConfig
    segments: tuple[SourceSegment, ...]
    """The segments from the log's first to the last that may be compacted."""
    first_dirty_offset: int
    aborted: tuple[AbortedTxn, ...]
    """The aborted transactions with records in these segments."""
    producers: Mapping[int, ProducerEntry]
    """The producers at that time. These entries never change."""
    now_ms: int

    @property
    def end_offset(self) -> int:
        return self.segments[-1].end_offset


@dataclass(slots=True)
class CleaningLimits:
    """The memory that a pass may use."""

    map_bytes: int
    load_factor: float = LOAD_FACTOR
    max_decompressed: int = _LARGEST_BATCH


@dataclass(slots=True)
class CleaningStats:
    """The statistics of a pass."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0
    map_utilization: float = 0.0
    """The used share of the offset map, at most 1."""
