"""The names in the broker's certificate, which a new certificate must have too.

A certificate that is exchanged while the broker runs must have the subject of the old one, and all of its
alternative names; otherwise clients that check the names would be locked out by a mistake.
`ssl.allow.dn.changes` and `ssl.allow.san.changes` allow other names. Source: Kafka's
SslFactory.CertificateEntries.
"""

from __future__ import annotations

import base64
import re
import socket
from typing import Final, NamedTuple

from kafkapy.security.tls.der import Element, dotted, elements, fields_of
from kafkapy.security.tls.distinguished_name import subject_of
from kafkapy.security.tls.key_store import KeyStore
from kafkapy.security.tls.settings import TlsSettings

_CERTIFICATE: Final = re.compile(r"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.*?)-----END", re.DOTALL)
_EXTENSIONS: Final = 0xA3
_ALTERNATIVE_NAMES: Final = "2.5.29.17"
_KINDS: Final = {0x81: "email", 0x82: "DNS", 0x86: "URI"}
_ADDRESS: Final = 0x87
_FAMILIES: Final = {4: socket.AF_INET, 16: socket.AF_INET6}


class CertificateNames(NamedTuple):
    """Whom a certificate is for."""

    subject: str
    alternatives: frozenset[str]
    """Such as `DNS:localhost`."""


def names_in(store: KeyStore) -> CertificateNames:
    """The names in the certificate of a key, which OpenSSL has read before."""
    found = _CERTIFICATE.search(store.pem)
    assert found is not None
    certificate = base64.b64decode(found[1])
    return CertificateNames(subject_of(certificate), frozenset(_alternatives(certificate)))


def require_names(settings: TlsSettings, new: CertificateNames, old: CertificateNames) -> None:
    """See that a new certificate has the names of the one in use, or may have others.

    Raises:
        ConfigError: it has not.
    """
    if not settings["ssl.allow.dn.changes"] and new.subject.lower() != old.subject.lower():
        raise settings.wrong(
            _setting(settings),
            f"the certificate is for {new.subject!r}, and the one in use is for {old.subject!r};"
            " choose another, or start the broker with ssl.allow.dn.changes=true",
        )
    missing = old.alternatives - new.alternatives
    if not settings["ssl.allow.san.changes"] and missing:
        raise settings.wrong(
            _setting(settings),
            f"the certificate lacks names of the one in use: {', '.join(sorted(missing))};"
            " choose another, or start the broker with ssl.allow.san.changes=true",
        )


def _setting(settings: TlsSettings) -> str:
    """The setting that the certificate comes from."""
    chain = "ssl.keystore.certificate.chain"
    return "ssl.keystore.location" if settings[chain] is None else chain


def _alternatives(certificate: bytes) -> list[str]:
    for field in fields_of(certificate):
        if field.tag == _EXTENSIONS:
            (extensions,) = elements(field.content)
            for extension in elements(extensions.content):
                oid, *_, value = elements(extension.content)
                if dotted(oid.content) == _ALTERNATIVE_NAMES:
                    (names,) = elements(value.content)
                    return [_text(name) for name in elements(names.content)]
    return []


def _text(name: Element) -> str:
    if name.tag in _KINDS:
        return f"{_KINDS[name.tag]}:{str(name.content, 'ascii', 'replace')}"
    family = _FAMILIES.get(len(name.content))
    if name.tag == _ADDRESS and family is not None:
        return f"IP:{socket.inet_ntop(family, name.content)}"
    return name.whole.hex()
