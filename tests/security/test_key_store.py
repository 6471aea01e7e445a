"""Keys and certificates in every form that the settings allow, as they start a broker."""

from __future__ import annotations

import re
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from kafkapy import Broker
from kafkapy.broker.core import StartError
from kafkapy.configs.security_protocol import SecurityProtocol
from kafkapy.protocol.messages.metadata import MetadataRequest
from tests.security.certificates import Certificates, trusting
from tests.security.listeners import Listeners

CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"
PASSWORD: Final = "of the key"
Settings = dict[str, str]


def parts(store: Path) -> tuple[EllipticCurvePrivateKey, str]:
    """The key in a PEM file, and the text of its certificates."""
    key, marker, chain = store.read_text().partition(CERTIFICATE)
    found = load_pem_private_key(key.encode(), None)
    assert isinstance(found, EllipticCurvePrivateKey)
    return found, marker + chain


def encrypted(key: EllipticCurvePrivateKey, *, old: bool = False) -> str:
    """The key as PKCS #8 with a password; the old way is the one that Java 17 reads."""
    if not old:
        made = key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD.encode())
        )
        return made.decode()
    command = ["openssl", "pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-passout", f"pass:{PASSWORD}"]
    plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return subprocess.run(command, input=plain, capture_output=True, check=True).stdout.decode()


def in_one_line(pem: str) -> str:
    """A PEM value as a line of server.properties has it."""
    return " ".join(pem.split("\n")).strip()


def file_with_a_password(certificates: Certificates, folder: Path) -> Settings:
    key, chain = parts(certificates.server)
    (folder / "store.pem").write_text(encrypted(key) + chain)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "store.pem"),
        "ssl.key.password": PASSWORD,
    }


def file_with_an_old_password(certificates: Certificates, folder: Path) -> Settings:
    """As Kafka's own documents encrypt a key."""
    key, chain = parts(certificates.server)
    settings = file_with_a_password(certificates, folder)
    (folder / "store.pem").write_text(encrypted(key, old=True) + chain)
    return settings


def values(certificates: Certificates, folder: Path) -> Settings:
    key, chain = parts(certificates.server)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": in_one_line(encrypted(key)),
        "ssl.keystore.certificate.chain": in_one_line(chain),
        "ssl.key.password": PASSWORD,
    }


def values_with_line_ends(certificates: Certificates, folder: Path) -> Settings:
    key, chain = parts(certificates.server)
    return values(certificates, folder) | {
        "ssl.keystore.key": encrypted(key),
        "ssl.keystore.certificate.chain": chain,
    }


def pkcs12_file(certificates: Certificates, folder: Path) -> Settings:
    key, chain = parts(certificates.server)
    own, *others = x509.load_pem_x509_certificates(chain.encode())
    content = pkcs12.serialize_key_and_certificates(
        b"broker", key, own, others, BestAvailableEncryption(b"of the store")
    )
    (folder / "store.p12").write_bytes(content)
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(folder / "store.p12"),
        "ssl.keystore.password": "of the store",
        "ssl.key.password": "of the store",
    }


def trusted_file(certificates: Certificates, folder: Path) -> Settings:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.authority)}


def trusted_values(certificates: Certificates, folder: Path) -> Settings:
    return {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": in_one_line(certificates.authority.read_text()),
    }


def trusted_pkcs12(certificates: Certificates, folder: Path) -> Settings:
    authority = x509.load_pem_x509_certificate(certificates.authority.read_bytes())
    entry = pkcs12.PKCS12Certificate(authority, b"authority")
    content = pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(b"of the store"))
    (folder / "trusted.p12").write_bytes(content)
    return {
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(folder / "trusted.p12"),
        "ssl.truststore.password": "of the store",
    }


Form = Callable[[Certificates, Path], Settings]
KEYS: Final[tuple[Form, ...]] = (
    file_with_a_password,
    file_with_an_old_password,
    values,
    values_with_line_ends,
    pkcs12_file,
)
TRUSTED: Final[tuple[Form, ...]] = (trusted_file, trusted_values, trusted_pkcs12)


