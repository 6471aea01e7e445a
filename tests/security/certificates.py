"""An authority, and what it has signed."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NamedTuple

import trustme


class Certificates(NamedTuple):
    """PEM files: keys are in the same file as their certificates."""

    authority: Path
    server: Path
    client: Path
    stranger: Path
    """Signed by another authority."""


def make_certificates(folder: Path) -> Certificates:
    """Certificates for 127.0.0.1, and for the client `CN=alice,OU=…,O=…`."""
    found = Certificates(*(folder / f"{name}.pem" for name in Certificates._fields))
    ours = trustme.CA()
    ours.cert_pem.write_to_path(str(found.authority))
    server = ours.issue_cert("127.0.0.1", "localhost")
    client = ours.issue_cert(common_name="alice", organization_name="Example", organization_unit_name="Tests")
    stranger = trustme.CA().issue_cert(common_name="mallory")
    for issued, path in ((server, found.server), (client, found.client), (stranger, found.stranger)):
        issued.private_key_and_cert_chain_pem.write_to_path(str(path))
    return found


def trusting(certificates: Certificates, client: str | None = None) -> ssl.SSLContext:
    """The context of a client that trusts the authority; `client` names its own certificate."""
    context = ssl.create_default_context(cafile=str(certificates.authority))
    if client is not None:
        context.load_cert_chain(str(getattr(certificates, client)))
    return context
