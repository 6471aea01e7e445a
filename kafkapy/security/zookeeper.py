"""How the broker comes in at ZooKeeper, from its settings.

`zookeeper.sasl.jaas.config` has the section `Client` of the JAAS file that Java's property
`java.security.auth.login.config` names:

    org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="secret";

Source: Kafka's JaasUtils.isZkSaslEnabled and KafkaZkClient.createZkClient.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafkapy.configs.keys import ConfigError
from kafkapy.metadata.zookeeper_access import ZooKeeperAccess, ZooKeeperLogin
from kafkapy.security.sasl.jaas import JaasError, parse_jaas

LOGIN: Final = "zookeeper.sasl.jaas.config"
_MODULE: Final = "DigestLoginModule"


def zookeeper_access(config: Mapping[str, Any]) -> ZooKeeperAccess:
    """How the broker comes in.

    Raises:
        ConfigError: its key or its login cannot be used, or it would own nodes without either.
    """
    encryption = None
    if config["zookeeper.ssl.client.enable"]:
        from kafkapy.security.tls.zookeeper_tls import zookeeper_context

        encryption = zookeeper_context(config)
    text = config[LOGIN]
    login = _login(text) if text else None
    own_nodes: bool = config["zookeeper.set.acl"]
    has_key = encryption is not None and config["zookeeper.ssl.keystore.location"]
    if own_nodes and login is None and not has_key:
        raise ConfigError(
            f"zookeeper.set.acl=true: nodes cannot belong to a broker without a name; set {LOGIN}, or"
            " zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location"
        )
    return ZooKeeperAccess(encryption, login, own_nodes)


def _login(text: str) -> ZooKeeperLogin:
    try:
        module = parse_jaas(text)
    except JaasError as error:
        raise ConfigError(f"{LOGIN}: {error}") from None
    if module.class_name.rpartition(".")[2] != _MODULE:
        raise ConfigError(f"{LOGIN}: expected {_MODULE}, found {module.class_name}")
    for name in ("username", "password"):
        if not module.options.get(name):
            raise ConfigError(f"{LOGIN}: ZooKeeper is asked to let this broker in: add {name}=…")
    return ZooKeeperLogin(module.options["username"], module.options["password"])
