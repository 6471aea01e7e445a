"""The network between ends, as a test changes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from kafkapy.virtual.network import Network


class Link:
    """The ways between two ends, or between one and all others.

    What one end sends reaches the other in order, as TCP has it. As a context manager, it heals at the end.
    """

    def __init__(
        self, network: Network, ways: Sequence[tuple[str, str]], changed: Callable[[], object]
    ) -> None:
        """`ways` are pairs of a sender and a receiver; `changed` is called after a change."""
        self._network = network
        self._names = ways
        self._changed = changed

    def cut(self) -> Self:
        """Hold back what is sent, until `heal`: neither end is told."""
        return self._change("cut", is_cut=True)

    def slow(self, *, latency: float = 0.0, bandwidth: float | None = None) -> Self:
        """Let what is sent take longer.

        Args:
            latency: seconds, on each way.
            bandwidth: bytes a second on each way, of all connections together; None for any number.

        Raises:
            ValueError: one of them is negative, or the bandwidth is 0.
        """
        if latency < 0 or (bandwidth is not None and bandwidth <= 0):
            raise ValueError(f"latency={latency:g}, bandwidth={bandwidth}: expected more than 0")
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
        self._network.world.fault("link", "reset", *map("->".join, self._names))
        for sender, to in self._names:
            self._network.reset(sender, to)

    def heal(self) -> None:
        """Let everything go as usual; what was held back arrives."""
        self._change("heals", is_cut=False, latency=0.0, bandwidth=None, loss=0.0)

    def _change(self, what: str, **changes: float | bool | None) -> Self:
        self._network.world.fault("link", what, *map("->".join, self._names))
        for sender, to in self._names:
            way = self._network.way(sender, to)
            for name, value in changes.items():
                setattr(way, name, value)
        self._network.release()
        self._changed()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()
