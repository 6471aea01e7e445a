"""How the broker comes in at ZooKeeper, from its settings.

`zookeeper.sasl.jaas.config` has the section `Client` of the JAAS file that Java's property
`java.security.auth.login.config` names:

    org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="secret";
    com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true
        keyTab="/etc/kafka.keytab" principal="kafka/host@REALM";

Source: Kafka's JaasUtils.isZkSaslEnabled and KafkaZkClient.createZkClient.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafkapy.configs.keys import ConfigError
from kafkapy.metadata.zookeeper_access import TicketLogin, ZooKeeperAccess, ZooKeeperLogin
from kafkapy.security.sasl.jaas import JaasError, parse_jaas

LOGIN: Final = "zookeeper.sasl.jaas.config"
_BY_PASSWORD: Final = "DigestLoginModule"
_BY_TICKET: Final = "Krb5LoginModule"
_SERVICE: Final = "zookeeper"
"""Of ZooKeeper's principal, zookeeper/HOST@REALM, where the line has no other serviceName."""


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


def _login(text: str) -> ZooKeeperLogin | TicketLogin:
    try:
        module = parse_jaas(text)
    except JaasError as error:
        raise ConfigError(f"{LOGIN}: {error}") from None
    kind = module.class_name.rpartition(".")[2]
    if kind == _BY_TICKET:
        from kafkapy.security.sasl.kerberos.client import TicketProof
        from kafkapy.security.sasl.kerberos.library import Key

        service = module.options.get("serviceName") or _SERVICE
        key = Key(module, service, lambda reason: ConfigError(f"{LOGIN}: {reason}"))
        return TicketLogin(module.options["principal"], lambda host: TicketProof(key.reach(host)).answer)
    if kind != _BY_PASSWORD:
        raise ConfigError(f"{LOGIN}: expected {_BY_PASSWORD} or {_BY_TICKET}, found {module.class_name}")
    for name in ("username", "password"):
        if not module.options.get(name):
            raise ConfigError(f"{LOGIN}: ZooKeeper is asked to let this broker in: add {name}=…")
    return ZooKeeperLogin(module.options["username"], module.options["password"])
