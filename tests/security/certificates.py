"""An authority, and what it has signed."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
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
    former: Path
    """A client's, and the server's, whose time is over."""
    future: Path
    """A client's whose time has not come."""
    alone: Path
    """A client's that nobody else has signed."""


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
    names, now = ("127.0.0.1", "localhost", "alice@example.org"), datetime.now(UTC)
    day, year = timedelta(days=1), timedelta(days=365)
    _write(ours.issue_cert(*names, not_before=now - year, not_after=now - day), found.former)
    _write(ours.issue_cert(*names, not_before=now + day, not_after=now + year), found.future)
    alone = trustme.CA()
    _write_pem(alone.private_key_pem, [alone.cert_pem], found.alone)
    _write(other.issue_cert("mallory@example.org", common_name="mallory"), found.stranger)
    return found


def _write(issued: trustme.LeafCert, path: Path) -> None:
    _write_pem(issued.private_key_pem, issued.cert_chain_pems, path)


def _write_pem(private_key: trustme.Blob, chain: Sequence[trustme.Blob], path: Path) -> None:
    """Write a key, as PKCS #8, which is all that Java reads, and its certificates."""
    key = load_pem_private_key(private_key.bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(b"".join((pem, *(each.bytes() for each in chain))))


def trusting(certificates: Certificates, client: str | None = None) -> ssl.SSLContext:
    """The context of a client that trusts the authority; `client` names its own certificate."""
    context = ssl.create_default_context(cafile=str(certificates.authority))
    if client is not None:
        context.load_cert_chain(str(getattr(certificates, client)))
    return context
