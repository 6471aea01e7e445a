"""How the broker reaches ZooKeeper by TLS, from the settings `zookeeper.ssl.*`.

Names and defaults are those of ZooKeeper's client, which differ from those of listeners: one password for the
keystore and its key, types by the endings of file names, TLS 1.2. Source: Kafka's KafkaConfig 3.9,
ZooKeeper's X509Util.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kafkapy.configs.keys import ConfigError
from kafkapy.security.tls.context import client_context

_NAMES: Final = {
    "ssl.cipher.suites": "zookeeper.ssl.cipher.suites",
    "ssl.enabled.protocols": "zookeeper.ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm": "zookeeper.ssl.endpoint.identification.algorithm",
    "ssl.key.password": "zookeeper.ssl.keystore.password",
    "ssl.keystore.location": "zookeeper.ssl.keystore.location",
    "ssl.keystore.password": "zookeeper.ssl.keystore.password",
    "ssl.keystore.type": "zookeeper.ssl.keystore.type",
    "ssl.truststore.location": "zookeeper.ssl.truststore.location",
    "ssl.truststore.password": "zookeeper.ssl.truststore.password",
    "ssl.truststore.type": "zookeeper.ssl.truststore.type",
}
"""The settings of listeners, and their names here; PEM values cannot be given."""

_TYPES: Final = {".pem": "PEM", ".p12": "PKCS12", ".pfx": "PKCS12"}
"""The types of files by their endings; others are Java's JKS."""


def zookeeper_context(config: Mapping[str, Any]) -> ssl.SSLContext:
    """The context of connections to ZooKeeper.

    Raises:
        ConfigError: the settings cannot be used.
    """
    return client_context(_ZooKeeperTls(config))


class _ZooKeeperTls:
    """The settings `zookeeper.ssl.*` by the names that listeners have for them."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config

    def __getitem__(self, name: str, /) -> Any:
        own = _NAMES.get(name)
        value = None if own is None else self._config[own]
        match name:
            case "ssl.enabled.protocols":
                return value or [self._config["zookeeper.ssl.protocol"]]
            case "ssl.cipher.suites":
                return value or []
            case "ssl.keystore.type" | "ssl.truststore.type":
                location = self[name.replace("type", "location")] or ""
                return value or _TYPES.get(Path(location).suffix.lower(), "JKS")
            case "ssl.keystore.password" | "ssl.truststore.password":
                # PEM has none as a whole: it is that of the key, or counts for nothing.
                return None if self[name.replace("password", "type")].upper() == "PEM" else value
        return value

    def wrong(self, name: str, reason: str) -> ConfigError:
        return ConfigError(f"{_NAMES.get(name, name)}: {reason}")
