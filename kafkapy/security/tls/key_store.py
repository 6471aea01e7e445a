"""Keys and certificates, from the settings `ssl.keystore.*` and `ssl.truststore.*`.

They are PEM: a file, or the value of a setting. A PKCS12 file is converted to PEM, which needs the package
cryptography. Java's own format, JKS, is refused with the command that converts it: nothing in Python reads it
that is still maintained.

A request can name another file while the broker runs, so only a plain file of bounded size is read: a device
would have no end, and a pipe would keep the event loop waiting.

Source: Kafka's DefaultSslEngineFactory.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

from kafkapy.security.tls.settings import TlsSettings

PEM: Final = "PEM"
PKCS12: Final = "PKCS12"
_JKS: Final = b"\xfe\xed\xfe\xed"
"""How files in Java's own format begin."""
MOST_BYTES: Final = 1 << 22
"""How long a store may be; the authorities of a whole system are 200 KB."""


class KeyStore(NamedTuple):
    """A private key and the certificates that prove whose it is."""

    pem: str
    """The key and the chain of certificates, the owner's first."""
    password: str
    """The password of the key; empty if it has none."""


def has_key_store(config: TlsSettings) -> bool:
    """Whether the settings name a key, or half of one."""
    names = ("ssl.keystore.location", "ssl.keystore.key", "ssl.keystore.certificate.chain")
    return any(config[name] is not None for name in names)


def key_store(config: TlsSettings) -> KeyStore:
    """The broker's key and certificates.

    Raises:
        ConfigError: the settings name none, or one that cannot be read.
    """
    key, chain = config["ssl.keystore.key"], config["ssl.keystore.certificate.chain"]
    if key is not None or chain is not None:
        _require_pem(config, "keystore", "ssl.keystore.key")
        if key is None or chain is None:
            name = "ssl.keystore.key" if key is None else "ssl.keystore.certificate.chain"
            raise config.wrong(name, "not set, but the other half of the key and its certificates is")
        return KeyStore(f"{_with_lines(key)}\n{_with_lines(chain)}\n", config["ssl.key.password"] or "")
    location = config["ssl.keystore.location"]
    if location is None:
        raise config.wrong(
            "ssl.keystore.location",
            "not set; TLS needs a certificate: name a PEM file with key and chain",
        )
    kind, content = _stored(config, "keystore", location)
    if kind == PKCS12:
        from kafkapy.security.tls.pkcs12 import key_store_of

        return key_store_of(config, content)
    return KeyStore(content.decode("ascii", "replace"), config["ssl.key.password"] or "")


def trusted_certificates(config: TlsSettings) -> str | None:
    """The certificates of the trusted authorities, as PEM; None if none are named.

    Raises:
        ConfigError: they cannot be read.
    """
    certificates = config["ssl.truststore.certificates"]
    if certificates is not None:
        _require_pem(config, "truststore", "ssl.truststore.certificates")
        return _with_lines(certificates)
    location = config["ssl.truststore.location"]
    if location is None:
        return None
    kind, content = _stored(config, "truststore", location)
    if kind == PKCS12:
        from kafkapy.security.tls.pkcs12 import trusted_of

        return trusted_of(config, content)
    return content.decode("ascii", "replace")


def _stored(config: TlsSettings, store: str, location: str) -> tuple[str, bytes]:
    """The format of a store, PEM or PKCS12, and its content; raises ConfigError."""
    content = _read(config, f"ssl.{store}.location", location)
    setting = f"ssl.{store}.type"
    kind: str = config[setting].upper()
    if kind == PEM:
        _refuse_password(config, store)
    elif kind == "JKS":
        if content.startswith(_JKS):
            p12, pem = (Path(location).with_suffix(suffix) for suffix in (".p12", ".pem"))
            no_key = " -nokeys" if store == "truststore" else ""
            raise config.wrong(
                setting,
                "JKS is Java's own format; convert it: keytool -importkeystore -deststoretype PKCS12"
                f" -srckeystore {location} -destkeystore {p12}; openssl pkcs12 -in {p12} -out {pem}{no_key};"
                f" then set {setting}=PEM and ssl.{store}.location={pem}, and remove ssl.{store}.password",
            )
        if content.lstrip().startswith(b"-----BEGIN "):
            raise config.wrong(setting, f"{location} is a PEM file: set {setting}=PEM")
        # Java reads it by this name too. Since Java 9, keytool makes such files unless it is told otherwise.
        kind = PKCS12
    elif kind != PKCS12:
        raise config.wrong(setting, f"expected PEM or PKCS12, found {kind}")
    return kind, content


def _require_pem(config: TlsSettings, store: str, setting: str) -> None:
    if config[f"ssl.{store}.type"].upper() != PEM:
        raise config.wrong(setting, f"needs ssl.{store}.type=PEM")
    if config[f"ssl.{store}.location"] is not None:
        raise config.wrong(setting, f"set this or ssl.{store}.location, not both")
    _refuse_password(config, store)


def _refuse_password(config: TlsSettings, store: str) -> None:
    """PEM is not encrypted as a whole; raises ConfigError, as Apache Kafka does."""
    setting = f"ssl.{store}.password"
    if config[setting]:
        of_key = "; ssl.key.password is the password of the key" if store == "keystore" else ""
        raise config.wrong(setting, f"ssl.{store}.type=PEM has no password: remove it{of_key}")


def _read(config: TlsSettings, setting: str, location: str) -> bytes:
    try:
        # Without O_NONBLOCK, opening a pipe waits for somebody who writes.
        fd = os.open(location, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise config.wrong(setting, f"cannot read {location}: it is no file")
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise config.wrong(setting, f"cannot read {location}: {error.strerror}") from None
    if len(content) > MOST_BYTES:
        raise config.wrong(setting, f"cannot read {location}: it has more than {MOST_BYTES} bytes")
    return content


def _with_lines(pem: str) -> str:
    """A PEM value as OpenSSL reads it; settings may have spaces for its line ends."""
    if "\n" in pem.strip():
        return pem
    parts = []
    for part in pem.split("-----"):
        marker = part.strip().startswith(("BEGIN ", "END "))
        parts.append(f"-----{part.strip()}-----" if marker else "\n".join(part.split()))
    return "\n".join(filter(None, parts))