def broker_of(settings: Settings) -> Broker:
    return Broker(config={"listeners": "SSL://127.0.0.1:0", **settings})


def name_of(form: Form) -> str:
    return form.__name__


@pytest.mark.parametrize("of_key", KEYS, ids=name_of)
def test_the_key_may_be_a_file_or_a_value(certificates: Certificates, tmp_path: Path, of_key: Form) -> None:
    context = trusting(certificates)
    with (
        broker_of(of_key(certificates, tmp_path)) as broker,
        Listeners(broker).connect(SecurityProtocol.SSL, context) as client,
    ):
        assert client.ask(MetadataRequest(topics=[]), 12).brokers


@pytest.mark.parametrize("of_trust", TRUSTED, ids=name_of)
def test_the_trusted_authorities_may_be_a_file_or_a_value(
    certificates: Certificates, tmp_path: Path, of_trust: Form
) -> None:
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
        "ssl.client.auth": "required",
        **of_trust(certificates, tmp_path),
    }
    with broker_of(settings) as broker:
        listeners = Listeners(broker)
        with listeners.connect(SecurityProtocol.SSL, trusting(certificates, "client")) as client:
            assert client.ask(MetadataRequest(topics=[]), 12).brokers
            principal = listeners.connection_of(client.socket).principal
            assert principal.startswith("User:CN=alice,")
        with (
            pytest.raises((ssl.SSLError, ConnectionError)),
            listeners.connect(SecurityProtocol.SSL, trusting(certificates, "stranger")) as client,
        ):
            client.ask(MetadataRequest(topics=[]), 12)


CHANGES: Final[dict[str, tuple[Form, Settings, str]]] = {
    "no password of the key": (
        file_with_a_password,
        {"ssl.key.password": ""},
        "ssl.keystore.location: cannot use the key and its certificates; check ssl.key.password",
    ),
    "a wrong password of the key": (
        file_with_a_password,
        {"ssl.key.password": "wrong"},
        "ssl.keystore.location: cannot use the key and its certificates; check ssl.key.password",
    ),
    "a wrong password of a PKCS12 file": (
        pkcs12_file,
        {"ssl.keystore.password": "wrong"},
        "ssl.keystore.location: cannot read the PKCS12 file; check ssl.keystore.password",
    ),
    "a password of a PEM file": (
        file_with_a_password,
        {"ssl.keystore.password": "x"},
        "ssl.keystore.password: ssl.keystore.type=PEM has no password: remove it; ssl.key.password is the"
        " password of the key",
    ),
    "a password of PEM values": (
        values,
        {"ssl.keystore.password": "x"},
        "ssl.keystore.password: ssl.keystore.type=PEM has no password",
    ),
    "a password of trusted PEM": (
        file_with_a_password,
        {
            "ssl.client.auth": "required",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": __file__,
            "ssl.truststore.password": "x",
        },
        "ssl.truststore.password: ssl.truststore.type=PEM has no password: remove it",
    ),
    "a value and a file": (
        values,
        {"ssl.keystore.location": "/x"},
        "ssl.keystore.key: set this or ssl.keystore.location, not both",
    ),
    "values that are called PKCS12": (
        values,
        {"ssl.keystore.type": "PKCS12"},
        "ssl.keystore.key: needs ssl.keystore.type=PEM",
    ),
    "another type": (
        pkcs12_file,
        {"ssl.keystore.type": "BCFKS"},
        "ssl.keystore.type: expected PEM or PKCS12, found BCFKS",
    ),
}


@pytest.mark.parametrize(("of_key", "more", "message"), CHANGES.values(), ids=CHANGES)
def test_what_cannot_be_used_ends_the_start(
    certificates: Certificates, tmp_path: Path, of_key: Form, more: Settings, message: str
) -> None:
    """Apache Kafka refuses these, too."""
    with pytest.raises(StartError, match=re.escape(message)) as raised:
        broker_of({**of_key(certificates, tmp_path), **more}).start()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("store", "no_key"), [("keystore", ""), ("truststore", " -nokeys")])
