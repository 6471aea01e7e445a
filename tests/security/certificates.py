"""An authority, and what it has signed."""

from __future__ import annotations

import ssl
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


class Certificates(NamedTuple):
    """PEM files: keys are in the same file as their certificates."""

    authority: Path
    server: Path
    client: Path
    other_authority: Path
    stranger: Path
    """Signed by the other authority."""
    renewed: Path
    """The server's names, and a new key."""
    renamed: Path
    """Another subject for the server."""
    narrowed: Path
    """The server without the name localhost."""
    widened: Path
    """The server with one more name."""


def make_certificates(folder: Path) -> Certificates:
    """Certificates for 127.0.0.1, and for the client `CN=alice,OU=…,O=…`."""
    found = Certificates(*(folder / f"{name}.pem" for name in Certificates._fields))
    ours, other = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(str(found.authority))
    other.cert_pem.write_to_path(str(found.other_authority))
    client = ours.issue_cert(
        "alice@example.org",  # Java reads no certificate without such a name
        common_name="alice",
        organization_name="Example",
        organization_unit_name="Tests",
    )
    # trustme would make another subject for each.
    server = partial(ours.issue_cert, organization_name="Example", organization_unit_name="Brokers")
    _write(server("127.0.0.1", "localhost"), found.server)
    _write(server("localhost", "127.0.0.1"), found.renewed)
    _write(server("127.0.0.1", "localhost", common_name="another"), found.renamed)
    _write(server("127.0.0.1"), found.narrowed)
    _write(server("127.0.0.1", "localhost", "example.org"), found.widened)
    _write(client, found.client)
    _write(other.issue_cert("mallory@example.org", common_name="mallory"), found.stranger)
    return found


def _write(issued: trustme.LeafCert, path: Path) -> None:
    """Write a key, as PKCS #8, which is all that Java reads, and its certificates."""
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(b"".join((pem, *(each.bytes() for each in issued.cert_chain_pems))))


def trusting(certificates: Certificates, client: str | None = None) -> ssl.SSLContext:
    """The context of a client that trusts the authority; `client` names its own certificate."""
    context = ssl.create_default_context(cafile=str(certificates.authority))
    if client is not None:
        context.load_cert_chain(str(getattr(certificates, client)))
    return context
