"""How the broker reaches those who sign tokens, from the options of a JAAS line.

    …OAuthBearerLoginModule required ssl.truststore.type="PEM" ssl.truststore.location="/etc/kafkapy/ca.pem";

They have the names and the defaults of a client's settings. Source: Kafka's JaasOptionsUtils.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from kafkapy.configs.keys import ConfigError, broker_key
from kafkapy.configs.listener_config import ListenerConfig
from kafkapy.security.sasl.jaas import JAAS
from kafkapy.security.tls.context import client_context


def issuer_context(config: ListenerConfig, options: Mapping[str, str]) -> ssl.SSLContext:
    """The context of connections to an issuer; `options` are those of the line.

    Raises:
        ConfigError: the options cannot be used.
    """
    return client_context(_OptionsOfLine(config, options))


class _OptionsOfLine:
    """The options of a line, by the names that listeners have for them."""

    def __init__(self, config: ListenerConfig, options: Mapping[str, str]) -> None:
        self._config = config
        self._options = options

    def __getitem__(self, name: str, /) -> Any:
        key = broker_key(name)
        try:
            return key.parse(self._options.get(name, key.default))
        except ConfigError as error:
            raise self._config.wrong(JAAS, str(error)) from None

    def wrong(self, name: str, reason: str) -> ConfigError:
        return self._config.wrong(JAAS, f"{name}: {reason}")