def test_javas_format_is_refused_with_the_commands_that_convert_it(
    certificates: Certificates, tmp_path: Path, store: str, no_key: str
) -> None:
    """Without a type, Java's is meant.

    `interop/security/test_key_stores.py` runs the commands.
    """
    path = tmp_path / "my.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    with pytest.raises(StartError) as raised:
        broker_of({**of_other_store(certificates, store), f"ssl.{store}.location": str(path)}).start()
    p12, pem = path.with_suffix(".p12"), path.with_suffix(".pem")
    assert str(raised.value) == (
        f"ssl.{store}.type: JKS is Java's own format; convert it:"
        f" keytool -importkeystore -deststoretype PKCS12 -srckeystore {path} -destkeystore {p12};"
        f" openssl pkcs12 -in {p12} -out {pem}{no_key};"
        f" then set ssl.{store}.type=PEM and ssl.{store}.location={pem}, and remove ssl.{store}.password"
    )


def of_other_store(certificates: Certificates, store: str) -> Settings:
    """A broker that asks for certificates, without its keystore or its truststore."""
    settings = {
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
    }
    return {name: value for name, value in settings.items() if not name.startswith(f"ssl.{store}")}


@pytest.mark.parametrize("of_store", [pkcs12_file, trusted_pkcs12], ids=name_of)
def test_a_pkcs12_file_is_known_without_its_type(
    certificates: Certificates, tmp_path: Path, of_store: Form
) -> None:
    """Java's keytool makes them, and Apache Kafka reads them as JKS."""
    stored = of_store(certificates, tmp_path)
    store = "keystore" if of_store is pkcs12_file else "truststore"
    del stored[f"ssl.{store}.type"]
    trust = trusted_file(certificates, tmp_path) if of_store is pkcs12_file else {}
    with (
        broker_of({**of_other_store(certificates, store), **trust, **stored}) as broker,
        Listeners(broker).connect(SecurityProtocol.SSL, trusting(certificates, "client")) as client,
    ):
        assert client.ask(MetadataRequest(topics=[]), 12).brokers


@pytest.mark.parametrize("store", ["keystore", "truststore"])
def test_a_pem_file_needs_its_type(certificates: Certificates, store: str) -> None:
    with pytest.raises(StartError, match=f"is a PEM file: set ssl.{store}.type=PEM"):
        broker_of(
            {**of_other_store(certificates, store), f"ssl.{store}.location": str(certificates.server)}
        ).start()


@pytest.mark.parametrize(
    ("suites", "agreed"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", ("TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305")),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", ("TLSv1.2", "ECDHE-ECDSA-AES128-SHA256")),
        (
            "TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256",
            ("TLSv1.3", "TLS_AES_256_GCM_SHA384"),
        ),
    ],
)
def test_suites_have_javas_names(certificates: Certificates, suites: str, agreed: tuple[str, str]) -> None:
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
        "ssl.cipher.suites": suites,
    }
    with (
        broker_of(settings) as broker,
        Listeners(broker).connect(SecurityProtocol.SSL, trusting(certificates)) as client,
    ):
        assert isinstance(client.socket, ssl.SSLSocket)
        cipher = client.socket.cipher()
        assert cipher is not None
        assert (client.socket.version(), cipher[0]) == agreed


@pytest.mark.parametrize(
    ("suites", "message"),
    [
        (
            "TLS_AES_256_GCM_SHA384",
            "the suites of TLS 1.3 cannot be chosen singly; add TLS_AES_128_GCM_SHA256",
        ),
        ("TLS_NO_SUCH_SUITE", "none of these is known here: TLS_NO_SUCH_SUITE"),
    ],
)
def test_suites_that_cannot_be_chosen_end_the_start(
    certificates: Certificates, suites: str, message: str
) -> None:
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server),
        "ssl.cipher.suites": suites,
    }
    with pytest.raises(StartError, match=f"ssl.cipher.suites: {message}"):
        broker_of(settings).start()
