"""The entrances of a broker's listeners, by their security protocol."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.listener_config import ListenerConfig
from kafkapy.configs.listeners import Listener
from kafkapy.loop.clock import Clock
from kafkapy.network.channel import Channel, PlainChannel
from kafkapy.network.connection import Connection
from kafkapy.network.entrance import ANONYMOUS, Entrance, OpenEntrance
from kafkapy.security.sasl.exchange import Mechanism
from kafkapy.security.sasl.login import LoginLimits, SaslLogin
from kafkapy.security.sasl.mechanisms import LoginParts, mechanisms_of

if TYPE_CHECKING:
    import ssl

    from kafkapy.security.tls.principal_mapping import PrincipalMapping


def entrance_of(listener: Listener, config: BrokerConfig, parts: LoginParts, clock: Clock) -> Entrance:
    """The entrance of a listener.

    Raises:
        ConfigError: the settings of the listener cannot be used.
    """
    protocol = listener.protocol
    if not protocol.is_encrypted and not protocol.has_login:
        return OpenEntrance()
    return SecureEntrance(listener, config, parts, clock)


class SecureEntrance:
    """A listener that is encrypted, demands a login, or both."""

    def __init__(self, listener: Listener, config: BrokerConfig, parts: LoginParts, clock: Clock) -> None:
        """Raises ConfigError."""
        self._listener = listener
        self._config = config
        self._settings = ListenerConfig(config, listener.name)
        self._parts = parts
        self._clock = clock
        self._context: ssl.SSLContext | None = None
        self._mapping: PrincipalMapping | None = None
        self._mechanisms: dict[str, Mechanism] = {}
        self.configure()

    def configure(self) -> None:
        """Take the settings in effect, for clients that come from now on.

        Raises:
            ConfigError: they cannot be used; nothing has changed.
        """
        settings, protocol = self._settings, self._listener.protocol
        context, mapping = self._context, self._mapping
        if protocol.is_encrypted:
            from kafkapy.security.tls.context import server_context
            from kafkapy.security.tls.principal_mapping import PrincipalMapping, PrincipalMappingError

            context = server_context(settings, protocol)
            try:
                mapping = PrincipalMapping(settings["ssl.principal.mapping.rules"])
            except PrincipalMappingError as error:
                raise settings.wrong("ssl.principal.mapping.rules", str(error)) from None
        if protocol.has_login:
            self._mechanisms = mechanisms_of(settings, self._config.originals, self._parts)
        self._context, self._mapping = context, mapping

    def open(self, sock: socket.socket) -> Channel:
        """The channel of a client that has connected."""
        if self._context is None:
            return PlainChannel(sock)
        from kafkapy.network.tls_channel import TlsChannel

        return TlsChannel(sock, self._context)

    def admit(self, connection: Connection, channel: Channel) -> str | None:
        """Let a client log in, or give it the name in its certificate; return why not, or None."""
        if self._listener.protocol.has_login:
            connection.login = SaslLogin(connection, self._mechanisms, self._limits(), self._clock)
            return None
        certificate = channel.certificate
        if certificate is None or self._mapping is None:
            connection.principal = ANONYMOUS
            return None
        from kafkapy.security.tls.distinguished_name import subject_of
        from kafkapy.security.tls.principal_mapping import PrincipalMappingError

        try:
            connection.principal = f"User:{self._mapping.name_of(subject_of(certificate))}"
        except PrincipalMappingError as error:
            return str(error)
        return None

    def _limits(self) -> LoginLimits:
        settings = self._settings
        return LoginLimits(
            settings["sasl.server.max.receive.size"],
            self._config["connection.failed.authentication.delay.ms"] / 1000,
            lambda mechanism: settings.of_mechanism(mechanism)["connections.max.reauth.ms"],
        )
