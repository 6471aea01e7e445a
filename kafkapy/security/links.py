"""How this broker reaches others: encrypted and logged in, as their listener demands.

The settings are those of `inter.broker.listener.name`. The certificate that its clients see is shown to
other brokers, too. Source: Kafka's ChannelBuilders.clientChannelBuilder.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from kafkapy.configs.config import BrokerConfig
from kafkapy.configs.keys import ConfigError
from kafkapy.configs.listener_config import ListenerConfig

if TYPE_CHECKING:
    from kafkapy.security.sasl.client_login import ClientLogin
    from kafkapy.security.tls.certificate_names import CertificateNames

MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")

logger = logging.getLogger(__name__)


class LinkLogin(NamedTuple):
    """How this broker logs in at others."""

    mechanism: str
    begin: Callable[[str], ClientLogin]
    """Begins an attempt at a host."""


class LinkSecurity:
    """What a connection to another broker begins with; nothing for PLAINTEXT."""

    context: ssl.SSLContext | None = None
    """Encrypts it; None: it is not encrypted."""
    login: LinkLogin | None = None
    """None: there is no login."""

    def __init__(self, config: BrokerConfig) -> None:
        """Raises ConfigError."""
        self._config = config
        self._names: CertificateNames | None = None
        """The names in the certificate that other brokers see; None if there is none."""
        self._configure()

    def follow(self) -> None:
        """Take the settings that have changed, for connections from now on.

        Files are read again. What cannot be used changes nothing, and is logged.
        """
        try:
            self._configure()
        except ConfigError as error:
            logger.error("The links to other brokers keep their keys and logins: %s", error)

    def _configure(self) -> None:
        protocol = self._config.inter_broker_protocol
        settings = ListenerConfig(self._config, self._config.inter_broker_listener)
        context = login = None
        if protocol.is_encrypted:
            context = self._context(settings)
        if protocol.has_login:
            login = self._login(settings)
        self.context, self.login = context, login

    def _context(self, settings: ListenerConfig) -> ssl.SSLContext:
        from kafkapy.security.tls.certificate_names import names_in, require_names
        from kafkapy.security.tls.context import client_context
        from kafkapy.security.tls.key_store import has_key_store, key_store

        context = client_context(settings)
        names = names_in(key_store(settings)) if has_key_store(settings) else None
        if names is not None and self._names is not None:
            require_names(settings, names, self._names)
        self._names = names
        return context

    def _login(self, listener: ListenerConfig) -> LinkLogin:
        from kafkapy.security.sasl.jaas import JAAS
        from kafkapy.security.sasl.mechanisms import login_module

        mechanism: str = self._config[MECHANISM]
        if mechanism not in _MECHANISMS:
            raise ConfigError(
                f"{MECHANISM}={mechanism}: brokers log in at each other by {', '.join(_MECHANISMS[:-1])} or"
                f" {_MECHANISMS[-1]}; name one"
            )
        if mechanism not in listener["sasl.enabled.mechanisms"]:
            raise ConfigError(
                f"{MECHANISM}={mechanism}: the listener {listener.listener} does not offer it; add it to"
                " sasl.enabled.mechanisms"
            )
        config = listener.of_mechanism(mechanism)
        module = login_module(mechanism, config)
        if mechanism == "GSSAPI":
            from kafkapy.security.sasl.kerberos.client import KerberosLogin
            from kafkapy.security.sasl.kerberos.library import key_of

            key = key_of(config, module)
            return LinkLogin(mechanism, lambda host: KerberosLogin(key.reach(host)))
        from kafkapy.security.sasl.client_login import BearerLogin, password_login

        if mechanism == "OAUTHBEARER":
            path = _token_file(config)
            return LinkLogin(mechanism, lambda _host: BearerLogin(path))
        options = module.options
        missing = [name for name in ("username", "password") if not options.get(name)]
        if missing:
            raise config.wrong(JAAS, f"other brokers are asked to let this one in: add {missing[0]}=…")
        begin = password_login(mechanism, options["username"], options["password"])
        return LinkLogin(mechanism, lambda _host: begin())


def _token_file(config: ListenerConfig) -> Path:
    """The file with this broker's token; raises ConfigError."""
    parts = urlsplit(config[TOKEN_URL] or "")
    path = Path(unquote(parts.path))
    if parts.scheme != "file" or not path.is_file():
        raise config.wrong(TOKEN_URL, "expected file:///…, a file with the token that this broker shows")
    return path
