"""What is read of a data directory, and where it starts and ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkapy.log.record_filter import ALL_RECORDS, RecordFilter
from kafkapy.log.splits import RANGE_BYTES
from kafkapy.protocol.special_timestamps import EARLIEST, LATEST
from kafkapy.protocol.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a read starts or ends; `name` is what the caller calls it."""

    name: str
    everywhere: int
    """EARLIEST or LATEST, for every partition."""
    timestamp: int | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    """The offset of every partition, which may be EARLIEST or LATEST."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The topics, the bounds, and how records are shown."""

    paths: tuple[str, ...]
    """The data directories: paths, or URLs of object stores (places.py)."""
    topics: tuple[str, ...] = ()
    """The topics by name, if there is no pattern."""
    pattern: str | None = None
    """Matches the names of the topics (patterns.py); those that brokers keep for themselves do not count."""
    partitions: frozenset[TopicPartition] | None = None
    """The partitions of the topics; None: all."""
    starting: Bound = Bound("startingOffsets", EARLIEST)
    ending: Bound = Bound("endingOffsets", LATEST)
    only: RecordFilter = ALL_RECORDS
    """The records that are wanted of all these."""
    read_committed: bool = True
    include_headers: bool = True
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    min_splits: int = 1
    """Into how many tasks the work is divided, if it is large enough."""
    range_bytes: int = RANGE_BYTES
    """About how many bytes of a log are read as one piece."""
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """How stores are reached, which may be secret (store_files.py)."""
