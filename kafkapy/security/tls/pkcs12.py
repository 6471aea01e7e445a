"""PKCS12 files, which the package cryptography reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkapy.security.tls.key_store import KeyStore
from kafkapy.security.tls.settings import TlsSettings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates


def key_store_of(config: TlsSettings, content: bytes) -> KeyStore:
    """The key and certificates of a PKCS12 keystore.

    Raises:
        ConfigError: it cannot be read, or has no key.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    store = _load(config, "keystore", config["ssl.keystore.password"], content)
    if store.key is None or store.cert is None:
        raise config.wrong("ssl.keystore.location", "the file has no key with a certificate")
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = [each.certificate.public_bytes(Encoding.PEM) for each in (store.cert, *store.additional_certs)]
    return KeyStore(b"".join((key, *chain)).decode(), "")


def trusted_of(config: TlsSettings, content: bytes) -> str:
    """The certificates of a PKCS12 truststore, as PEM.

    Raises:
        ConfigError: it cannot be read.
    """
    from cryptography.hazmat.primitives.serialization import Encoding

    store = _load(config, "truststore", config["ssl.truststore.password"], content)
    certificates = [*store.additional_certs] if store.cert is None else [store.cert, *store.additional_certs]
    return b"".join(each.certificate.public_bytes(Encoding.PEM) for each in certificates).decode()


def _load(config: TlsSettings, kind: str, password: str | None, content: bytes) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise config.wrong(
            f"ssl.{kind}.type", "PKCS12 needs the package cryptography: pip install 'kafkapy[security]'"
        ) from None
    try:
        return pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except ValueError as error:
        raise config.wrong(
            f"ssl.{kind}.location", f"cannot read the PKCS12 file; check ssl.{kind}.password ({error})"
        ) from None
