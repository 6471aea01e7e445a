"""Any certificate in a truststore is trusted as it is, as in Java, and not only roots."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kafkapy import Broker
from kafkapy.commands.connection.tls import tls_context
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.protocol.messages.metadata import MetadataRequest
from tests.network.raw_client import RawClient
from tests.security.certificates import Certificates, trusting
from tests.security.listeners import Listeners

SSL = SecurityProtocol.SSL


def ask(certificates: Certificates, client: Path, trusted: Sequence[Path]) -> None:
    """Ask a broker that trusts these certificates, with the certificate of this client."""
    bundle = client.with_name("trusted.pem")
    bundle.write_bytes(b"".join(path.read_bytes() for path in trusted))
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(bundle),
        "ssl.client.auth": "required",
    }
    context = trusting(certificates)
    context.load_cert_chain(client)
    with Broker(config=settings) as broker, Listeners(broker).connect(SSL, context) as connection:
        assert connection.ask(MetadataRequest(topics=[]), 12).brokers


def self_signed(path: Path) -> Path:
    """The certificate of a client that is its own authority; each has the same subject."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=1))
    made = builder.not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256())
    path.with_suffix(".crt").write_bytes(made.public_bytes(Encoding.PEM))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(private + made.public_bytes(Encoding.PEM))
    return path


def test_clients_with_the_same_subject_are_told_apart(certificates: Certificates, tmp_path: Path) -> None:
    clients = [self_signed(tmp_path / name) for name in ("a.pem", "b.pem")]
    trusted = [client.with_suffix(".crt") for client in clients]
    for client in clients:
        ask(certificates, client, trusted)


def test_a_stranger_with_the_subject_of_a_trusted_client_is_refused(
    certificates: Certificates, tmp_path: Path
) -> None:
    trusted, stranger = self_signed(tmp_path / "a.pem"), self_signed(tmp_path / "b.pem")
    with pytest.raises(OSError, match=r"(?i)alert|reset|closed|pipe|EOF"):
        ask(certificates, stranger, [trusted.with_suffix(".crt")])


def test_an_authority_that_another_has_signed_is_enough(certificates: Certificates, tmp_path: Path) -> None:
    authority = trustme.CA().create_child_ca()
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    client = tmp_path / "client.pem"
    authority.issue_cert("alice@example.org").private_key_and_cert_chain_pem.write_to_path(str(client))
    ask(certificates, client, [tmp_path / "authority.pem"])


def test_commands_trust_an_authority_that_another_has_signed(tmp_path: Path) -> None:
    authority = trustme.CA().create_child_ca()
    server, trusted = tmp_path / "server.pem", tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(trusted))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(server))
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server),
    }
    context = tls_context({"ssl.truststore.location": str(trusted)})
    with Broker(config=settings) as broker, RawClient(Listeners(broker).address(SSL)) as client:
        client.encrypt(context)
        assert client.ask(MetadataRequest(topics=[]), 12).brokers
