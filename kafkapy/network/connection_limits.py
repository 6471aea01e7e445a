"""Limits of connections: in total, from one address, and new ones per second.

Addresses may have rates of their own besides, which are quotas (network/connection_rates.py).

The settings are `max.connections`, `max.connections.per.ip` (with `.overrides`) and
`max.connection.creation.rate`. A connection beyond the first two is accepted and closed at once, so that its
client notices; Apache Kafka leaves connections beyond max.connections in the accept queue. Beyond the rate,
no connection is accepted until the rate allows the next one; a burst of BURST_SECONDS at the rate is allowed.
Source: Kafka's ConnectionQuotas.

The number of descriptors limits max.connections too: sockets must leave those that the logs need
(storage/disk/open_files.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kafkapy.configs.connection_overrides import parse_overrides
from kafkapy.storage.disk.open_files import share_descriptors

if TYPE_CHECKING:
    from kafkapy.network.connection_rates import ConnectionRates

BURST_SECONDS: Final = 2.0


class ConnectionLimits:
    """Counts connections against the limits.

    `configure` reads the settings again.
    """

    def __init__(self, config: Mapping[str, Any], now: float) -> None:
        self._by_address: dict[str, int] = {}
        self._total = 0
        self._rates: ConnectionRates | None = None
        """The rates of addresses, if there are any."""
        self._windows = config["quota.window.num"], config["quota.window.size.seconds"]
        self.configure(config)
        self._tokens = self._rate * BURST_SECONDS
        self._refilled = now

    def configure(self, config: Mapping[str, Any]) -> None:
        """Apply the settings."""
        self._overrides = parse_overrides(config["max.connections.per.ip.overrides"])
        self._max_total: int = config["max.connections"]
        self._total_reached = "max.connections is reached"
        room = share_descriptors(config["log.max.open.files"]).connections
        if room < self._max_total:
            self._max_total = room
            self._total_reached = (
                f"the limit of open files (ulimit -n) leaves no room for more than {room:,} connections"
            )
        self._max_per_address: int = config["max.connections.per.ip"]
        self._rate: int = config["max.connection.creation.rate"]

    def seconds_to_wait(self, now: float) -> float:
        """Return for how long the rate allows no other connection.

        If it is 0.0, the connection is counted.
        """
        self._tokens = min(self._tokens + (now - self._refilled) * self._rate, self._rate * BURST_SECONDS)
        self._refilled = now
        if self._tokens < 1:
            return (1 - self._tokens) / self._rate
        self._tokens -= 1
        return 0.0

    def set_rates(self, limits: Mapping[str | None, float]) -> None:
        """Set the connections that addresses may make in a second; None: all others."""
        if not limits:
            self._rates = None
            return
        if self._rates is None:
            from kafkapy.network.connection_rates import ConnectionRates

            self._rates = ConnectionRates(*self._windows)
        self._rates.set_limits(limits)

    def seconds_to_hold(self, address: str, now: float) -> float:
        """Return for how long a connection is held and then closed; 0.0: the rate allows it.

        Otherwise it does not count any more, though `seconds_to_wait` has counted it.
        """
        seconds = 0.0 if self._rates is None else self._rates.seconds_to_wait(address, now)
        if seconds:
            self._tokens += 1
        return seconds

    def add(self, address: str) -> str | None:
        """Count a connection from `address` and return None, or return why it is refused."""
        if self._total >= self._max_total:
            return self._total_reached
        count = self._by_address.get(address, 0)
        if count >= self._overrides.get(address, self._max_per_address):
            return "max.connections.per.ip is reached"
        self._total += 1
        self._by_address[address] = count + 1
        return None

    def remove(self, address: str) -> None:
        """Remove a closed connection from the count."""
        self._total -= 1
        count = self._by_address[address] - 1
        if count:
            self._by_address[address] = count
        else:
            del self._by_address[address]
