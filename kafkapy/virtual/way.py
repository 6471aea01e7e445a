"""What the network between two hosts does to what one of them sends to the other."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

FIRST_RETRANSMISSION: Final = 0.2
"""The seconds after which TCP sends again what was lost (RTO_MIN of Linux); each further time takes twice as
long."""
LONGEST_RETRANSMISSION: Final = 120.0
"""The most seconds between two of them (RTO_MAX)."""


@dataclass(slots=True)
class Way:
    """The way from one host to another."""

    is_cut: bool = False
    latency: float = 0.0
    """Seconds."""
    bandwidth: float | None = None
    """Bytes a second, of all connections together; None for any number."""
    loss: float = 0.0
    """The share of what is sent that is lost, and sent again."""
    free_at: float = 0.0
    """When the last byte is sent that was given to it."""

    def earliest(self, now: float, nbytes: int, chance: random.Random) -> float:
        """When so many bytes arrive at the earliest that are sent now."""
        at = now
        if self.bandwidth is not None:
            at = self.free_at = max(now, self.free_at) + nbytes / self.bandwidth
        at += self.latency
        again = FIRST_RETRANSMISSION
        while self.loss and chance.random() < self.loss:
            at += again
            again = min(2 * again, LONGEST_RETRANSMISSION)
        return at
