"""How many connections each address may make in a second.

The rates are those that `connection_creation_rate` sets for addresses (KIP-612). A connection beyond the rate
does not count. It is closed after the time that the rate takes to fall to the limit, a window at most, so
that its client does not come back at once.

The number of addresses that are measured is bounded: beyond MOST, the one that came the longest time ago is
forgotten, as is one that has not come for an hour. Source: Kafka's ConnectionQuotas.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from kafkapy.quotas.rate import Rate

MOST: Final = 10_000
IDLE_MS: Final = 3_600_000


class _Address:
    """What is measured of one address."""

    __slots__ = ("came_ms", "rate")

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self.came_ms = 0


class ConnectionRates:
    """The rates of all addresses."""

    def __init__(self, windows: int, seconds: int) -> None:
        """Measure over `windows` windows of `seconds` each."""
        self._windows = windows
        self._window_ms = seconds * 1000
        self._limits: dict[str | None, float] = {}
        self._measured: OrderedDict[str, _Address] = OrderedDict()
        """Those that came last are last."""

    def __len__(self) -> int:
        return len(self._measured)

    def set_limits(self, limits: Mapping[str | None, float]) -> None:
        """Set the connections in a second, by address; None: all others."""
        self._limits = {None if each is None else _plain(each): limit for each, limit in limits.items()}

    def seconds_to_wait(self, address: str, now: float) -> float:
        """Count a connection and return 0.0, or return how long it is to wait before it is closed."""
        address = _plain(address)
        limit = self._limits.get(address, self._limits.get(None))
        if limit is None:
            return 0.0
        now_ms = int(now * 1000)
        measured = self._measured.pop(address, None)
        if measured is None:
            self._make_room(now_ms)
            measured = _Address(Rate(self._windows, self._window_ms))
        self._measured[address] = measured
        measured.came_ms = now_ms
        measured.rate.record(1, now_ms)
        throttle_ms = self._window_ms
        if limit > 0:
            throttle_ms = min(measured.rate.throttle_ms(limit, now_ms), self._window_ms)
        if throttle_ms > 0:
            measured.rate.record(-1, now_ms)
        return throttle_ms / 1000

    def _make_room(self, now_ms: int) -> None:
        while self._measured:
            address, oldest = next(iter(self._measured.items()))
            if len(self._measured) < MOST and now_ms - oldest.came_ms < IDLE_MS:
                return
            del self._measured[address]


def _plain(address: str) -> str:
    """An address as the kernel writes it."""
    try:
        return str(ipaddress.ip_address(address)).removeprefix("::ffff:")
    except ValueError:
        return address
