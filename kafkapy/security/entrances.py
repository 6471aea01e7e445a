"""The entrances of a broker's listeners, by their security protocol."""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigError
from kafkapy.configs.listener_config import ListenerConfig
from kafkapy.configs.listeners import Listener
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.loop.clock import Clock
from kafkapy.network.channel import Channel, PlainChannel
from kafkapy.network.connection import Connection
from kafkapy.network.entrance import ANONYMOUS
from kafkapy.security.sasl.exchange import Mechanism
from kafkapy.security.sasl.login import LoginLimits, SaslLogin
from kafkapy.security.sasl.mechanisms import LoginParts, login_modules, mechanisms_of

if TYPE_CHECKING:
    from kafkapy.security.tls.certificate_names import CertificateNames

logger = logging.getLogger(__name__)


def check_listeners(config: BrokerConfig, in_use: Mapping[str, CertificateNames]) -> None:
    """Load the keys and certificates of all listeners, and those of links to other brokers.

    Read the JAAS lines, too. `in_use` are the names in the certificates of the listeners now.

    Raises:
        ConfigError: some cannot be used.
    """
    for listener in config.listeners:
        if listener.protocol.is_encrypted:
            Tls(ListenerConfig(config, listener.name), listener.protocol, in_use.get(listener.name))
        if listener.protocol.has_login:
            login_modules(ListenerConfig(config, listener.name))
    if config.clustered and config.inter_broker_protocol.is_encrypted:
        from kafkapy.security.tls.context import client_context

        client_context(ListenerConfig(config, config.inter_broker_listener))


class Tls:
    """How the clients of a listener are encrypted, and named by their certificates."""

    def __init__(
        self, settings: ListenerConfig, protocol: SecurityProtocol, in_use: CertificateNames | None
    ) -> None:
        """`in_use` are the names in the certificate until now, if there is one; raises ConfigError."""
        from kafkapy.security.tls.certificate_names import names_in, require_names
        from kafkapy.security.tls.context import server_context
        from kafkapy.security.tls.key_store import key_store
        from kafkapy.security.tls.principal_mapping import PrincipalMapping, PrincipalMappingError

        store = key_store(settings)
        self._context = server_context(settings, protocol, store)
        self.names = names_in(store)
        """The names in the certificate."""
        if in_use is not None:
            require_names(settings, self.names, in_use)
        try:
            self._mapping = PrincipalMapping(settings["ssl.principal.mapping.rules"])
        except PrincipalMappingError as error:
            raise settings.wrong("ssl.principal.mapping.rules", str(error)) from None

    def open(self, sock: socket.socket) -> Channel:
        """The channel of a client that has connected; raises OSError."""
        from kafkapy.network.tls_channel import TlsChannel

        return TlsChannel(sock, self._context)

    def principal_of(self, certificate: bytes | None) -> str:
        """The principal of a client with this certificate; raises PrincipalMappingError."""
        if certificate is None:
            return ANONYMOUS
        from kafkapy.security.tls.distinguished_name import subject_of

        return f"User:{self._mapping.name_of(subject_of(certificate))}"


class SecureEntrance:
    """A listener that is encrypted, demands a login, or both."""

    def __init__(
        self,
        listener: Listener,
        config: BrokerConfig,
        parts: LoginParts,
        clock: Clock,
        names_in_use: dict[str, CertificateNames],
    ) -> None:
        """`names_in_use` gets the names in the certificate, by listener; raises ConfigError."""
        self._listener = listener
        self._config = config
        self._settings = ListenerConfig(config, listener.name)
        self._parts = parts
        self._clock = clock
        self._names_in_use = names_in_use
        self._tls: Tls | None = None
        self._mechanisms: dict[str, Mechanism] = {}
        self._limits: LoginLimits
        self._configure()

    def follow(self) -> None:
        """Take the settings that have changed, for clients that come from now on.

        Files are read again. What cannot be used changes nothing, and is logged.
        """
        try:
            self._configure()
        except ConfigError as error:
            logger.error("The listener %s keeps its keys and logins: %s", self._listener.name, error)

    def _configure(self) -> None:
        settings, protocol = self._settings, self._listener.protocol
        name, tls = self._listener.name, None
        if protocol.is_encrypted:
            tls = Tls(settings, protocol, self._names_in_use.get(name))
        if protocol.has_login:
            self._mechanisms = mechanisms_of(settings, self._config.originals, self._parts)
            self._limits = LoginLimits(
                settings["sasl.server.max.receive.size"],
                self._config["connection.failed.authentication.delay.ms"] / 1000,
                {name: settings.of_mechanism(name)["connections.max.reauth.ms"] for name in self._mechanisms},
            )
        self._tls = tls
        if tls is not None:
            self._names_in_use[name] = tls.names

    def open(self, sock: socket.socket) -> Channel:
        """The channel of a client that has connected; raises OSError."""
        return PlainChannel(sock) if self._tls is None else self._tls.open(sock)

    def admit(self, connection: Connection, channel: Channel) -> str | None:
        """Let a client log in, or give it the name in its certificate; return why not, or None."""
        if self._listener.protocol.has_login:
            connection.login = SaslLogin(connection, self._mechanisms, self._limits, self._clock)
        elif self._tls is not None:
            try:
                connection.principal = self._tls.principal_of(channel.certificate)
            except ValueError as error:
                return str(error)
        return None
