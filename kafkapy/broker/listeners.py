"""The listeners of a broker: bound early in its start, and registered for its clients."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from kafkapy.broker.start import Start
from kafkapy.broker.workers import Workers
from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.listeners import WILDCARDS, Listener
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.metadata.znodes import Endpoint
from kafkapy.network.entrance import Entrance, OpenEntrance
from kafkapy.network.server import Server

if TYPE_CHECKING:
    from kafkapy.logins import ScramCredential
    from kafkapy.security.sasl.mechanisms import LoginParts
    from kafkapy.security.sasl.scram_credential import ScramMechanism
    from kafkapy.security.token_cache import TokenCache


def listen(start: Start, workers: Workers, tokens: TokenCache | None) -> Server:
    """Bind the listeners.

    Clients queue until the server accepts them. A port in use is the most common mistake, and is found before
    anything is changed. Ephemeral ports are known from here on.

    Raises:
        ConfigError: the security of a listener cannot be set up.
        ListenError: an address cannot be used.
    """
    config, machine = start.config, start.machine
    loop = asyncio.get_running_loop()
    server = machine.server(config, loop, workers.validation, workers.cold_reads, workers.handshakes)
    start.started.callback(server.close)
    # Few brokers of tests need the code of logins.
    is_open = all(listener.protocol is SecurityProtocol.PLAINTEXT for listener in config.listeners)
    parts = None if is_open else _login_parts(start, workers, tokens)
    server.bind((listener, _entrance(listener, start, parts)) for listener in config.listeners)
    config.on_change(server.configure)
    return server


def _login_parts(start: Start, workers: Workers, tokens: TokenCache | None) -> LoginParts:
    """What all listeners with logins share."""
    from kafkapy.security.sasl.mechanisms import LoginParts
    from kafkapy.security.sasl.unknown_users import UnknownUsers
    from kafkapy.security.sasl.users import credentials_of

    metadata = start.metadata

    async def find(mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return credentials_of(metadata.image, user).get(mechanism)

    return LoginParts(
        find,
        workers.threads.costly,
        UnknownUsers(metadata, workers.turns.finish),
        tokens,
    )


def _entrance(listener: Listener, start: Start, parts: LoginParts | None) -> Entrance:
    """How clients come in by a listener; raises ConfigError."""
    if listener.protocol is SecurityProtocol.PLAINTEXT:
        return OpenEntrance()
    assert parts is not None
    from kafkapy.security.entrances import SecureEntrance

    entrance = SecureEntrance(listener, start.config, parts, start.machine.clock, start.certificate_names)
    start.config.on_change(entrance.follow)
    return entrance


def endpoints(config: BrokerConfig, server: Server) -> list[Endpoint]:
    """The endpoints that a broker registers: its advertised listeners, or its listeners.

    A listener on all addresses of a broker alone has no host: each client is told the address by which it
    reached the broker.
    """
    advertised = {listener.name: listener for listener in config.advertised_listeners}
    found = []
    for listener in server.listening:
        shown = advertised.get(listener.name)
        host, port = (shown.host, shown.port or listener.port) if shown else (listener.host, listener.port)
        if host in ("", *WILDCARDS):
            host = socket.getfqdn() if config.clustered else ""
        found.append(Endpoint(listener.name, host, port, listener.protocol))
    return found


def inner_endpoint(config: BrokerConfig, registered: list[Endpoint]) -> Endpoint | None:
    """Where other brokers reach a broker with these endpoints."""
    inner = config.inter_broker_listener
    return next((each for each in registered if each.listener == inner), None)
