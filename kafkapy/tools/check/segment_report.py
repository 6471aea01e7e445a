"""The result of checking a segment: what was found, and the state of the log after it."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkapy.storage.damage.damage import DamagedRange
from kafkapy.storage.log.txn_index import AbortedTxn


@dataclass(frozen=True, slots=True)
class BadPlace:
    """Bytes that cannot be read, and the offsets lost with them."""

    lost: DamagedRange
    reason: str
    at_end: bool = False
    """Whether no batch follows in this file."""
    torn: bool = False
    """Whether the file also ends inside a batch, or in zeros, as after a crash during a write."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets that are in no batch."""

    position: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class EpochStart:
    """A batch with another epoch than the batch before it, which ends at `previous_end`."""

    position: int
    offset: int
    epoch: int
    previous_end: int


@dataclass(slots=True)
class LogState:
    """The state of the log, carried from one segment to the next."""

    next_offset: int | None = None
    """The offset after the last batch; None before the first."""
    batch_end: int = 0
    """The offset after the last good batch."""
    epoch: int = -1
    open_transactions: dict[int, int] = field(default_factory=dict)
    """The first offset of each open transaction, by producer id."""
    compacted: bool = False
    """Whether a batch lacks records: the log was compacted, so gaps are not damage."""
    legacy: int | None = None
    """The message format 0 or 1, if the log has such messages."""
    has_producers: bool = False
    batches: int = 0


@dataclass(slots=True)
class SegmentReport:
    """The findings in a segment."""

    bad: list[BadPlace] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    aborted: list[AbortedTxn] = field(default_factory=list)
    """The aborted transactions that end here and whose records were read.

    Their last stable offsets are upper bounds: compaction or retention may have removed records of open
    transactions.
    """
    abort_markers: set[tuple[int, int]] = field(default_factory=set)
    """The producer id and the offset of every abort marker."""
    epochs: list[EpochStart] = field(default_factory=list)
