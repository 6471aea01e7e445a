"""Listeners and advertised listeners, as Kafka writes them: `NAME://host:port`.

IPv6 hosts are in brackets. An empty host listens on all interfaces; port 0 takes a free port. A listener's
name maps to a security protocol (`listener.security.protocol.map`; a protocol's own name maps to itself).

If a listener is not advertised, a client is given the address to which it has connected. So localhost, a
container's address and a host name all work without configuration.

Source: Kafka's SocketServerConfigs.listenerListToEndPoints.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kafkapy.configs.keys import ConfigError
from kafkapy.configs.security_protocol import SecurityProtocol

_ADDRESS: Final = r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\[\]:/\s]*)):([0-9]{1,5})"
_URI: Final = re.compile(rf"([^\s:/,=]+)://{_ADDRESS}")
WILDCARDS: Final = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Listener:
    """An address on which the broker listens.

    `host` "" is every interface, `port` 0 a free port.
    """

    name: str
    host: str
    port: int
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    """The security protocol of its connections."""

    def __str__(self) -> str:
        return f"{self.name}://{format_address(self.host, self.port)}"


def format_address(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(option: str, text: str) -> tuple[str, int]:
    """The host and port of `text`.

    Raises ConfigError.
    """
    match = re.fullmatch(_ADDRESS, text)
    if match is None or int(match[3]) > 65535:
        raise ConfigError(f"{option} {text}: expected HOST:PORT, such as 127.0.0.1:9092")
    return match[1] or match[2], int(match[3])


def parse_listeners(setting: str, items: Iterable[str]) -> tuple[Listener, ...]:
    """The listeners of a setting's items.

    Raises ConfigError for a malformed or repeated one.
    """
    listeners: dict[str, Listener] = {}
    for item in items:
        match = _URI.fullmatch(item)
        if match is None or int(match[4]) > 65535:
            raise ConfigError(
                f"{setting}={item}: expected NAME://HOST:PORT, such as PLAINTEXT://localhost:9092"
            )
        name = match[1].upper()
        if name in listeners:
            raise ConfigError(
                f"{setting}: the listener name {name} is given twice; give each listener its own"
            )
        listeners[name] = Listener(name, match[2] or match[3], int(match[4]))
    return tuple(listeners.values())


def parse_protocol_map(text: str) -> dict[str, SecurityProtocol]:
    """`listener.security.protocol.map`: security protocol by listener name; raises ConfigError."""
    protocols = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, separator, protocol = item.partition(":")
        if not separator:
            raise ConfigError(f"listener.security.protocol.map={item}: expected NAME:PROTOCOL")
        try:
            protocols[name.strip().upper()] = SecurityProtocol(protocol.strip().upper())
        except ValueError:
            raise ConfigError(
                f"listener.security.protocol.map={item}: expected one of {', '.join(SecurityProtocol)}"
            ) from None
    return protocols


def check_listeners(
    listeners: Iterable[Listener], advertised: Iterable[Listener], protocols: Mapping[str, SecurityProtocol]
) -> None:
    """Raise ConfigError, in one line with the remedy, for listeners that cannot work."""
    names = {listener.name for listener in listeners}
    if not names:
        raise ConfigError("listeners: name at least one, such as PLAINTEXT://localhost:9092")
    for name in sorted(names):
        if name not in protocols:
            raise ConfigError(
                f"listeners: {name} has no security protocol; "
                f"add {name}:PLAINTEXT to listener.security.protocol.map"
            )
    for listener in advertised:
        if listener.name not in names:
            raise ConfigError(
                f"advertised.listeners: {listener.name} is not one of the listeners ({_list(names)})"
            )
        if listener.host in WILDCARDS:
            raise ConfigError(
                f"advertised.listeners: clients cannot connect to {listener.host}; "
                "advertise a name or address they can reach"
            )


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
