"""TLS of a client: Kafka's `ssl.*` properties as a context of Python's ssl.

Stores are PEM files, or PEM texts in the properties (KIP-651). Java's own formats are refused, with the
command that converts them.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kafkapy.errors import UserError

NAMES: Final = frozenset(
    {
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
# They choose among Java's classes and protocols: Python's defaults are TLS 1.2 and 1.3.
IGNORED: Final = frozenset(
    {
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """The context; without a truststore, the system's authorities are trusted."""
    try:
        context = ssl.create_default_context(
            cafile=_pem_file(properties, "ssl.truststore"),
            cadata=properties.get("ssl.truststore.certificates"),
        )
        # As in Java, each certificate of a truststore is trusted, not only the roots.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.check_hostname = bool(properties.get("ssl.endpoint.identification.algorithm", "https"))
        password = properties.get("ssl.key.password")
        if location := _pem_file(properties, "ssl.keystore"):
            _load_chain(context, Path(location), password)
        elif key := properties.get("ssl.keystore.key"):
            _load_text(context, key + "\n" + properties.get("ssl.keystore.certificate.chain", ""), password)
    except ssl.SSLError as error:
        raise UserError(f"ssl.*: {error.reason or error}; check the PEM files and ssl.key.password") from None
    return context


def _pem_file(properties: Mapping[str, str], store: str) -> str | None:
    """The path of a store; raises UserError if it is none of PEM."""
    name = f"{store}.location"
    if not (location := properties.get(name)):
        return None
    path = Path(location).expanduser()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{name}: {path} cannot be read: {error.strerror}") from None
    if b"-----BEGIN " not in content:
        raise UserError(
            f"{name}: {path} is not PEM; convert it: keytool -importkeystore -deststoretype PKCS12 "
            f"-srckeystore {path} -destkeystore store.p12, then openssl pkcs12 -in store.p12 -out store.pem"
        )
    return str(path)


def _load_chain(context: ssl.SSLContext, path: Path, password: str | None) -> None:
    # Without a password, OpenSSL would ask for it on the terminal.
    context.load_cert_chain(path, password=password or "")


def _load_text(context: ssl.SSLContext, text: str, password: str | None) -> None:
    """Write a key to a file for a moment: Python's ssl reads keys from files only."""
    descriptor, name = tempfile.mkstemp(prefix="kafkapy-key")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
        _load_chain(context, Path(name), password)
    finally:
        Path(name).unlink()
