"""Kafka's client properties as the arguments of kafka-python's clients.

Properties of producers and consumers have the same names in kafka-python, with underscores. What neither
knows is ignored, as Java's clients do: one file is often for several kinds of clients. A property of
security that is not known is refused: a connection would be less safe than its file says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafkapy.commands.connection import tls
from kafkapy.commands.connection.references import PROMPT, resolved
from kafkapy.commands.connection.target import BOOTSTRAP_SERVERS
from kafkapy.errors import UserError
from kafkapy.security.sasl.jaas import JaasError, parse_jaas

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MECHANISMS: Final = (*_PASSWORD_MECHANISMS, "OAUTHBEARER", "GSSAPI")
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_KNOWN: Final = frozenset(
    {
        "security.protocol",
        "security.providers",
        "sasl.jaas.config",
        "sasl.kerberos.service.name",
        "sasl.mechanism",
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.password",
        "sasl.username",
        _TOKEN_URL,
    }
)
# They steer refreshes of tickets and tokens: commands are over before.
_IGNORED_PREFIXES: Final = ("sasl.login.", "sasl.client.", "sasl.kerberos.", "sasl.oauthbearer.")

_WORDS: Final[dict[tuple[str, str], Any]] = {
    ("acks", "all"): -1,
    ("compression_type", "none"): None,
    ("compression_type", ""): None,
}


def client_config(properties: Mapping[str, str], *, without_user: bool = False) -> dict[str, Any]:
    """The connection's arguments of kafka-python's clients, with the secrets.

    Args:
        properties: Kafka's client properties.
        without_user: they have no user, whom `password_login` adds later.

    Raises:
        UserError: a property of security has no value that can be used.
    """
    check_properties(properties)
    values = {name: resolved(name, value.strip()) for name, value in properties.items() if _connects(name)}
    protocol = values.get("security.protocol", "PLAINTEXT").upper()
    config: dict[str, Any] = {
        "bootstrap_servers": _servers(values[BOOTSTRAP_SERVERS]),
        "client_id": values.get("client.id", "kafkapy"),
        "security_protocol": protocol,
    }
    if protocol.endswith("SSL"):
        config["ssl_context"] = tls.tls_context(values)
    if without_user:
        config |= _sasl_without_user(protocol, values)
    elif protocol.startswith("SASL_"):
        config |= _sasl(values)
    return config


def password_login(user: str, password: str) -> dict[str, str]:
    """The arguments of kafka-python's clients for a user who logs in by PLAIN or SCRAM."""
    return {"sasl_plain_username": user, "sasl_plain_password": password}


def role_config(properties: Mapping[str, str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that kafka-python's `defaults` have, in their types."""
    config: dict[str, Any] = {}
    for name, value in properties.items():
        key = name.replace(".", "_")
        if key not in defaults or _connects(name) or key.endswith("serializer"):
            continue
        if (key, value.strip()) in _WORDS:
            config[key] = _WORDS[key, value.strip()]
            continue
        default = defaults[key]
        try:
            if isinstance(default, bool):
                config[key] = {"true": True, "false": False}[value.strip().lower()]
            elif isinstance(default, int):
                config[key] = int(value)
            elif default is None or isinstance(default, str):
                config[key] = value.strip()
        except (KeyError, ValueError):
            kind = "true or false" if isinstance(default, bool) else "a whole number"
            raise UserError(f"{name}={value}: expected {kind}") from None
    return config


def check_properties(properties: Mapping[str, str]) -> None:
    """Raises UserError for properties that cannot be right; no secret is read."""
    for name in properties:
        if not name.startswith(("security.", "sasl.", "ssl.")):
            continue
        if name not in _KNOWN | tls.NAMES | tls.IGNORED and not name.startswith(_IGNORED_PREFIXES):
            raise UserError(f"{name}: no such property of Kafka's clients; check its spelling")
    for name, values in (("security.protocol", _PROTOCOLS), ("sasl.mechanism", _MECHANISMS)):
        value = properties.get(name, values[0])
        if value.strip().upper() not in values and "${" not in value:
            raise UserError(f"{name}={value}: expected {', '.join(values)}")
    if BOOTSTRAP_SERVERS in properties:
        _servers(properties[BOOTSTRAP_SERVERS])


def _connects(name: str) -> bool:
    return name.startswith(("security.", "sasl.", "ssl.")) or name in (BOOTSTRAP_SERVERS, "client.id")


def _servers(text: str) -> list[str]:
    servers = [server.strip() for server in text.split(",") if server.strip()]
    if not servers:
        raise UserError("--bootstrap-server is empty: expected HOST:PORT, or several with commas")
    for server in servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise UserError(f"--bootstrap-server {server}: expected HOST:PORT")
    return servers


def _sasl(values: Mapping[str, str]) -> dict[str, Any]:
    mechanism = values.get("sasl.mechanism", "GSSAPI")
    config: dict[str, Any] = {"sasl_mechanism": mechanism}
    if mechanism in _PASSWORD_MECHANISMS:
        config |= password_login(*_login(values))
    elif mechanism == "OAUTHBEARER":
        from kafkapy.commands.connection.token import token_provider

        config["sasl_oauth_token_provider"] = token_provider(_TOKEN_URL, values.get(_TOKEN_URL))
    elif name := values.get("sasl.kerberos.service.name"):
        config["sasl_kerberos_service_name"] = name
    return config


def _sasl_without_user(protocol: str, values: Mapping[str, str]) -> dict[str, Any]:
    mechanism = values.get("sasl.mechanism", "")
    if not protocol.startswith("SASL_") or mechanism not in _PASSWORD_MECHANISMS:
        raise UserError(
            "--login: set security.protocol to SASL_PLAINTEXT or SASL_SSL, and sasl.mechanism to one of"
            f" {', '.join(_PASSWORD_MECHANISMS)}, in --command-config"
        )
    for name in ("sasl.jaas.config", "sasl.username", "sasl.password"):
        if name in values:
            raise UserError(f"--login: users give name and password themselves; remove {name}")
    return {"sasl_mechanism": mechanism}


def _login(values: Mapping[str, str]) -> tuple[str, str]:
    if line := values.get("sasl.jaas.config"):
        try:
            options = parse_jaas(line).options
        except JaasError as error:
            raise UserError(f"sasl.jaas.config: {error}") from None
        user, password = options.get("username"), options.get("password")
        if user and options.get("tokenauth", "false").lower() == "true":
            from kafkapy.commands.connection.token_login import TokenId, teach_token_logins

            teach_token_logins()
            user = TokenId(user)
    else:
        user, password = values.get("sasl.username"), values.get("sasl.password")
        if user is not None and password is None:
            password = resolved(f"password of {user}", PROMPT)
    if not user or password is None:
        raise UserError(
            f"sasl.mechanism={values.get('sasl.mechanism')} needs a user: set sasl.jaas.config, "
            "or sasl.username and sasl.password"
        )
    return user, password
