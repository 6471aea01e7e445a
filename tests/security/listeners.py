"""A broker with listeners of all security protocols, as tests reach them."""

from __future__ import annotations

import socket
import ssl

from kafkapy import Broker
from kafkapy.configs.listeners import format_address
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.configs.unsupported import TOKEN_VALIDATORS
from kafkapy.network.connection import Connection
from tests.network.raw_client import RawClient
from tests.security.certificates import Certificates
from tests.security.issuer import Issuer

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
PLAIN_USERS = {"alice": "alice-secret", "bob": 'b"ob'}


def settings(certificates: Certificates, issuer: Issuer) -> dict[str, str]:
    """The settings of such a broker."""
    found = {
        "listeners": ",".join(f"{protocol}://127.0.0.1:0" for protocol in SecurityProtocol),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "listener.name.ssl.ssl.client.auth": "requested",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        **issuer.settings,
    }
    users = " ".join(f'user_{name}="{_escaped(password)}"' for name, password in PLAIN_USERS.items())
    modules = {
        "PLAIN": f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};",
        "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
    }
    for protocol in SecurityProtocol:
        if protocol.has_login:
            for mechanism, line in modules.items():
                prefix = f"listener.name.{protocol.lower()}.{mechanism.lower()}"
                found[f"{prefix}.sasl.jaas.config"] = line
            handler = f"listener.name.{protocol.lower()}.oauthbearer.sasl.server.callback.handler.class"
            found[handler] = TOKEN_VALIDATORS[0]
    return found


def _escaped(text: str) -> str:
    return text.replace('"', '\\"')


class Listeners:
    """The listeners of a running broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def address(self, protocol: SecurityProtocol) -> str:
        listening = self.broker.core.server.listening
        port = next(each.port for each in listening if each.name == protocol)
        return format_address("127.0.0.1", port)

    def connect(self, protocol: SecurityProtocol, context: ssl.SSLContext | None = None) -> RawClient:
        """A connection, with its handshake done."""
        client = RawClient(self.address(protocol))
        if context is not None:
            client.encrypt(context)
        return client

    def connection_of(self, client_socket: socket.socket) -> Connection:
        """The broker's end of a connection."""
        port = client_socket.getsockname()[1]
        connections = tuple(self.broker.core.server.connections)
        return next(each for each in connections if each.peer_port == port)
