"""The expected names are those of Java's X500Principal.getName()."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kafkapy.security.tls.distinguished_name import subject_of

KEY = ec.generate_private_key(ec.SECP256R1())
Part = list[tuple[x509.ObjectIdentifier, str]]


def certificate(*parts: Part) -> bytes:
    names = [x509.RelativeDistinguishedName([x509.NameAttribute(*each) for each in part]) for part in parts]
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder(
        x509.Name([]), x509.Name(names), KEY.public_key(), 7, now, now + datetime.timedelta(days=1)
    )
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


def common_name(text: str) -> bytes:
    return certificate([(NameOID.COMMON_NAME, text)])


def test_the_last_part_of_a_name_comes_first() -> None:
    subject = certificate(
        [(NameOID.COUNTRY_NAME, "DE")],
        [(NameOID.ORGANIZATION_NAME, "Ex, Am")],
        [(NameOID.ORGANIZATIONAL_UNIT_NAME, "a"), (NameOID.ORGANIZATIONAL_UNIT_NAME, "b")],
        [(NameOID.COMMON_NAME, 'Mü"x')],
        [(NameOID.USER_ID, "u1")],
    )
    assert subject_of(subject) == 'UID=u1,CN=Mü\\"x,OU=a+OU=b,O=Ex\\, Am,C=DE'


def test_attributes_that_rfc_2253_does_not_name_are_numbers_with_hexadecimal_values() -> None:
    subject = certificate([(NameOID.EMAIL_ADDRESS, "a@b.c")], [(NameOID.SERIAL_NUMBER, "12")])
    assert subject_of(subject) == "2.5.4.5=#13023132,1.2.840.113549.1.9.1=#16056140622e63"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("#x", "\\#x"),
        (" x ", "\\ x\\ "),
        ("a b", "a b"),
        ("a+b;c<d>e\\f", "a\\+b\\;c\\<d\\>e\\\\f"),
    ],
)
def test_characters_with_a_meaning_are_escaped(text: str, written: str) -> None:
    assert subject_of(common_name(text)) == f"CN={written}"


def test_a_certificate_may_have_no_subject() -> None:
    assert subject_of(certificate()) == ""
