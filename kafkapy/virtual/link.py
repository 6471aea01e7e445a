"""The network between ends, as a test changes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from kafkapy.virtual.network import Network


class Link:
    """The ways between two ends, or between one and all others.

    What one end sends reaches the other in order, as TCP has it. As a context manager, it heals at the end.
    """

    def __init__(
        self,
        network: Network,
        ways: Sequence[tuple[str, str]],
        changed: Callable[[], object],
        were_reset: Callable[[Sequence[tuple[str, str]]], object],
    ) -> None:
        """`ways` are pairs of a sender and a receiver.

        `changed` is called after a change, and `were_reset` with the ways of a reset.
        """
        self._network = network
        self._ways = ways
        self._changed = changed
        self._were_reset = were_reset

    def cut(self) -> Self:
        """Hold back what is sent, until `heal`: neither end is told."""
        return self._change("cut", is_cut=True)

    def slow(self, *, latency: float = 0.0, bandwidth: float | None = None) -> Self:
        """Let what is sent take longer.

        Args:
            latency: seconds, on each way.
            bandwidth: bytes a second on each way, of all connections together; None for any number.

        Raises:
            ValueError: one of them is negative or no number, the latency has no end, or the bandwidth is 0.
        """
        if not 0 <= latency < math.inf or not (bandwidth is None or bandwidth > 0):
            raise ValueError(
                f"latency={latency:g}, bandwidth={bandwidth}: expected seconds, and bytes a second;"
                " cut() holds everything back"
            )
        return self._change(f"slow {latency:g} {bandwidth}", latency=latency, bandwidth=bandwidth)

    def lose(self, share: float) -> Self:
        """Lose a share of what is sent, which TCP sends again after 0.2 s, 0.4 s and so on.

        What was sent later by the same connection waits for it. A request for a connection may be lost, too.

        Raises:
            ValueError: the share is not from 0 to below 1.
        """
        if not 0 <= share < 1:
            raise ValueError(f"lose({share:g}): expected a share from 0 to below 1; cut() loses everything")
        return self._change(f"loses {share:g}", loss=share)

    def reset(self) -> None:
        """End all present connections at once, at both ends, and lose what is on its way."""
        self._note("reset")
        for sender, to in self._ways:
            self._network.reset(sender, to)
        self._were_reset(self._ways)

    def heal(self) -> None:
        """Let everything go as usual; what was held back or is late arrives now."""
        self._note("heals")
        for way in self._ways:
            self._network.heal(*way)
        self._changed()

    def _change(self, what: str, **changes: float | bool | None) -> Self:
        self._note(what)
        for sender, to in self._ways:
            way = self._network.way(sender, to)
            for name, value in changes.items():
                setattr(way, name, value)
        self._changed()
        return self

    def _note(self, what: str) -> None:
        self._network.world.fault("link", what, *map("->".join, self._ways))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()
