"""An operator's own classes check passwords and tokens, and have the credentials of SCRAM."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Final

import pytest
import trustme

from kafkapy import Broker
from kafkapy.broker.core import StartError
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.security.sasl.scram_credential import ScramMechanism
from tests.network.raw_client import RawClient
from tests.security.issuer import Issuer
from tests.security.listeners import Listeners
from tests.security.operator_logins import END_MS
from tests.security.scram_client import ScramClient

SASL: Final = SecurityProtocol.SASL_PLAINTEXT
OF_LISTENER: Final = "listener.name.sasl_plaintext"
HANDLER: Final = "sasl.server.callback.handler.class"
PACKAGE: Final = "org.apache.kafka.common.security"
LINES: Final = {
    "PLAIN": f'{PACKAGE}.plain.PlainLoginModule required ending="-secret";',
    "SCRAM-SHA-256": f"{PACKAGE}.scram.ScramLoginModule required;",
    "SCRAM-SHA-512": f"{PACKAGE}.scram.ScramLoginModule required;",
    "OAUTHBEARER": f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required;",
}
CLASSES: Final = {"PLAIN": "Directory", "OAUTHBEARER": "Tokens", **dict.fromkeys(list(LINES)[1:3], "Vault")}


def config(classes: dict[str, str]) -> dict[str, str]:
    """The settings of a broker whose mechanisms have these classes."""
    found = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": ",".join(classes),
        "connection.failed.authentication.delay.ms": "0",
        "our.ending": "!",
    }
    for mechanism, name in classes.items():
        of_mechanism = f"{OF_LISTENER}.{mechanism.lower()}"
        found[f"{of_mechanism}.sasl.jaas.config"] = LINES[mechanism]
        found[f"{of_mechanism}.{HANDLER}"] = f"tests.security.operator_logins:{name}"
    return found


@pytest.fixture(scope="module")
def listeners() -> Iterator[Listeners]:
    with Broker(config=config(CLASSES)) as broker:
        yield Listeners(broker)


def chosen(listeners: Listeners, mechanism: str) -> RawClient:
    client = listeners.connect(SASL)
    assert client.ask(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == ErrorCode.NONE
    return client


@pytest.mark.parametrize(
    ("password", "error"),
    [("alice-secret!", ErrorCode.NONE), ("alice-secret", ErrorCode.SASL_AUTHENTICATION_FAILED)],
)
def test_a_class_checks_passwords(listeners: Listeners, password: str, error: ErrorCode) -> None:
    with chosen(listeners, "PLAIN") as client:
        token = f"\0alice\0{password}".encode()
        assert client.ask(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == error


def test_a_class_checks_tokens(listeners: Listeners) -> None:
    with chosen(listeners, "OAUTHBEARER") as client:
        request = SaslAuthenticateRequest(auth_bytes=b"n,,\x01auth=Bearer alice.good\x01\x01")
        answer = client.ask(request, 2)
        assert (answer.error_code, answer.auth_bytes) == (ErrorCode.NONE, b"")
        assert 0 < answer.session_lifetime_ms < END_MS
        assert client.ask(MetadataRequest(topics=[]), 12).brokers


@pytest.mark.parametrize("token", ["alice.bad", "broken.good"])
def test_a_token_that_the_class_does_not_know_lets_nobody_in(listeners: Listeners, token: str) -> None:
    with chosen(listeners, "OAUTHBEARER") as client:
        request = SaslAuthenticateRequest(auth_bytes=f"n,,\x01auth=Bearer {token}\x01\x01".encode())
        assert b"invalid_token" in client.ask(request, 2).auth_bytes
        again = client.ask(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
        assert again.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("which", ScramMechanism)
@pytest.mark.parametrize(
    ("user", "password", "error"),
    [
        ("alice", "ecila", ErrorCode.NONE),
        ("alice", "alice", ErrorCode.SASL_AUTHENTICATION_FAILED),
        ("nobody", "ydobon", ErrorCode.SASL_AUTHENTICATION_FAILED),
        ("broken", "nekorb", ErrorCode.SASL_AUTHENTICATION_FAILED),
        ("weak", "kaew", ErrorCode.SASL_AUTHENTICATION_FAILED),
    ],
)
def test_a_class_has_the_credentials_of_scram(
    listeners: Listeners, which: ScramMechanism, user: str, password: str, error: ErrorCode
) -> None:
    """A user whose password is hashed too seldom does not come in, as in Apache Kafka."""
    with chosen(listeners, which.text) as client:
        login = ScramClient(which, user, password)
        first = client.ask(SaslAuthenticateRequest(auth_bytes=login.first()), 2)
        assert first.error_code == ErrorCode.NONE
        final = client.ask(SaslAuthenticateRequest(auth_bytes=login.final(first.auth_bytes)), 2)
        assert final.error_code == error


def test_a_class_of_another_mechanism_ends_the_start() -> None:
    with pytest.raises(StartError, match="Directory is not a subclass of CredentialFinder"):
        Broker(config=config({"SCRAM-SHA-256": "Directory"})).start()


def test_no_class_checks_logins_by_kerberos() -> None:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "GSSAPI",
        f"{OF_LISTENER}.gssapi.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;",
        f"{OF_LISTENER}.gssapi.{HANDLER}": "tests.security.operator_logins:Directory",
    }
    with pytest.raises(StartError, match=f"gssapi.{HANDLER}: no class checks logins by GSSAPI"):
        Broker(config=settings).start()


@pytest.mark.parametrize("prefix", ["", f"{OF_LISTENER}.oauthbearer."])
def test_kafkas_check_of_signed_tokens_is_known_by_its_name(issuer: Issuer, prefix: str) -> None:
    """Apache Kafka 4.1 needs it against CVE-2026-33557."""
    settings = {
        **issuer.settings,
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{OF_LISTENER}.oauthbearer.sasl.jaas.config": LINES["OAUTHBEARER"],
        f"{prefix}sasl.oauthbearer.jwt.validator.class": f"{PACKAGE}.oauthbearer.BrokerJwtValidator",
    }
    with Broker(config=settings) as broker, chosen(Listeners(broker), "OAUTHBEARER") as client:
        first = f"n,,\x01auth=Bearer {issuer.token('alice')}\x01\x01".encode()
        assert client.ask(SaslAuthenticateRequest(auth_bytes=first), 2).auth_bytes == b""


@pytest.mark.parametrize("is_named", [True, False])
def test_the_line_may_name_the_authority_of_those_who_sign_tokens(
    issuer: Issuer, tmp_path: Path, is_named: bool
) -> None:
    """An issuer within a company has a certificate that no system knows."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    keys = Path(issuer.settings["sasl.oauthbearer.jwks.endpoint.url"].removeprefix("file://")).read_bytes()

    def serve(listening: socket.socket) -> None:
        plain = listening.accept()[0]
        try:
            with context.wrap_socket(plain, server_side=True) as client:
                client.recv(1 << 16)
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(keys)}\r\nConnection: close\r\n\r\n"
                client.sendall(head.encode() + keys)
        except OSError:
            plain.close()

    options = f' ssl.truststore.type="PEM" ssl.truststore.location="{tmp_path}/ca.pem"' if is_named else ""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=serve, args=(listening,))
        thread.start()
        settings = {
            **issuer.settings,
            "sasl.oauthbearer.jwks.endpoint.url": f"https://localhost:{listening.getsockname()[1]}/keys",
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{OF_LISTENER}.oauthbearer.sasl.jaas.config": f"{LINES['OAUTHBEARER'][:-1]}{options};",
        }
        with Broker(config=settings) as broker, chosen(Listeners(broker), "OAUTHBEARER") as client:
            first = f"n,,\x01auth=Bearer {issuer.token('alice')}\x01\x01".encode()
            answer = client.ask(SaslAuthenticateRequest(auth_bytes=first), 2)
        thread.join()
    assert (answer.auth_bytes == b"") is is_named


def test_an_authority_that_cannot_be_read_ends_the_start(issuer: Issuer, tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    settings = {
        **issuer.settings,
        "sasl.oauthbearer.jwks.endpoint.url": "https://localhost/keys",
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{OF_LISTENER}.oauthbearer.sasl.jaas.config": (
            f'{LINES["OAUTHBEARER"][:-1]} ssl.truststore.type="PEM" ssl.truststore.location="{missing}";'
        ),
    }
    with pytest.raises(StartError, match=r"sasl\.jaas\.config: ssl\.truststore\.location: cannot read"):
        Broker(config=settings).start()
