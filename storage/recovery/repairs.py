"""The repairs by which recovery removes records from a log.

Recovery logs each and calls a listener with it. `kafkapy check` listens to a trial of the next start
(storage/offline/next_start.py) and reports them as findings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Truncated(NamedTuple):
    """A segment was truncated before its first bad batch, and later segments were removed."""

    path: str
    position: int
    nbytes: int
    """How many bytes of the segment were removed."""
    offset: int
    """The log end offset from then on."""
    later: int
    reason: str


class Gap(NamedTuple):
    """A segment and all after it were removed, because it begins above the end of the log."""

    path: str
    base_offset: int
    offset: int
    """The log end offset from then on."""
    segments: int


class Emptied(NamedTuple):
    """All segments were removed, because they end below the log start offset."""

    offset: int


Repair = Truncated | Gap | Emptied
Listener = Callable[[Repair], None]


def nobody(_: Repair) -> None:
    """Do nothing; recovery logs the repair itself."""
