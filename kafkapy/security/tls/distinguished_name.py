"""The subject of a certificate, as Java writes it (X500Principal.getName, RFC 2253).

The names of clients by certificate, and so the ACLs of a cluster, have exactly this form: the last part
first, separated by commas without spaces, with attributes that RFC 2253 does not name as numbers and
hexadecimal values. Python's ssl gives neither the order of multiple values nor the encoding of a value, so
the bytes are read here. OpenSSL has verified the certificate before.
"""

from __future__ import annotations

from typing import Final

from kafkapy.security.tls.der import Element, dotted, elements, fields_of

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes that RFC 2253 names."""

_ENCODINGS: Final = {
    0x0C: "utf-8",  # UTF8String
    0x13: "latin-1",  # PrintableString
    0x14: "latin-1",  # TeletexString
    0x16: "ascii",  # IA5String
    0x1B: "ascii",  # GeneralString
    0x1C: "utf-32-be",  # UniversalString
    0x1E: "utf-16-be",  # BMPString
}
_ESCAPED: Final = frozenset(',+"\\<>;')


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER form."""
    fields = fields_of(certificate)
    # The serial number, signature algorithm, issuer and validity come before it.
    subject = fields[4]
    return ",".join(_relative_name(each) for each in reversed(list(elements(subject.content))))


def _relative_name(element: Element) -> str:
    """One part of a name: an attribute, or several joined by plus signs."""
    attributes = [_attribute(*elements(each.content)) for each in elements(element.content)]
    return "+".join(sorted(attributes))


def _attribute(oid: Element, value: Element) -> str:
    name = dotted(oid.content)
    keyword, encoding = _KEYWORDS.get(name), _ENCODINGS.get(value.tag)
    if keyword is None or encoding is None:
        return f"{keyword or name}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(str(value.content, encoding, 'replace'))}"


def _escaped(text: str) -> str:
    escaped = "".join(f"\\{char}" if char in _ESCAPED else char for char in text)
    stripped = escaped.strip(" ")
    if not stripped:
        return "\\ " * len(escaped)
    start = len(escaped) - len(escaped.lstrip(" "))
    end = len(escaped) - len(escaped.rstrip(" "))
    if stripped.startswith("#"):
        stripped = "\\" + stripped
    return "\\ " * start + stripped + "\\ " * end
