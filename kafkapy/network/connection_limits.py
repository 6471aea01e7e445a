"""Limits of connections: in total, by listener, by address, and new ones in a second.

The settings are `max.connections` and `max.connection.creation.rate`, of the broker and of its listeners
(`listener.name.…`), and `max.connections.per.ip` (with `.overrides`). A connection beyond one of the first
kind or the last is accepted and closed at once, so that its client notices; Apache Kafka leaves connections
beyond max.connections in the accept queue. Beyond a rate, no connection is accepted until the rate allows the
next one; a burst of BURST_SECONDS at the rate is allowed. Addresses may have rates besides, which are quotas
(network/connection_rates.py). Source: Kafka's ConnectionQuotas.

The number of descriptors limits max.connections too: sockets must leave those that the logs need
(storage/disk/open_files.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.connection_overrides import parse_overrides
from kafkapy.configs.listener_config import ListenerConfig
from kafkapy.storage.disk.open_files import share_descriptors

if TYPE_CHECKING:
    from kafkapy.network.connection_rates import ConnectionRates

BURST_SECONDS: Final = 2.0

_UNLIMITED: Final = 2**31 - 1


class _Limit:
    """How many connections the broker or a listener has, and how many it may have."""

    def __init__(self, rate: int, now: float) -> None:
        self.count = 0
        self.most = _UNLIMITED
        self.rate = rate
        self._tokens = rate * BURST_SECONDS
        self._refilled = now

    def seconds_to_wait(self, now: float) -> float:
        """For how long the rate allows no other connection."""
        self._tokens = min(self._tokens + (now - self._refilled) * self.rate, self.rate * BURST_SECONDS)
        self._refilled = now
        return (1 - self._tokens) / self.rate if self._tokens < 1 else 0.0

    def take(self, connections: int) -> None:
        """Count connections that come; fewer than 0 do not count any more."""
        self._tokens -= connections


class ConnectionLimits:
    """Counts connections against the limits.

    `configure` reads the settings again.
    """

    def __init__(self, config: BrokerConfig, now: float) -> None:
        self._by_address: dict[str, int] = {}
        self._broker = _Limit(config["max.connection.creation.rate"], now)
        self._listeners = {each.name: _Limit(_rate_of(config, each.name), now) for each in config.listeners}
        """By the name of the listener."""
        self._rates: ConnectionRates | None = None
        """The rates of addresses, if there are any."""
        self._windows = config["quota.window.num"], config["quota.window.size.seconds"]
        self.configure(config)

    def configure(self, config: BrokerConfig) -> None:
        """Apply the settings."""
        self._overrides = parse_overrides(config["max.connections.per.ip.overrides"])
        self._broker.most = config["max.connections"]
        self._total_reached = "max.connections is reached"
        room = share_descriptors(config["log.max.open.files"]).connections
        if room < self._broker.most:
            self._broker.most = room
            self._total_reached = (
                f"the limit of open files (ulimit -n) leaves no room for more than {room:,} connections"
            )
        self._max_per_address: int = config["max.connections.per.ip"]
        self._broker.rate = config["max.connection.creation.rate"]
        for name, limit in self._listeners.items():
            most = ListenerConfig(config, name).own("max.connections")
            limit.most = _UNLIMITED if most is None else most
            limit.rate = _rate_of(config, name)

    def seconds_to_wait(self, listener: str, now: float) -> tuple[float, float]:
        """Return for how long the rates of the broker and of a listener allow no other connection.

        If both are 0.0, the connection is counted.
        """
        of_broker, of_listener = self._broker, self._listeners[listener]
        seconds = of_broker.seconds_to_wait(now), of_listener.seconds_to_wait(now)
        if seconds == (0.0, 0.0):
            of_broker.take(1)
            of_listener.take(1)
        return seconds

    def set_rates(self, limits: Mapping[str | None, float]) -> None:
        """Set the connections that addresses may make in a second; None: all others."""
        if not limits:
            self._rates = None
            return
        if self._rates is None:
            from kafkapy.network.connection_rates import ConnectionRates

            self._rates = ConnectionRates(*self._windows)
        self._rates.set_limits(limits)

    def seconds_to_hold(self, listener: str, address: str, now: float) -> float:
        """Return for how long a connection is held and then closed; 0.0: the rate allows it.

        Otherwise it does not count any more, though `seconds_to_wait` has counted it.
        """
        seconds = 0.0 if self._rates is None else self._rates.seconds_to_wait(address, now)
        if seconds:
            self._broker.take(-1)
            self._listeners[listener].take(-1)
        return seconds

    def add(self, listener: str, address: str) -> str | None:
        """Count a connection from `address` and return None, or return why it is refused."""
        of_listener = self._listeners[listener]
        if self._broker.count >= self._broker.most:
            return self._total_reached
        if of_listener.count >= of_listener.most:
            return f"listener.name.{listener.lower()}.max.connections is reached"
        count = self._by_address.get(address, 0)
        if count >= self._overrides.get(address, self._max_per_address):
            return "max.connections.per.ip is reached"
        self._broker.count += 1
        of_listener.count += 1
        self._by_address[address] = count + 1
        return None

    def remove(self, listener: str, address: str) -> None:
        """Remove a closed connection from the count."""
        self._broker.count -= 1
        self._listeners[listener].count -= 1
        count = self._by_address[address] - 1
        if count:
            self._by_address[address] = count
        else:
            del self._by_address[address]


def _rate_of(config: BrokerConfig, listener: str) -> int:
    """The connections that may come to a listener in a second."""
    rate: Any = ListenerConfig(config, listener).own("max.connection.creation.rate")
    return _UNLIMITED if rate is None else int(rate)
