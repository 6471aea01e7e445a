"""Commands reach clusters with TLS and logins, and say in one line why they do not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kafkapy import Broker
from kafkapy.configs.security_protocol import SecurityProtocol
from tests.commands.conftest import invoke
from tests.security.certificates import Certificates
from tests.security.conftest import issuer, listeners
from tests.security.issuer import Issuer
from tests.security.listeners import Listeners, settings

__all__ = ["issuer", "listeners"]

_PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{}";'


class Client:
    """Runs `kafkapy topics list` with a file of client properties."""

    def __init__(self, listeners: Listeners, folder: Path) -> None:
        self._listeners, self._file = listeners, folder / "client.properties"

    def list_topics(self, protocol: SecurityProtocol, **properties: str) -> tuple[int, str]:
        """The exit status and standard error; `a__b` stands for the property `a.b`."""
        named = {"security.protocol": str(protocol)}
        named |= {name.replace("__", "."): value for name, value in properties.items()}
        return self.with_properties(protocol, named)

    def with_properties(self, protocol: SecurityProtocol, properties: Mapping[str, str]) -> tuple[int, str]:
        self._file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        address = self._listeners.address(protocol)
        options = ("--bootstrap-server", address, "--command-config", str(self._file), "--timeout", "2")
        result = invoke("topics", "list", *options)
        return result.exit_code, result.stderr


@pytest.fixture
def client(listeners: Listeners, tmp_path: Path) -> Client:
    return Client(listeners, tmp_path)


_NO_TOPICS = (0, "there are no topics.\n")


def test_tls_with_a_truststore_and_with_a_certificate(client: Client, certificates: Certificates) -> None:
    protocol, authority = SecurityProtocol.SSL, str(certificates.authority)
    assert client.list_topics(protocol, ssl__truststore__location=authority) == _NO_TOPICS
    assert (
        client.list_topics(
            protocol, ssl__truststore__location=authority, ssl__keystore__location=str(certificates.client)
        )
        == _NO_TOPICS
    )


def test_tls_with_stores_in_the_properties(client: Client, certificates: Certificates) -> None:
    key, _, chain = certificates.client.read_text().partition("-----BEGIN CERTIFICATE-----")
    inline = {
        "ssl__truststore__certificates": certificates.authority.read_text(),
        "ssl__keystore__key": key,
        "ssl__keystore__certificate__chain": "-----BEGIN CERTIFICATE-----" + chain,
    }
    escaped = {name: value.replace("\n", "\\n") for name, value in inline.items()}
    assert client.list_topics(SecurityProtocol.SSL, **escaped) == _NO_TOPICS


def test_a_server_of_another_authority_is_not_trusted(client: Client, certificates: Certificates) -> None:
    other = str(certificates.other_authority)
    status, message = client.list_topics(SecurityProtocol.SSL, ssl__truststore__location=other)
    assert status == 1
    assert "certificate verify failed" in message
    assert "ssl.truststore.location" in message
    assert "Is one running there" not in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_listener_that_wants_a_certificate_says_so(
    certificates: Certificates, issuer: Issuer, tmp_path: Path, version: str
) -> None:
    config = settings(certificates, issuer)
    config |= {"listener.name.ssl.ssl.client.auth": "required", "ssl.enabled.protocols": version}
    with Broker(config=config) as broker:
        client = Client(Listeners(broker), tmp_path)
        authority = {"ssl__truststore__location": str(certificates.authority)}
        for wrong in (None, certificates.stranger, certificates.former):
            shown = {} if wrong is None else {"ssl__keystore__location": str(wrong)}
            status, message = client.list_topics(SecurityProtocol.SSL, **authority, **shown)
            assert status == 1
            assert "want a certificate" in message.replace("wants", "want")
            assert "ssl.keystore.location" in message
            assert "Is one running there" not in message
            assert len(message.splitlines()) == 1
        right = {"ssl__keystore__location": str(certificates.client)}
        assert client.list_topics(SecurityProtocol.SSL, **authority, **right) == _NO_TOPICS


def test_a_store_in_javas_format_is_refused_with_the_command_that_converts_it(
    client: Client, tmp_path: Path
) -> None:
    (tmp_path / "store.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\x02")
    store = str(tmp_path / "store.jks")
    status, message = client.list_topics(SecurityProtocol.SSL, ssl__truststore__location=store)
    assert status == 1
    assert f"{store} is not PEM; convert it: keytool -importkeystore" in message


def test_a_login_by_password_over_tls(client: Client, certificates: Certificates) -> None:
    found = client.list_topics(
        SecurityProtocol.SASL_SSL,
        ssl__truststore__location=str(certificates.authority),
        sasl__mechanism="PLAIN",
        sasl__jaas__config=_PLAIN.format("alice-secret"),
    )
    assert found == _NO_TOPICS


def test_a_password_comes_from_a_file_or_a_variable(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("alice-secret\n")
    monkeypatch.setenv("ALICE", "alice-secret")
    for reference in (f"${{file:{tmp_path / 'secret'}}}", "${ALICE}"):
        for properties in (
            {"sasl__jaas__config": _PLAIN.format(reference)},
            {"sasl__username": "alice", "sasl__password": reference},
        ):
            found = client.list_topics(SecurityProtocol.SASL_PLAINTEXT, sasl__mechanism="PLAIN", **properties)
            assert found == _NO_TOPICS


def test_a_wrong_password_is_the_likely_reason(client: Client) -> None:
    status, message = client.list_topics(
        SecurityProtocol.SASL_PLAINTEXT, sasl__mechanism="PLAIN", sasl__jaas__config=_PLAIN.format("wrong")
    )
    assert status == 1
    assert "the broker ended the connection: are user, password and mechanism right?" in message
    assert len(message.splitlines()) == 1


def test_a_login_with_a_token_from_a_file(client: Client, issuer: Issuer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(issuer.token("alice"))
    properties = {
        "sasl__mechanism": "OAUTHBEARER",
        "sasl__oauthbearer__token__endpoint__url": (tmp_path / "token").as_uri(),
    }
    assert client.list_topics(SecurityProtocol.SASL_PLAINTEXT, **properties) == _NO_TOPICS


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"sasl.mechanism": "PLAIN"}, "sasl.mechanism=PLAIN needs a user"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": "x"}, "must end with a semicolon"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a"}, "nobody can be asked"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "${NO_SUCH}"},
            "NO_SUCH is not set",
        ),
        ({"sasl.mechanism": "OAUTHBEARER"}, "expected file:///PATH of a file with the token"),
        ({"sasl.mecanism": "PLAIN"}, "sasl.mecanism: no such property of Kafka's clients"),
    ],
)
def test_a_login_that_cannot_work_is_refused_before_it_is_tried(
    client: Client, properties: dict[str, str], message: str
) -> None:
    protocol = SecurityProtocol.SASL_PLAINTEXT
    status, found = client.with_properties(protocol, {"security.protocol": str(protocol), **properties})
    assert status == 1
    assert message in found


def test_a_listener_of_another_protocol_is_no_broker(client: Client) -> None:
    status, message = client.with_properties(SecurityProtocol.SSL, {"security.protocol": "PLAINTEXT"})
    assert status == 1
    assert message.startswith("kafkapy: no broker answers at 127.0.0.1:")
    assert "security.protocol" in message
