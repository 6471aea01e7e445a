"""What the look at a segment leaves: what was found in it, and where the log stands behind it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BadPlace:
    """Bytes that cannot be read, and the offsets that are lost with them; the end is exclusive."""

    position: int
    size: int
    offset: int
    end_offset: int
    reason: str
    at_end: bool = False
    """No batch follows in this file."""
    torn: bool = False
    """And the file ends inside a batch, or is zero from there on: what a crash leaves of a write."""
    noticed: bool = True
    """A start that reads the log again finds it too, and cuts the log there."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets that no batch has."""

    position: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Marker:
    """An abort marker that ended a transaction with records."""

    producer_id: int
    first_offset: int
    offset: int
    last_stable_offset: int
    """At most: transactions that compaction or retention took may have been open."""


@dataclass(frozen=True, slots=True)
class EpochStart:
    """A batch that has another epoch than the one before it, which ends at `previous_end`."""

    position: int
    offset: int
    epoch: int
    previous_end: int


@dataclass(slots=True)
class LogState:
    """What goes from one segment to the next."""

    next_offset: int | None = None
    """Behind the last batch; None before the first."""
    batch_end: int = 0
    """Behind the last good batch."""
    epoch: int = -1
    open_transactions: dict[int, int] = field(default_factory=dict)
    """Producer id to first offset."""
    compacted: bool = False
    """A batch has lost records: compaction was here, and gaps are no damage."""
    legacy: int | None = None
    """A message format below 2 that was found."""
    has_producers: bool = False
    batches: int = 0


@dataclass(slots=True)
class SegmentReport:
    """What was found in a segment."""

    bad: list[BadPlace] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    aborted: list[Marker] = field(default_factory=list)
    """Transactions that end here and whose records were seen."""
    abort_markers: set[tuple[int, int]] = field(default_factory=set)
    """Producer id and offset of every abort marker."""
    epochs: list[EpochStart] = field(default_factory=list)
